/** Proposals for tests, from the contract's answers. */

import assert from "node:assert/strict";
import { proposalFor } from "../src/core/answer.js";
import type { LineEnd } from "../src/core/lineEnds.js";
import { Proposal } from "../src/core/proposal.js";
import { answerOf, fixture } from "./fixtures.js";

/** The proposal of an edit that is answered. */
export function proposalOf(name: string, end: LineEnd = "\n"): Proposal {
  const { original } = fixture(name).request;
  const proposal = proposalFor(original, original, answerOf(name), end);
  assert.ok(proposal instanceof Proposal);
  return proposal;
}

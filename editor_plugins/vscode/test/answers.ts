/** Proposals for tests, from the contract's answers. */

import assert from "node:assert/strict";
import { proposalFor } from "../src/core/answer.js";
import type { Offer } from "../src/core/carryOver.js";
import { fits, type LineEnd } from "../src/core/lineEnds.js";
import type { Options } from "../src/core/options.js";
import { Proposal } from "../src/core/proposal.js";
import type { Readings } from "../src/core/readings.js";
import { requestOf } from "../src/core/request.js";
import { answerOf, fixture, optionsWith } from "./fixtures.js";

/** The proposal of an edit that is answered. */
export function proposalOf(name: string, end: LineEnd = "\n"): Proposal {
  const { original } = fixture(name).request;
  const proposal = proposalFor(original, answerOf(name), end);
  assert.ok(proposal instanceof Proposal);
  return proposal;
}

/** The same with the request that is answered. */
export function offerOf(name: string, options: Options = optionsWith({})): Offer {
  const { original, update, path } = fixture(name).request;
  const source = { text: original, name: path ?? null, language: "plaintext" };
  const end = fits(original, "\n") ? "\n" : "\r\n";
  return { asked: requestOf(source, { update }, options), proposal: proposalOf(name, end), readings: null };
}

/** A proposal on its own. */
export function alone(proposal: Proposal, readings: Readings | null = null): Offer {
  return { asked: {}, proposal, readings };
}

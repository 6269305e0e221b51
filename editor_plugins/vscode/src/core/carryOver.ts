/** Answers whose document was changed since the request: the edit is asked for again, to be merged with the change. */

import type { EditRequest } from "apply-service-client";
import type { Failure } from "./failure.js";
import { Proposal } from "./proposal.js";
import type { Readings } from "./readings.js";
import { sha256 } from "./request.js";

/** A proposal, the request that it answers, and where the edit is in doubt the readings that it is one of. */
export interface Offer {
  readonly asked: EditRequest;
  readonly proposal: Proposal;
  readonly readings: Readings | null;
}

/** How often an answer is asked for again, where the document is changed again meanwhile. */
const MOST_TRIES = 3;

const STILL_CHANGING: Failure = {
  code: "stale_base",
  words:
    "The document was changed again while the service worked; nothing was changed by it. " +
    "Accept a hunk to merge the edit with the document. [stale_base]",
  kind: "failed",
};

/** Whether the service can read the edit again. It can't where a model wrote the text, or hunks are decided. */
function isReadAgain({ asked, proposal }: Offer): boolean {
  const isUndecided = proposal.pending.length === proposal.hunks.length;
  return isUndecided && proposal.answer.model === null && asked.strategy !== "model" && asked.update !== undefined;
}

/** The edit that makes the one text of the other, whatever they hold. */
function editBetween(before: string, after: string): Pick<EditRequest, "update" | "format" | "strategy"> {
  const update = JSON.stringify({ old_string: before, new_string: after });
  return { update, format: "json_edit", strategy: "exact" };
}

/** The request for what is still offered, with the text that it was made for as `base` and `now` as the file. */
export function requestFor(offer: Offer, now: string): EditRequest {
  const { asked, proposal } = offer;
  if (isReadAgain(offer)) {
    const base = asked.base ?? asked.original ?? "";
    return { ...asked, original: now, base, base_sha256: sha256(base) };
  }
  const { instruction, reading, ...others } = asked;
  const base = proposal.text;
  return { ...others, original: now, base, base_sha256: sha256(base), ...editBetween(base, proposal.offered) };
}

/** The offer that the answer to such a request makes. */
function carried(offer: Offer, asked: EditRequest, proposal: Proposal): Offer {
  const readings = isReadAgain(offer) ? offer.readings : null;
  return { asked, proposal, readings: readings?.carried(asked, proposal.answer) ?? null };
}

/**
 * The offer itself where the document holds what it takes it to hold, else the one that is merged with the document;
 * or why there is none.
 *
 * `now` gives the document's text, `ask` the proposal that the answer to a request makes.
 */
export async function carryOver(
  offer: Offer,
  now: () => string,
  ask: (request: EditRequest) => Promise<Proposal | Failure>,
): Promise<Offer | Failure> {
  let found = offer;
  for (let nTries = 0; found.proposal.text !== now(); nTries++) {
    if (nTries === MOST_TRIES) return STILL_CHANGING;
    const request = requestFor(offer, now());
    const proposal = await ask(request);
    if (!(proposal instanceof Proposal)) return proposal;
    found = carried(offer, request, proposal);
  }
  return found;
}

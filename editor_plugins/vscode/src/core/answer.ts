/** Whether an answer may be used for a document, and what its findings are. */

import type { NativeAnswer } from "apply-service-client";
import { fitted, type LineEnd } from "./lineEnds.js";
import { Proposal } from "./proposal.js";
import { sha256 } from "./request.js";

/** Why an answer is not used: a code as the service's errors have one, and words for people. */
export interface Refusal {
  readonly code: string;
  readonly words: string;
}

const LISTS = ["edits", "hunks", "spans", "verdicts"] as const;

function isWhole(answer: NativeAnswer): boolean {
  const lists = LISTS.every((name) => Array.isArray(answer[name]));
  return lists && typeof answer.usage === "object" && typeof answer.timings_s === "object";
}

function bad(what: string): Refusal {
  return { code: "bad_answer", words: `${what} Nothing was changed.` };
}

/** The proposal that an answer makes for the text that was sent; `end`: the line end of its document. */
export function proposalFor(sent: string, answer: NativeAnswer, end: LineEnd): Proposal | Refusal {
  if (!isWhole(answer)) return bad("The answer is not whole.");
  if (answer.source_sha256 !== sha256(sent) || answer.result_sha256 !== sha256(answer.merged_code)) {
    return bad("The answer's hashes do not match.");
  }
  const suited = fitted(sent, answer, end);
  if (suited === null) {
    const words = "The result mixes line ends, which a document in this editor cannot hold; nothing was changed.";
    return { code: "line_ends", words };
  }
  return Proposal.of(sent, suited) ?? bad("The answer's edits do not lead to its text.");
}

/** The names of the checks that found something. */
export function foundIn(answer: NativeAnswer): string[] {
  return answer.verdicts.filter(({ severity }) => severity !== "pass").map(({ check }) => check);
}

export function hasFindings(answer: NativeAnswer): boolean {
  return foundIn(answer).length > 0;
}

/** Whether the rule of the settings accepts an answer without being asked. */
export function isAutoAccepted(answer: NativeAnswer, rule: "never" | "clean" | "always"): boolean {
  return rule === "always" || (rule === "clean" && !hasFindings(answer));
}

/** What the checks found and where the model was unsure, as places in the document as it is now. */

import type { NativeAnswer, Verdict } from "apply-service-client";
import { percent } from "./preview.js";
import type { Proposal } from "./proposal.js";

export interface Finding {
  /** Lines of the document as it is now, 0-based, inclusive. */
  readonly first: number;
  readonly last: number;
  readonly severity: "error" | "warning" | "information";
  /** The check's name, or `confidence`. */
  readonly code: string;
  readonly message: string;
}

/** Below these a hunk's confidence is told. */
export const UNSURE = 0.9;
export const VERY_UNSURE = 0.5;

function firstChange(proposal: Proposal): number {
  return proposal.hunks.length === 0 ? 0 : proposal.placeOf(0).first;
}

function verdictFinding(proposal: Proposal, verdict: Verdict): Finding {
  const [first, last] = verdict.lines ?? [null, null];
  const place = firstChange(proposal);
  return {
    first: first === null ? place : proposal.lineNow(first - 1, verdict.side),
    last: last === null ? place : proposal.lineNow(last - 1, verdict.side),
    severity: verdict.severity === "error" ? "error" : "warning",
    code: verdict.check,
    message: verdict.message === "" ? verdict.check : verdict.message,
  };
}

/** A calibrated confidence was counted on edits; a raw one is the model's own probability. */
function doubt(confidence: number, index: number, kind: NativeAnswer["confidence_kind"]): string {
  if (kind === "calibrated")
    return `Hunk ${index + 1}: of edits like it ${percent(confidence)} were right when counted.`;
  return `Hunk ${index + 1}: the model gave its least sure word ${percent(confidence)}.`;
}

function unsureFindings(proposal: Proposal): Finding[] {
  return proposal.hunks.flatMap(({ said }, index) => {
    if (said.confidence === null || said.confidence >= UNSURE || proposal.states[index] === "rejected") return [];
    const { first, last } = proposal.placeOf(index);
    const severity = said.confidence < VERY_UNSURE ? "warning" : "information";
    const message = doubt(said.confidence, index, proposal.answer.confidence_kind);
    return [{ first, last: Math.max(first, last - 1), severity, code: "confidence", message } as const];
  });
}

export function findingsOf(proposal: Proposal): Finding[] {
  const told = proposal.answer.verdicts.filter((verdict) => verdict.severity !== "pass");
  return [...told.map((verdict) => verdictFinding(proposal, verdict)), ...unsureFindings(proposal)];
}

/** An answer's verdicts as a page of plain text. */

import type { NativeAnswer, Verdict } from "apply-service-client";
import { hasSyntaxError, percent, shown } from "./preview.js";
import { speedOf } from "./status.js";

/** A text of the service on one line, without control characters. */
export function oneLine(text: string): string {
  return shown(text.replace(/\s+/g, " "), 1).replaceAll("\u00a0", " ");
}

function sure(share: number | null): string {
  return share === null ? "none (no model decided)" : percent(share);
}

function verdictLine({ check, severity, message, lines, side }: Verdict): string {
  const where = lines === null ? "" : ` (${side} lines ${lines[0]}-${lines[1]})`;
  return `${severity.padEnd(7)} ${check}${message === "" ? "" : `: ${oneLine(message)}`}${where}`;
}

/** `name`: the file's. */
export function reportOf(name: string, answer: NativeAnswer): string {
  const reasons = answer.reasons.length > 0 ? ` (${oneLine(answer.reasons.join("; "))})` : "";
  const isBroken = hasSyntaxError(answer);
  const kind = answer.confidence_kind ? ` (${answer.confidence_kind})` : "";
  const hunks = answer.hunks.map((hunk, i) => `hunk ${i + 1}/${answer.hunks.length}:   ${sure(hunk.confidence)}`);
  const lines = [
    `file:       ${oneLine(name)}`,
    `decided by: ${answer.strategy}${answer.model === null ? "" : ` (${oneLine(answer.model)})`}`,
    `confidence: ${isBroken ? "not told beside a syntax error" : `${sure(answer.confidence)}${kind}`}`,
    `merge:      ${answer.certainty}${reasons}`,
    `speed:      ${speedOf(answer)}`,
    ...(isBroken ? [] : hunks),
    "",
    ...answer.verdicts.map(verdictLine),
  ];
  return `${lines.join("\n")}\n`;
}

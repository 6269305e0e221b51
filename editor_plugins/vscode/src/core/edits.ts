/** The answer's edits as ranges of the original, and texts with some of them applied. No document is touched here. */

import type { TextEdit } from "apply-service-client";
import type { Lines } from "./lines.js";

/** What takes the place of `start..end` (UTF-16 offsets, half-open). */
export interface OffsetEdit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** The answer's edits, in order. */
export function offsetEdits(lines: Lines, edits: readonly TextEdit[]): OffsetEdit[] {
  return edits.map(({ range, newText }) => ({
    start: lines.offsetOf(range.start),
    end: lines.offsetOf(range.end),
    text: newText,
  }));
}

/** Whether edits are in order, in the text, and none overlaps another. */
export function areOrdered(edits: readonly OffsetEdit[], length: number): boolean {
  let at = 0;
  for (const { start, end } of edits) {
    if (start < at || end < start || end > length) return false;
    at = end;
  }
  return true;
}

/** The text with ordered edits applied. */
export function applyEdits(text: string, edits: readonly OffsetEdit[]): string {
  const pieces: string[] = [];
  let at = 0;
  for (const edit of edits) {
    pieces.push(text.slice(at, edit.start), edit.text);
    at = edit.end;
  }
  return pieces.join("") + text.slice(at);
}

/** By how many UTF-16 units an edit makes the text longer. */
export function growthOf(edit: OffsetEdit): number {
  return edit.text.length - (edit.end - edit.start);
}

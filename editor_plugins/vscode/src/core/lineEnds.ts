/** A document has one kind of line end. What an answer must be to fit into it. */

import type { NativeAnswer } from "apply-service-client";

export type LineEnd = "\n" | "\r\n";

const ANY_END = /\r\n|\r|\n/g;

/** Whether all of a text's lines end as the document's do. */
export function fits(text: string, end: LineEnd): boolean {
  return text.match(ANY_END)?.every((found) => found === end) ?? true;
}

/** The answer for a text without line ends, with those that its document gives to new lines. */
function converted(answer: NativeAnswer, end: LineEnd): NativeAnswer {
  const convert = (text: string): string => text.replace(ANY_END, end);
  const edits = answer.edits.map((edit) => ({ ...edit, newText: convert(edit.newText) }));
  return { ...answer, merged_code: convert(answer.merged_code), edits };
}

/** The answer as the document can hold it; null where it cannot. */
export function fitted(original: string, answer: NativeAnswer, end: LineEnd): NativeAnswer | null {
  if (fits(answer.merged_code, end)) return answer;
  return /[\r\n]/.test(original) ? null : converted(answer, end);
}

/** A document with what comes below what goes: the text of the preview's page, and what its lines are. */

import { Lines } from "./lines.js";
import type { Origin, Proposal } from "./proposal.js";

export interface MarkedLine {
  /** Of the page. */
  readonly line: number;
  /** `removed`, or where a line that comes is from. */
  readonly mark: "removed" | Origin;
}

/** A pending hunk on the page: 0-based, half-open. */
export interface PageHunk {
  readonly index: number;
  readonly first: number;
  readonly last: number;
}

export interface Below {
  readonly text: string;
  readonly lines: readonly MarkedLine[];
  readonly hunks: readonly PageHunk[];
}

/** The document as it is now, with the lines that pending hunks bring below those that they take. */
export function belowOf(proposal: Proposal): Below {
  const now = new Lines(proposal.text);
  const page: string[] = [];
  const lines: MarkedLine[] = [];
  const hunks: PageHunk[] = [];
  let next = 0;
  const take = (end: number, mark: "removed" | null): void => {
    for (; next < end; next++) {
      if (mark !== null) lines.push({ line: page.length, mark });
      page.push(now.lineText(next));
    }
  };
  for (const index of proposal.pending) {
    const place = proposal.placeOf(index);
    take(place.first, null);
    const first = page.length;
    take(place.last, "removed");
    for (const { text, origin } of proposal.hunks[index]?.added ?? []) {
      lines.push({ line: page.length, mark: origin });
      page.push(text);
    }
    hunks.push({ index, first, last: page.length });
  }
  take(now.starts.length, null);
  return { text: page.join("\n"), lines, hunks };
}

/** Index of the pending hunk at a line of the page. */
export function hunkOnPage({ hunks }: Below, line: number): number | null {
  return hunks.find(({ first, last }) => line >= first && line < last)?.index ?? null;
}

/** First line of the page's next (1) or previous (-1) hunk, round the end; null where there is none. */
export function neighbourOnPage({ hunks }: Below, line: number, step: 1 | -1): number | null {
  const firsts = hunks.map(({ first }) => first);
  if (step === 1) return firsts.find((first) => first > line) ?? firsts[0] ?? null;
  return firsts.findLast((first) => first < line) ?? firsts.at(-1) ?? null;
}

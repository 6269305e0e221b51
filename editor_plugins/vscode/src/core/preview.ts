/** What of a proposal is drawn into the document: lines that go, and beside them what comes, by origin. */

import type { NativeAnswer } from "apply-service-client";
import type { HunkState, Origin, ProposedHunk, ProposedLine, Proposal } from "./proposal.js";

/** Text beside a line; `note` is of the extension, not of the file. */
export interface Piece {
  readonly text: string;
  readonly origin: Origin | "note";
}

export interface Ghost {
  /** Line of the document as it is now. */
  readonly line: number;
  /** Beside the line's end, or before its start: above the first line there is no other. */
  readonly at: "start" | "end";
  readonly pieces: readonly Piece[];
}

export interface HunkPreview {
  readonly index: number;
  /** Lines that go, 0-based, half-open. */
  readonly first: number;
  readonly last: number;
  readonly ghosts: readonly Ghost[];
  /** For the line above: which hunk of how many, how large, how sure. */
  readonly title: string;
}

/** Most lines that are drawn beside one line; the rest is told by their number. */
export const MOST_PIECES = 6;
const MOST_CHARACTERS = 160;
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c\ufeff]/g;

/** A line of a file as text that shows what it is: no control characters, spaces that do not collapse. */
export function shown(text: string, tabSize: number): string {
  const whole = text.replaceAll("\t", " ".repeat(tabSize)).replace(HIDDEN, "·").replaceAll(" ", "\u00a0");
  const characters = [...whole.slice(0, 2 * MOST_CHARACTERS + 2)];
  return characters.length > MOST_CHARACTERS ? `${characters.slice(0, MOST_CHARACTERS).join("")}…` : whole;
}

/** The first so many lines, and how many more there are. */
function piecesOf(lines: readonly ProposedLine[], mark: string, tabSize: number): Piece[] {
  const pieces = lines.slice(0, MOST_PIECES).map(({ text, origin }, i): Piece => ({
    text: `\u00a0${i === 0 ? mark : "↵"}\u00a0${shown(text, tabSize)}\u00a0`,
    origin,
  }));
  const nMore = lines.length - pieces.length;
  return nMore > 0 ? [...pieces, { text: `\u00a0… ${nMore} more`, origin: "note" }] : pieces;
}

/** Where lines are only added: beside the line before. */
function insertion(hunk: ProposedHunk, line: number, tabSize: number): Ghost[] {
  const pieces = piecesOf(hunk.added, "+", tabSize);
  return [line > 0 ? { line: line - 1, at: "end", pieces } : { line: 0, at: "start", pieces }];
}

/** Each new line stands beside an old one; those that are left over beside the last. */
function replacement(hunk: ProposedHunk, first: number, last: number, tabSize: number): Ghost[] {
  const ghosts: Ghost[] = [];
  for (let line = first; line < last; line++) {
    const [from, to] = [line - first, line === last - 1 ? hunk.added.length : line - first + 1];
    const pieces = piecesOf(hunk.added.slice(from, to), "→", tabSize);
    if (pieces.length > 0) ghosts.push({ line, at: "end", pieces });
  }
  return ghosts;
}

export function percent(share: number): string {
  return `${Math.round(100 * share)} %`;
}

/** Whether the result does not parse: how sure the model was is then nothing to go by. */
export function hasSyntaxError({ verdicts }: NativeAnswer): boolean {
  return verdicts.some(({ check, severity }) => check === "syntax" && severity === "error");
}

function titleOf(proposal: Proposal, index: number, hunk: ProposedHunk): string {
  if (hasSyntaxError(proposal.answer)) return `${sizeOf(proposal, index, hunk)} · syntax error`;
  const sure = hunk.said.confidence === null ? "" : ` · ${percent(hunk.said.confidence)} sure`;
  return `${sizeOf(proposal, index, hunk)}${sure}`;
}

function sizeOf(proposal: Proposal, index: number, hunk: ProposedHunk): string {
  return `hunk ${index + 1}/${proposal.hunks.length} · +${hunk.added.length} −${hunk.removed.length}`;
}

/** The pending hunks as they are drawn now. */
export function previewOf(proposal: Proposal, tabSize: number): HunkPreview[] {
  const isPending = (state: HunkState | undefined): boolean => state === "pending";
  return proposal.hunks.flatMap((hunk, index) => {
    if (!isPending(proposal.states[index])) return [];
    const { first, last } = proposal.placeOf(index);
    const ghosts = first === last ? insertion(hunk, first, tabSize) : replacement(hunk, first, last, tabSize);
    return [{ index, first, last, ghosts, title: titleOf(proposal, index, hunk) }];
  });
}

/** Index of the pending hunk at a line; added lines belong to the line they stand before and the one above. */
export function hunkAt(proposal: Proposal, line: number): number | null {
  for (const index of proposal.pending) {
    const { first, last } = proposal.placeOf(index);
    if (line >= first && line < last) return index;
  }
  for (const index of proposal.pending) {
    const { first, last } = proposal.placeOf(index);
    if (first === last && (line === first || line === first - 1)) return index;
  }
  return null;
}

/** First line of the next (1) or previous (-1) pending hunk, round the end; null where there is none. */
export function lineOfNeighbour(proposal: Proposal, line: number, step: 1 | -1): number | null {
  const lines = proposal.pending.map((index) => proposal.placeOf(index).first);
  if (step === 1) return lines.find((first) => first > line) ?? lines[0] ?? null;
  return lines.findLast((first) => first < line) ?? lines.at(-1) ?? null;
}

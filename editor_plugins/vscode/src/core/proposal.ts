/** An answer as hunks that wait to be accepted or rejected. Knows texts only; a decision makes a new proposal. */

import type { Hunk, NativeAnswer, Span } from "apply-service-client";
import { applyEdits, areOrdered, growthOf, type OffsetEdit, offsetEdits } from "./edits.js";
import { Lines } from "./lines.js";

export type Origin = Span["origin"];
export type HunkState = "pending" | "accepted" | "rejected";

export interface ProposedLine {
  readonly text: string;
  readonly origin: Origin;
}

export interface ProposedHunk {
  /** Its lines in the original and the merged text, 0-based, half-open. */
  readonly said: Hunk;
  /** Of the original. */
  readonly edits: readonly OffsetEdit[];
  /** What stands there in the original. */
  readonly removed: readonly string[];
  /** What is to stand there. */
  readonly added: readonly ProposedLine[];
}

/** Lines of the text as it is now, 0-based, half-open. */
export interface Place {
  readonly first: number;
  readonly last: number;
}

/** What accepting does: edits of the text as it is now, the text they lead to, and the proposal thereafter. */
export interface Plan {
  readonly edits: readonly OffsetEdit[];
  readonly text: string;
  readonly proposal: Proposal;
}

function range(first: number, last: number): number[] {
  return Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
}

function originOf(spans: readonly Span[], line: number): Origin {
  return spans.find((span) => line >= span.start_line && line < span.end_line)?.origin ?? "model";
}

/** By how many lines a hunk makes the text longer. */
function linesGained({ said }: ProposedHunk): number {
  return said.merged_end - said.merged_start - (said.original_end - said.original_start);
}

/** Whether the hunks share out all edits, in order. */
function sharesOut(hunks: readonly Hunk[], nEdits: number): boolean {
  let at = 0;
  for (const hunk of hunks) {
    if (hunk.first_edit !== at || hunk.end_edit < at) return false;
    at = hunk.end_edit;
  }
  return at === nEdits;
}

function hunksOf(original: Lines, answer: NativeAnswer, edits: readonly OffsetEdit[]): ProposedHunk[] {
  const merged = new Lines(answer.merged_code);
  return answer.hunks.map((said) => ({
    said,
    edits: edits.slice(said.first_edit, said.end_edit),
    removed: range(said.original_start, said.original_end).map((line) => original.lineText(line)),
    added: range(said.merged_start, said.merged_end).map((line) => ({
      text: merged.lineText(line),
      origin: originOf(answer.spans, line),
    })),
  }));
}

export class Proposal {
  private constructor(
    readonly original: string,
    readonly answer: NativeAnswer,
    readonly hunks: readonly ProposedHunk[],
    readonly states: readonly HunkState[],
  ) {}

  /** The proposal that an answer makes for a text; null where its edits do not lead from the one text to the other. */
  static of(original: string, answer: NativeAnswer): Proposal | null {
    const lines = new Lines(original);
    const edits = offsetEdits(lines, answer.edits);
    const leads = areOrdered(edits, original.length) && applyEdits(original, edits) === answer.merged_code;
    if (!leads || !sharesOut(answer.hunks, edits.length)) return null;
    const hunks = hunksOf(lines, answer, edits);
    return new Proposal(
      original,
      answer,
      hunks,
      hunks.map(() => "pending"),
    );
  }

  /** What the document holds if nobody else changed it. */
  get text(): string {
    return this.#textWith((state) => state === "accepted");
  }

  /** The text if every hunk that is not rejected is accepted. */
  get offered(): string {
    return this.#textWith((state) => state !== "rejected");
  }

  get pending(): number[] {
    return this.#inState("pending");
  }

  get accepted(): number[] {
    return this.#inState("accepted");
  }

  /** The same proposal with hunks in another state. */
  with(indices: readonly number[], state: HunkState): Proposal {
    const states = this.states.map((now, i) => (indices.includes(i) ? state : now));
    return new Proposal(this.original, this.answer, this.hunks, states);
  }

  /** Exactly these hunks are accepted; the others are pending, or stay rejected. */
  withAccepted(indices: readonly number[]): Proposal {
    const states = this.states.map((now, i): HunkState => {
      if (indices.includes(i)) return "accepted";
      return now === "rejected" ? "rejected" : "pending";
    });
    return new Proposal(this.original, this.answer, this.hunks, states);
  }

  /** What accepting hunks does; those that are not pending stay what they are. */
  plan(indices: readonly number[]): Plan {
    const edits: OffsetEdit[] = [];
    let shift = 0;
    for (const [i, hunk] of this.hunks.entries()) {
      for (const edit of hunk.edits) {
        if (this.states[i] === "accepted") shift += growthOf(edit);
        else if (this.states[i] === "pending" && indices.includes(i)) {
          edits.push({ start: edit.start + shift, end: edit.end + shift, text: edit.text });
        }
      }
    }
    const pending = indices.filter((i) => this.states[i] === "pending");
    const proposal = this.with(pending, "accepted");
    return { edits, text: proposal.text, proposal };
  }

  /** Where a hunk stands in the text as it is now. */
  placeOf(index: number): Place {
    const { said } = this.#hunk(index);
    const first = said.original_start + this.#gainedBefore(index, "accepted");
    const isAccepted = this.states[index] === "accepted";
    const nLines = isAccepted ? said.merged_end - said.merged_start : said.original_end - said.original_start;
    return { first, last: first + nLines };
  }

  /** The proposed lines in the offered text, with their origin. */
  offeredLines(): { line: number; origin: Origin }[] {
    let gained = 0;
    return this.hunks.flatMap((hunk, i) => {
      if (this.states[i] === "rejected") return [];
      const first = hunk.said.original_start + gained;
      gained += linesGained(hunk);
      return hunk.added.map(({ origin }, k) => ({ line: first + k, origin }));
    });
  }

  /** Where a line of the original or the merged text is now; where it is not there, the nearest of its hunk. */
  lineNow(line: number, side: "original" | "merged"): number {
    let at = line;
    for (const [i, hunk] of this.hunks.entries()) {
      const [start, end] = [hunk.said[`${side}_start`], hunk.said[`${side}_end`]];
      if (line < start) break;
      const { first, last } = this.placeOf(i);
      if (line < end) return first + Math.max(0, Math.min(line - start, last - first - 1));
      at = last + (line - end);
    }
    return at;
  }

  #hunk(index: number): ProposedHunk {
    const hunk = this.hunks[index];
    if (hunk === undefined) throw new RangeError(`there is no hunk ${index}`);
    return hunk;
  }

  #gainedBefore(index: number, state: HunkState): number {
    return this.hunks
      .slice(0, index)
      .reduce((sum, hunk, i) => sum + (this.states[i] === state ? linesGained(hunk) : 0), 0);
  }

  #inState(state: HunkState): number[] {
    return [...this.states.keys()].filter((i) => this.states[i] === state);
  }

  #textWith(isWanted: (state: HunkState) => boolean): string {
    const edits = this.hunks.flatMap((hunk, i) => (isWanted(this.states[i] ?? "pending") ? hunk.edits : []));
    return applyEdits(this.original, edits);
  }
}

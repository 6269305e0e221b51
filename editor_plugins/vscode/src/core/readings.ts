/** The readings of an edit in doubt: which one is shown, the request for another, and the words for them. */

import type { EditRequest, NativeAnswer } from "apply-service-client";
import { oneLine } from "./report.js";

interface Reading {
  readonly id: string;
  /** In the service's words, what it would do instead of the likeliest; empty of the likeliest itself. */
  readonly difference: string;
}

function isReading(one: { id?: unknown; difference?: unknown }): one is Reading {
  return typeof one.id === "string" && typeof one.difference === "string";
}

export class Readings {
  readonly #asked: EditRequest;
  readonly #all: readonly Reading[];
  /** The answer of the first one; null where it must be asked for. */
  readonly likeliest: NativeAnswer | null;
  /** Index of the one that is shown; 0 is the likeliest. */
  readonly at: number;

  private constructor(asked: EditRequest, likeliest: NativeAnswer | null, all: readonly Reading[], at: number) {
    this.#asked = asked;
    this.#all = all;
    this.likeliest = likeliest;
    this.at = at;
  }

  /** Those that an answer tells. Null: it is not in doubt, or tells none that can be asked for (an older service). */
  static of(asked: EditRequest, answer: NativeAnswer): Readings | null {
    const isDoubted = answer.verdicts.some(({ check, severity }) => check === "doubt" && severity !== "pass");
    const others: readonly Partial<Reading>[] = answer.readings ?? [];
    const all = [{ id: answer.reading, difference: "" }, ...others];
    return isDoubted && others.length > 0 && all.every(isReading) ? new Readings(asked, answer, all, 0) : null;
  }

  /** Those of an edit that was refused because it is not clear; each is told beside the file. Null: there are none. */
  static ofRefusal(asked: EditRequest, readings: readonly Partial<Reading>[] = []): Readings | null {
    return readings.length > 0 && readings.every(isReading) ? new Readings(asked, null, readings, 0) : null;
  }

  /** The same with the next (1) or previous (-1) one shown, round the end. */
  step(by: 1 | -1): Readings {
    const n = this.#all.length;
    return new Readings(this.#asked, this.likeliest, this.#all, (this.at + by + n) % n);
  }

  /** The same for a document that was changed since; the one that is shown was answered again. */
  carried(asked: EditRequest, answer: NativeAnswer): Readings {
    const likeliest = this.at === 0 && this.likeliest !== null ? answer : null;
    return new Readings(asked, likeliest, this.#all, this.at);
  }

  /** Asks for the one that is shown. */
  get request(): EditRequest {
    return { ...this.#asked, reading: this.#all[this.at]?.id ?? null };
  }

  /** Which one is shown, of how many. */
  get place(): string {
    return `reading ${this.at + 1} of ${this.#all.length}`;
  }

  /** Whether the first one that is told in words is meant. */
  get question(): string {
    const difference = this.#all.find((reading) => reading.difference !== "")?.difference ?? "";
    return `Did you mean to ${oneLine(difference)}?`;
  }

  /** For a button: what the one that is shown does instead of the likeliest; of the likeliest, the question. What the
   * words quote of a file names no icon. */
  get title(): string {
    const difference = this.#all[this.at]?.difference ?? "";
    const words = difference === "" ? `${this.place}. ${this.question}` : `${this.place}: ${oneLine(difference)}`;
    return words.replaceAll("$(", "\\$(");
  }
}

/** What the checks found, by their names; a doubt between readings is the question alone. */
export function noticeOf(found: readonly string[], readings: Readings | null): string {
  const told = found.filter((check) => readings === null || check !== "doubt");
  const checks = told.length > 0 ? [`The checks found something: ${told.join(", ")}.`] : [];
  return [...checks, ...(readings === null ? [] : [readings.question])].join(" ");
}

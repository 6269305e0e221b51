/** A native stream: bytes in, events out. */

import { ApplyError, foreign } from "./errors.js";
import type { NativeAnswer } from "./types.js";

/** One pass of the model: its committed, drafted and accepted tokens, and the draft's source (empty without a draft). */
export interface PassCount {
  n_new: number;
  n_drafted: number;
  n_accepted: number;
  source: string;
}

/**
 * `token`: provisional text, in order, and the passes since the event before (none if a remote server reports none).
 * `final`: the answer, and the end.
 */
export type ApplyEvent =
  | { type: "token"; text: string; passes: PassCount[] }
  | { type: "final"; answer: NativeAnswer };

/**
 * Reads server-sent events, in whatever pieces they arrive. Lines end only at "\n", because text may hold other
 * separators. Events of other kinds are skipped: they repeat what the final event says, or come from a newer server.
 */
export class EventReader {
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });
  readonly #url: string;
  /** The pieces of a line that has not ended. */
  #rest: string[] = [];
  #name = "";
  #hasEnded = false;

  constructor(url: string) {
    this.#url = url;
  }

  /** Whether the final event has been read; nothing follows it. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Yield the events that these bytes complete. Throws the error that the stream reports. */
  *feed(data: Uint8Array): Generator<ApplyEvent> {
    const [first = "", ...others] = this.#text(data).split("\n");
    this.#rest.push(first);
    if (others.length === 0) return;
    const lines = [this.#rest.join(""), ...others];
    this.#rest = [lines.pop() ?? ""];
    for (const line of lines) {
      if (line.startsWith("event: ")) {
        this.#name = line.slice("event: ".length);
      } else if (line.startsWith("data: ")) {
        const event = this.#decode(this.#json(line.slice("data: ".length)));
        if (event !== null) yield event;
      }
    }
  }

  #text(data: Uint8Array): string {
    try {
      return this.#decoder.decode(data, { stream: true });
    } catch {
      throw foreign(this.#url);
    }
  }

  #json(text: string): unknown {
    try {
      return JSON.parse(text);
    } catch {
      throw foreign(this.#url);
    }
  }

  #decode(data: unknown): ApplyEvent | null {
    if (this.#name === "error") throw ApplyError.of(data, undefined, this.#url);
    if (this.#name === "token") {
      const { text, passes = [] } = data as { text?: unknown; passes?: PassCount[] };
      if (typeof text !== "string" || !Array.isArray(passes)) throw foreign(this.#url);
      return { type: "token", text, passes };
    }
    if (this.#name !== "final") return null;
    if (typeof (data as { merged_code?: unknown }).merged_code !== "string") throw foreign(this.#url);
    this.#hasEnded = true;
    return { type: "final", answer: data as NativeAnswer };
  }
}

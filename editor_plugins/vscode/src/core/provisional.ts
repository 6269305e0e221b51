/** The text of a stream so far. Provisional: another strategy may replace it all, line ends are still to come. */

import { Lines } from "./lines.js";

/** How far ahead in the original a streamed line is looked for: further away it is more likely another line like it. */
const WINDOW_LINES = 200;

export class Provisional {
  readonly #original: Lines;
  readonly #lines: readonly string[];
  #text = "";
  #seen = 0;
  #next = 0;

  constructor(original: string) {
    this.#original = new Lines(original);
    this.#lines = this.#original.starts.map((_, line) => this.#original.lineText(line));
  }

  get length(): number {
    return this.#text.length;
  }

  /** The first line of the original that the stream has not come past. */
  get line(): number {
    return Math.min(this.#next, this.#lines.length - 1);
  }

  /** What was streamed, and after it the lines of the original that are still to come. */
  get text(): string {
    const rest = this.#original.text.slice(this.#original.startOf(this.#next));
    const isWhole = this.#text === "" || /[\r\n]$/.test(this.#text) || rest === "";
    return this.#text + (isWhole ? "" : "\n") + rest;
  }

  add(text: string): void {
    this.#text += text;
    for (let end = this.#text.indexOf("\n", this.#seen); end !== -1; end = this.#text.indexOf("\n", this.#seen)) {
      this.#pass(this.#text.slice(this.#seen, end).replace(/\r$/, ""));
      this.#seen = end + 1;
    }
  }

  /** A whole line came: the place in the original moves past it, if it is there. A bare bracket tells too little. */
  #pass(line: string): void {
    const limit = /\w{3}/.test(line) ? WINDOW_LINES : 1;
    const at = this.#lines.slice(this.#next, this.#next + limit).indexOf(line);
    if (at !== -1) this.#next += at + 1;
  }
}

/** A document as VS Code holds it: in its own text buffer, which itself computes what undoes an edit. */

import { Range } from "monaco-editor-core/esm/vs/editor/common/core/range.js";
import {
  type Operation,
  PieceTreeTextBufferBuilder,
  type TextBuffer,
} from "monaco-editor-core/esm/vs/editor/common/model/pieceTreeTextBuffer/pieceTreeTextBufferBuilder.js";
import type { OffsetEdit } from "../src/core/edits.js";
import type { LineEnd } from "../src/core/lineEnds.js";

const [LF, CRLF] = [1, 2];

export class Buffer {
  readonly #buffer: TextBuffer;
  readonly #undo: Operation[][] = [];

  /** `end`: of new lines, where the text has none that tells. */
  constructor(text: string, end: LineEnd) {
    const builder = new PieceTreeTextBufferBuilder();
    builder.acceptChunk(text);
    this.#buffer = builder.finish().create(end === "\n" ? LF : CRLF).textBuffer;
  }

  get text(): string {
    const last = this.#buffer.getLineCount();
    return this.#buffer.getValueInRange(new Range(1, 1, last, this.#buffer.getLineLength(last) + 1), 0);
  }

  get end(): LineEnd {
    return this.#buffer.getEOL() === "\r\n" ? "\r\n" : "\n";
  }

  get lines(): string[] {
    return this.#buffer.getLinesContent();
  }

  /** One undo step, as `TextEditor.edit` makes one. */
  edit(edits: readonly OffsetEdit[]): void {
    const operations = edits.map(({ start, end, text }) => {
      const [from, to] = [this.#buffer.getPositionAt(start), this.#buffer.getPositionAt(end)];
      return { range: new Range(from.lineNumber, from.column, to.lineNumber, to.column), text };
    });
    this.#undo.push(this.#apply(operations));
  }

  undo(): void {
    this.#apply(this.#undo.pop() ?? []);
  }

  get nSteps(): number {
    return this.#undo.length;
  }

  #apply(operations: readonly Operation[]): Operation[] {
    return this.#buffer.applyEdits(operations, false, true).reverseEdits ?? [];
  }
}

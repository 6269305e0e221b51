/** The part of the editor's own text buffer that the tests use; the package has no types for it. */

declare module "monaco-editor-core/esm/vs/editor/common/core/range.js" {
  export class Range {
    constructor(startLine: number, startColumn: number, endLine: number, endColumn: number);
  }
}

declare module "monaco-editor-core/esm/vs/editor/common/model/pieceTreeTextBuffer/pieceTreeTextBufferBuilder.js" {
  import type { Range } from "monaco-editor-core/esm/vs/editor/common/core/range.js";

  export interface Operation {
    readonly range: Range;
    readonly text: string | null;
  }
  export interface TextBuffer {
    getEOL(): string;
    getLineCount(): number;
    getLinesContent(): string[];
    getRangeAt(offset: number, length: number): Range;
    getPositionAt(offset: number): { lineNumber: number; column: number };
    getValueInRange(range: Range, endOfLine: number): string;
    getLineLength(line: number): number;
    applyEdits(
      operations: readonly Operation[],
      recordTrim: boolean,
      computeUndo: boolean,
    ): { reverseEdits: Operation[] | null };
  }
  export class PieceTreeTextBufferBuilder {
    acceptChunk(text: string): void;
    finish(normalizeEol?: boolean): { create(defaultEol: number): { textBuffer: TextBuffer } };
  }
}

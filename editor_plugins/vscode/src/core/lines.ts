/** The lines of a text, as the service and the editor count them: they end at "\n", "\r\n" or a lone "\r". */

export interface Position {
  /** 0-based. */
  line: number;
  /** UTF-16 code units into the line. */
  character: number;
}

export class Lines {
  /** Offsets (UTF-16) at which lines begin; after a line end at the text's end there is one more. */
  readonly starts: readonly number[];

  constructor(readonly text: string) {
    const starts = [0];
    for (const end of text.matchAll(/\r\n|\r|\n/g)) starts.push(end.index + end[0].length);
    this.starts = starts;
  }

  /** Offset at which a line begins; the text's end for lines past the last. */
  startOf(line: number): number {
    return this.starts[line] ?? this.text.length;
  }

  offsetOf(position: Position): number {
    return this.startOf(position.line) + position.character;
  }

  /** A line without its end. */
  lineText(line: number): string {
    return this.text.slice(this.startOf(line), this.startOf(line + 1)).replace(/[\r\n]+$/, "");
  }
}

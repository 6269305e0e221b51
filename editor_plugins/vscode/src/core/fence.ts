/** Fenced code blocks of a text, as in Markdown or a chat's transcript. */

interface Fence {
  readonly mark: string;
  readonly line: number;
}

function opening(line: string): string | null {
  return /^\s*(`{3,}|~{3,})/.exec(line)?.[1] ?? null;
}

function closes(line: string, mark: string): boolean {
  const found = /^\s*(`+|~+)\s*$/.exec(line)?.[1];
  return found !== undefined && found[0] === mark[0] && found.length >= mark.length;
}

/** The text of the fenced block that holds a line (0-based), the fences' own lines included; null where none does. */
export function blockAt(lines: readonly string[], line: number): string | null {
  let open: Fence | null = null;
  for (const [i, text] of lines.entries()) {
    if (open === null) {
      const mark = opening(text);
      open = mark === null ? null : { mark, line: i };
    } else if (closes(text, open.mark)) {
      if (line >= open.line && line <= i) return `${lines.slice(open.line + 1, i).join("\n")}\n`;
      open = null;
    }
  }
  return null;
}

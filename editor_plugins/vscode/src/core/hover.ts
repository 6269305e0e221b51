/** A hunk as HTML for a hover: what goes, and what comes, by origin. The file's text is escaped, never markup. */

import { shown } from "./preview.js";
import type { Origin, ProposedHunk } from "./proposal.js";

const MOST_LINES = 60;
const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};
const NAMES: Readonly<Record<Origin, string>> = {
  original: "from your file",
  update: "from the snippet",
  model: "written by the model",
};

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}

function span(text: string, foreground: string, background: string): string {
  const style = `color:var(--vscode-${foreground});background-color:var(--vscode-${background});`;
  return `<span style="${style}">${escaped(text)}</span>`;
}

function removed(text: string, tabSize: number): string {
  return span(`- ${shown(text, tabSize)}`, "editor-foreground", "diffEditor-removedLineBackground");
}

function added(text: string, origin: Origin, tabSize: number): string {
  const sign = { original: "=", update: "+", model: "*" }[origin];
  return span(
    `${sign} ${shown(text, tabSize)}`,
    `applyService-${origin}Foreground`,
    `applyService-${origin}Background`,
  );
}

function shortened(lines: readonly string[]): string[] {
  const nMore = lines.length - MOST_LINES;
  return nMore > 0 ? [...lines.slice(0, MOST_LINES), `… ${nMore} more lines`] : [...lines];
}

/** One block of preformatted text; a blank line within would not end it. */
export function hunkHtml(hunk: ProposedHunk, tabSize: number): string {
  const lines = [
    ...shortened(hunk.removed.map((text) => removed(text, tabSize))),
    ...shortened(hunk.added.map(({ text, origin }) => added(text, origin, tabSize))),
  ];
  return `<pre>${lines.join("\n")}</pre>`;
}

/** What the signs mean, of the origins that the hunk has. */
export function legendOf(hunk: ProposedHunk): string {
  const origins = new Set(hunk.added.map(({ origin }) => origin));
  const sign = { original: "=", update: "+", model: "*" };
  return [...origins].map((origin) => `\`${sign[origin]}\` ${NAMES[origin]}`).join(" · ");
}

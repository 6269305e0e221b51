/** Pending hunks drawn into the editors of a document: what goes is marked, what comes stands beside it, by origin. */

import * as vscode from "vscode";
import { hunkHtml, legendOf } from "../core/hover.js";
import { type Ghost, type HunkPreview, MOST_PIECES, type Piece, previewOf } from "../core/preview.js";
import type { Proposal } from "../core/proposal.js";
import { editorsOf, keyOf } from "./documents.js";
import type { ReviewChange, Reviews } from "./reviews.js";

/** Of lines that give way to others the text alone is marked: the colours beside it are not to mix. */
const REPLACED: vscode.DecorationRenderOptions = {
  backgroundColor: new vscode.ThemeColor("diffEditor.removedTextBackground"),
  overviewRulerColor: new vscode.ThemeColor("editorOverviewRuler.deletedForeground"),
  overviewRulerLane: vscode.OverviewRulerLane.Left,
};

const REMOVED: vscode.DecorationRenderOptions = { ...REPLACED, isWholeLine: true };

const PLACE: vscode.DecorationRenderOptions = {
  isWholeLine: true,
  overviewRulerColor: new vscode.ThemeColor("editorOverviewRuler.addedForeground"),
  overviewRulerLane: vscode.OverviewRulerLane.Right,
};

/**
 * One decoration type for each place in a row of pieces. Pieces at one position are drawn in the order of their types'
 * names, which end in a number: those of the slots must be as long as each other.
 */
function createSlots(): vscode.TextEditorDecorationType[] {
  for (;;) {
    const slots = Array.from({ length: MOST_PIECES + 1 }, () => vscode.window.createTextEditorDecorationType({}));
    if (new Set(slots.map((slot) => slot.key.length)).size === 1) return slots;
    for (const slot of slots) slot.dispose();
  }
}

function attachment({ text, origin }: Piece): vscode.ThemableDecorationAttachmentRenderOptions {
  if (origin === "note") return { contentText: text, color: new vscode.ThemeColor("editorCodeLens.foreground") };
  return {
    contentText: text,
    color: new vscode.ThemeColor(`applyService.${origin}Foreground`),
    backgroundColor: new vscode.ThemeColor(`applyService.${origin}Background`),
  };
}

function pieceDecoration(ghost: Ghost, piece: Piece, document: vscode.TextDocument): vscode.DecorationOptions {
  const { range } = document.lineAt(ghost.line);
  const place = ghost.at === "end" ? range.end : range.start;
  const side = ghost.at === "end" ? "after" : "before";
  return { range: new vscode.Range(place, place), renderOptions: { [side]: attachment(piece) } };
}

function hoverOf(
  proposal: Proposal,
  index: number,
  document: vscode.TextDocument,
  tabSize: number,
): vscode.MarkdownString {
  const hunk = proposal.hunks[index];
  const hover = new vscode.MarkdownString(undefined, true);
  if (hunk === undefined) return hover;
  hover.supportHtml = true;
  hover.isTrusted = {
    enabledCommands: ["applyService.acceptHunk", "applyService.rejectHunk", "applyService.openDiff"],
  };
  const target = encodeURIComponent(JSON.stringify([keyOf(document), index]));
  const links = [
    `[Accept](command:applyService.acceptHunk?${target})`,
    `[Reject](command:applyService.rejectHunk?${target})`,
    "[Diff](command:applyService.openDiff)",
  ];
  return hover.appendMarkdown(`${hunkHtml(hunk, tabSize)}\n\n${legendOf(hunk)}\n\n${links.join(" · ")}`);
}

/** The lines of a hunk; where it only adds some, the one they come before. */
function linesOf({ first, last }: HunkPreview, document: vscode.TextDocument): vscode.TextLine[] {
  const end = Math.min(Math.max(first, last - 1), document.lineCount - 1);
  return Array.from({ length: end - Math.min(first, end) + 1 }, (_, i) => document.lineAt(Math.min(first, end) + i));
}

type Marked = "place" | "replaced" | "removed";

function markOf({ first, last, ghosts }: HunkPreview, line: number): Marked {
  if (first === last) return "place";
  return ghosts.some((ghost) => ghost.line === line) ? "replaced" : "removed";
}

export class Drawing implements vscode.Disposable {
  readonly #reviews: Reviews;
  readonly #marks: Readonly<Record<Marked, vscode.TextEditorDecorationType>> = {
    place: vscode.window.createTextEditorDecorationType(PLACE),
    replaced: vscode.window.createTextEditorDecorationType(REPLACED),
    removed: vscode.window.createTextEditorDecorationType(REMOVED),
  };
  readonly #slots = createSlots();
  readonly #subscriptions: vscode.Disposable;

  constructor(reviews: Reviews) {
    this.#reviews = reviews;
    this.#subscriptions = vscode.Disposable.from(
      ...this.#slots,
      ...Object.values(this.#marks),
      reviews.onDidChange((change) => this.#drawAll(change)),
      vscode.window.onDidChangeVisibleTextEditors((editors) => editors.forEach((editor) => this.#drawIn(editor))),
      vscode.window.onDidChangeTextEditorViewColumn(({ textEditor }) => this.#drawIn(textEditor)),
    );
  }

  dispose(): void {
    this.#subscriptions.dispose();
  }

  #drawAll({ document }: ReviewChange): void {
    for (const editor of editorsOf(document)) this.#drawIn(editor);
  }

  #drawIn(editor: vscode.TextEditor): void {
    const review = this.#reviews.get(editor.document);
    // The side of a diff has no column of its own; what comes stands on the other side there.
    const isEmbedded = editor.viewColumn === undefined;
    if (review === undefined || review.isStale || isEmbedded) return this.#clear(editor);
    const tabSize = typeof editor.options.tabSize === "number" ? editor.options.tabSize : 4;
    this.#draw(editor, review.proposal, previewOf(review.proposal, tabSize), tabSize);
  }

  #draw(editor: vscode.TextEditor, proposal: Proposal, hunks: readonly HunkPreview[], tabSize: number): void {
    const { document } = editor;
    const lines = hunks.flatMap((hunk) => {
      const hoverMessage = hoverOf(proposal, hunk.index, document, tabSize);
      return linesOf(hunk, document).map(({ range, lineNumber }) => ({
        range,
        hoverMessage,
        mark: markOf(hunk, lineNumber),
      }));
    });
    for (const mark of ["place", "replaced", "removed"] as const) {
      const drawn = lines.filter((line) => line.mark === mark);
      editor.setDecorations(this.#marks[mark], drawn);
    }
    const ghosts = hunks.flatMap((hunk) => hunk.ghosts);
    for (const [i, slot] of this.#slots.entries()) {
      const drawn = ghosts.flatMap((ghost) => {
        const piece = ghost.pieces[i];
        return piece === undefined ? [] : [pieceDecoration(ghost, piece, document)];
      });
      editor.setDecorations(slot, drawn);
    }
  }

  #clear(editor: vscode.TextEditor): void {
    for (const type of [...Object.values(this.#marks), ...this.#slots]) editor.setDecorations(type, []);
  }
}

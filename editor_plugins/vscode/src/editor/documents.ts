/** Documents of the editor: whether they can be edited, what of them is sent, and edits of them as one undo step. */

import { stat } from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import type { OffsetEdit } from "../core/edits.js";
import type { LineEnd } from "../core/lineEnds.js";
import { documentRefusal } from "../core/refusal.js";
import type { Source } from "../core/request.js";

const ANY_WRITE_BIT = 0o222;

async function isProtected(uri: vscode.Uri): Promise<boolean> {
  try {
    if (uri.scheme === "file") return ((await stat(uri.fsPath)).mode & ANY_WRITE_BIT) === 0;
    const { permissions } = await vscode.workspace.fs.stat(uri);
    return permissions !== undefined && (permissions & vscode.FilePermission.Readonly) !== 0;
  } catch {
    return false; // not on disk yet, or no longer
  }
}

function isNotebookCell(document: vscode.TextDocument): boolean {
  const hasCell = (notebook: vscode.NotebookDocument): boolean =>
    notebook.getCells().some((cell) => cell.document === document);
  return document.uri.scheme === "vscode-notebook-cell" || vscode.workspace.notebookDocuments.some(hasCell);
}

/** Why a document cannot be edited; null where it can. */
export async function refusalOf(document: vscode.TextDocument): Promise<string | null> {
  const { scheme } = document.uri;
  return documentRefusal({
    scheme,
    isNotebookCell: isNotebookCell(document),
    isClosed: document.isClosed,
    isWritableFileSystem: vscode.workspace.fs.isWritableFileSystem(scheme),
    isReadOnlyFile: scheme !== "untitled" && (await isProtected(document.uri)),
  });
}

export function keyOf(document: vscode.TextDocument): string {
  return document.uri.toString();
}

export function nameOf(document: vscode.TextDocument): string {
  return path.posix.basename(document.uri.path);
}

export function sourceOf(document: vscode.TextDocument): Source {
  const name = document.isUntitled ? null : nameOf(document);
  return { text: document.getText(), name, language: document.languageId };
}

export function lineEndOf(document: vscode.TextDocument): LineEnd {
  return document.eol === vscode.EndOfLine.CRLF ? "\r\n" : "\n";
}

export function editorsOf(document: vscode.TextDocument): vscode.TextEditor[] {
  const active = vscode.window.activeTextEditor;
  const visible = vscode.window.visibleTextEditors.filter((editor) => editor.document === document);
  return active?.document === document ? [active, ...visible.filter((editor) => editor !== active)] : visible;
}

/** Shows a line, if it is not in view. The cursor stays. */
export function revealLine(document: vscode.TextDocument, line: number): void {
  const place = Math.min(line, document.lineCount - 1);
  const range = new vscode.Range(place, 0, place, 0);
  for (const editor of editorsOf(document))
    editor.revealRange(range, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
}

const PATIENCE_MS = 1000;

/** Waits for an event of this kind, for a second at most: an editor that was closed says nothing. */
export function eventOf<T>(event: vscode.Event<T>, isIt: (said: T) => boolean): Promise<void> {
  return new Promise((resolve) => {
    const listener = event((said) => {
      if (isIt(said)) end();
    });
    const timer = setTimeout(() => end(), PATIENCE_MS);
    const end = (): void => {
      clearTimeout(timer);
      listener.dispose();
      resolve();
    };
  });
}

/**
 * Puts the cursor at the start of a line, and returns once the editor has said that it is there.
 *
 * Until then what the editor says of an older move would count as the cursor.
 */
export async function moveCursor(editor: vscode.TextEditor, line: number): Promise<void> {
  const place = new vscode.Position(Math.min(line, editor.document.lineCount - 1), 0);
  const wanted = new vscode.Selection(place, place);
  if (!editor.selection.isEqual(wanted)) {
    const isThere = eventOf(
      vscode.window.onDidChangeTextEditorSelection,
      ({ textEditor, selections }) => textEditor === editor && selections[0]?.isEqual(wanted) === true,
    );
    editor.selection = wanted;
    await isThere;
  }
  editor.revealRange(wanted, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
}

/** All edits in one undo step. The editor refuses them itself where the document has changed since. */
async function editIn(editor: vscode.TextEditor, edits: readonly OffsetEdit[]): Promise<void> {
  const { document } = editor;
  const ranges = edits.map(({ start, end }) => new vscode.Range(document.positionAt(start), document.positionAt(end)));
  try {
    await editor.edit((builder) => {
      for (const [i, edit] of edits.entries()) builder.replace(ranges[i] as vscode.Range, edit.text);
    });
  } catch {
    // An editor that has been closed since: the caller looks at what the document holds.
  }
}

/**
 * Makes the document hold `wanted`, which ordered edits of what it holds lead to. Null, or why it does not hold it.
 *
 * An editor that is read-only (the left side of a diff is) takes edits without a word: so each editor of the document
 * is tried, then one that is opened for it.
 */
export async function replaceIn(
  document: vscode.TextDocument,
  edits: readonly OffsetEdit[],
  wanted: string,
): Promise<string | null> {
  const before = document.getText();
  // Sides of a diff, which have no column of their own, come last.
  const editors = editorsOf(document).sort(
    (a, b) => Number(a.viewColumn === undefined) - Number(b.viewColumn === undefined),
  );
  for (const editor of editors) {
    await editIn(editor, edits);
    if (document.getText() !== before) break;
  }
  if (document.getText() === before) await editIn(await vscode.window.showTextDocument(document), edits);
  const after = document.getText();
  if (after === wanted) return null;
  if (after === before)
    return "The editor is read-only or the document has just been changed; nothing was changed by it.";
  return "The editor changed the edit while putting it in: undo once to have the text as it was.";
}

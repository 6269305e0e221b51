/** Which document commands and status are about: the active editor's, or that whose proposal it shows. */

import * as vscode from "vscode";

/** Of the pages that the extension makes: proposals, verdicts. Their query is their document's URI. */
export const SCHEME = "apply-service";

export function aboutOf(page: vscode.Uri): string | undefined {
  return page.scheme === SCHEME ? page.query : undefined;
}

/** The document of an editor; of a page's editor the document that the page is about. */
export function documentOf(editor: Pick<vscode.TextEditor, "document">): vscode.TextDocument | undefined {
  const about = aboutOf(editor.document.uri);
  if (about === undefined) return editor.document;
  return vscode.workspace.textDocuments.find((document) => document.uri.toString() === about);
}

/** While a log has the focus, the document that is seen stands for it, where there is but one. */
export function subject(): vscode.TextDocument | undefined {
  const active = vscode.window.activeTextEditor;
  if (active?.document.uri.scheme !== "output") return active && documentOf(active);
  const others = vscode.window.visibleTextEditors.filter(({ document }) => document.uri.scheme !== "output");
  const seen = new Set(others.map(documentOf));
  return seen.size === 1 ? [...seen][0] : undefined;
}

/** The preview: a page with the document, and what comes below what goes, coloured by origin. No view zone is open to
 * extensions, so that the document itself can't show lines that it does not hold. */

import * as vscode from "vscode";
import { type Below, belowOf, hunkOnPage, neighbourOnPage } from "../core/below.js";
import type { Origin } from "../core/proposal.js";
import { createOriginTypes } from "./diffView.js";
import { editorsOf, eventOf, moveCursor } from "./documents.js";
import { kindOf, pageOf, type Pages } from "./pages.js";
import type { ReviewChange, Reviews } from "./reviews.js";
import { documentOf } from "./subject.js";

const REMOVED: vscode.DecorationRenderOptions = {
  isWholeLine: true,
  backgroundColor: new vscode.ThemeColor("diffEditor.removedLineBackground"),
  borderWidth: "0 0 0 3px",
  borderStyle: "solid",
  borderColor: new vscode.ThemeColor("editorOverviewRuler.deletedForeground"),
};

export class BelowView implements vscode.Disposable {
  readonly #pages: Pages;
  readonly #reviews: Reviews;
  readonly #types: ReadonlyMap<"removed" | Origin, vscode.TextEditorDecorationType>;
  readonly #subscriptions: vscode.Disposable;

  constructor(pages: Pages, reviews: Reviews) {
    this.#pages = pages;
    this.#reviews = reviews;
    this.#types = new Map([["removed", vscode.window.createTextEditorDecorationType(REMOVED)], ...createOriginTypes()]);
    this.#subscriptions = vscode.Disposable.from(
      ...this.#types.values(),
      reviews.onDidChange((change) => this.#update(change)),
      vscode.window.onDidChangeVisibleTextEditors((editors) => editors.forEach((editor) => this.#colour(editor))),
      vscode.workspace.onDidChangeTextDocument(({ document }) => {
        for (const editor of vscode.window.visibleTextEditors) if (editor.document === document) this.#colour(editor);
      }),
    );
  }

  /** Shows the page where the document is, at the hunk that is next. */
  async open(document: vscode.TextDocument): Promise<void> {
    const review = this.#reviews.get(document);
    if (review === undefined || review.isStale) return;
    const viewColumn = editorsOf(document)[0]?.viewColumn ?? vscode.ViewColumn.Active;
    const found = await vscode.workspace.openTextDocument(pageOf("preview", document));
    const isNamedSo = found.languageId === document.languageId; // the name tells most languages
    const page = isNamedSo ? found : await vscode.languages.setTextDocumentLanguage(found, document.languageId);
    const editor = await vscode.window.showTextDocument(page, { viewColumn, preview: true });
    // An open page has its new text a moment later.
    const isShown = (): boolean => this.shownIn(page) !== undefined;
    if (!isShown()) await eventOf(vscode.workspace.onDidChangeTextDocument, isShown);
    await this.goTo(editor, 1, -1);
  }

  /** Whether the editor shows a page. */
  static isPage(editor: vscode.TextEditor | undefined): editor is vscode.TextEditor {
    return editor !== undefined && kindOf(editor.document.uri) === "preview";
  }

  /** What a page shows; undefined where it is not up to date. */
  shownIn(page: vscode.TextDocument): Below | undefined {
    const about = documentOf({ document: page });
    const review = about && this.#reviews.get(about);
    if (review === undefined || review.isStale) return undefined;
    const below = belowOf(review.proposal);
    return below.text === page.getText().replaceAll("\r\n", "\n") ? below : undefined;
  }

  /** Index of the hunk at the cursor of a page. */
  hunkAt(editor: vscode.TextEditor): number | null {
    const below = this.shownIn(editor.document);
    return below === undefined ? null : hunkOnPage(below, editor.selection.active.line);
  }

  /** The cursor to the next or previous hunk of a page. */
  async goTo(editor: vscode.TextEditor, step: 1 | -1, from = editor.selection.active.line): Promise<void> {
    const below = this.shownIn(editor.document);
    const line = below === undefined ? null : neighbourOnPage(below, from, step);
    if (line !== null) await moveCursor(editor, line);
  }

  dispose(): void {
    this.#subscriptions.dispose();
  }

  #update({ document, review, proposal }: ReviewChange): void {
    const page = pageOf("preview", document);
    if (review !== undefined && !review.isStale) return this.#pages.set(page, belowOf(proposal).text);
    const isOfPage = ({ input }: vscode.Tab): boolean =>
      input instanceof vscode.TabInputText && input.uri.toString() === page.toString();
    const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs.filter(isOfPage));
    const isSeen = tabs.some((tab) => tab.isActive) && !document.isClosed;
    void vscode.window.tabGroups
      .close(tabs)
      .then(() => (isSeen ? vscode.window.showTextDocument(document) : undefined));
  }

  #colour(editor: vscode.TextEditor): void {
    if (!BelowView.isPage(editor)) return;
    const lines = this.shownIn(editor.document)?.lines ?? [];
    for (const [mark, type] of this.#types) {
      const own = lines.filter((line) => line.mark === mark);
      editor.setDecorations(
        type,
        own.map(({ line }) => new vscode.Range(line, 0, line, 0)),
      );
    }
  }
}

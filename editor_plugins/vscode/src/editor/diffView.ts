/** A document beside what it would become, in the editor's own diff; proposed lines are coloured by origin. */

import * as vscode from "vscode";
import type { Origin, Proposal } from "../core/proposal.js";
import { nameOf } from "./documents.js";
import { kindOf, pageOf, type Pages } from "./pages.js";
import type { ReviewChange, Reviews } from "./reviews.js";
import { documentOf } from "./subject.js";

const ORIGINS: readonly Origin[] = ["original", "update", "model"];

/** How lines that come are marked, by origin. */
export function createOriginTypes(): ReadonlyMap<Origin, vscode.TextEditorDecorationType> {
  const create = (origin: Origin): vscode.TextEditorDecorationType =>
    vscode.window.createTextEditorDecorationType({
      isWholeLine: true,
      backgroundColor: new vscode.ThemeColor(`applyService.${origin}Background`),
      borderWidth: "0 0 0 3px",
      borderStyle: "solid",
      borderColor: new vscode.ThemeColor(`applyService.${origin}Foreground`),
    });
  return new Map(ORIGINS.map((origin) => [origin, create(origin)]));
}

export class DiffView implements vscode.Disposable {
  readonly #pages: Pages;
  readonly #reviews: Reviews;
  readonly #types = createOriginTypes();
  readonly #subscriptions: vscode.Disposable;

  constructor(pages: Pages, reviews: Reviews) {
    this.#pages = pages;
    this.#reviews = reviews;
    this.#subscriptions = vscode.Disposable.from(
      ...this.#types.values(),
      reviews.onDidChange((change) => this.#update(change)),
      vscode.window.onDidChangeVisibleTextEditors((editors) => editors.forEach((editor) => this.#colour(editor))),
      vscode.workspace.onDidChangeTextDocument(({ document }) => this.#colourAll(document)),
    );
  }

  /** Opens the proposal, or while the service works what it has written so far. */
  async open(document: vscode.TextDocument, isProvisional: boolean): Promise<void> {
    const title = `${nameOf(document)}: file ↔ proposal${isProvisional ? " (provisional while it streams)" : ""}`;
    await vscode.commands.executeCommand("vscode.diff", document.uri, pageOf("proposal", document), title);
  }

  /** What the service has written so far; the document's own text where it came to nothing. */
  showProvisional(document: vscode.TextDocument, text: string): void {
    this.#pages.set(pageOf("proposal", document), text);
  }

  dispose(): void {
    this.#subscriptions.dispose();
  }

  #update({ document, proposal }: ReviewChange): void {
    this.#pages.set(pageOf("proposal", document), proposal.offered);
  }

  #colourAll(page: vscode.TextDocument): void {
    if (kindOf(page.uri) !== "proposal") return;
    for (const editor of vscode.window.visibleTextEditors) {
      if (editor.document === page) this.#colour(editor);
    }
  }

  #colour(editor: vscode.TextEditor): void {
    if (kindOf(editor.document.uri) !== "proposal") return;
    const proposal = this.#proposalIn(editor);
    const lines = proposal?.offeredLines() ?? [];
    for (const [origin, type] of this.#types) {
      const own = lines.filter((line) => line.origin === origin);
      editor.setDecorations(
        type,
        own.map(({ line }) => new vscode.Range(line, 0, line, 0)),
      );
    }
  }

  /** The proposal, if it is what the editor shows. */
  #proposalIn(editor: vscode.TextEditor): Proposal | undefined {
    const document = documentOf(editor);
    const proposal = document && this.#reviews.get(document)?.proposal;
    return proposal?.offered === editor.document.getText() ? proposal : undefined;
  }
}

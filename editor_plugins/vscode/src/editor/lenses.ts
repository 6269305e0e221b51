/** Above each pending hunk: which one it is, how sure the model was, and what can be done with it. */

import * as vscode from "vscode";
import { previewOf } from "../core/preview.js";
import { keyOf } from "./documents.js";
import type { Reviews } from "./reviews.js";

export class Lenses implements vscode.CodeLensProvider, vscode.Disposable {
  readonly #reviews: Reviews;
  readonly #changed = new vscode.EventEmitter<void>();
  readonly #subscriptions: vscode.Disposable;

  readonly onDidChangeCodeLenses = this.#changed.event;

  constructor(reviews: Reviews) {
    this.#reviews = reviews;
    this.#subscriptions = vscode.Disposable.from(
      this.#changed,
      reviews.onDidChange(() => this.#changed.fire()),
      vscode.languages.registerCodeLensProvider("*", this),
    );
  }

  provideCodeLenses(document: vscode.TextDocument): vscode.CodeLens[] {
    const review = this.#reviews.get(document);
    if (review === undefined || review.isStale) return [];
    return previewOf(review.proposal, 1).flatMap(({ index, first, title }) => {
      const line = Math.min(first, document.lineCount - 1);
      const target = [keyOf(document), index];
      const commands: vscode.Command[] = [
        { title: "$(check) Accept", command: "applyService.acceptHunk", arguments: target },
        { title: "$(close) Reject", command: "applyService.rejectHunk", arguments: target },
        { title, command: "applyService.openDiff", tooltip: "Open the diff" },
      ];
      return commands.map((command) => new vscode.CodeLens(new vscode.Range(line, 0, line, 0), command));
    });
  }

  dispose(): void {
    this.#subscriptions.dispose();
  }
}

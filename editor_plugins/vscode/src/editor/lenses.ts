/** Above each pending hunk: which one it is, how sure the model was, and what can be done with it; above the first one
 * which reading of the edit it is of. */

import * as vscode from "vscode";
import { previewOf } from "../core/preview.js";
import type { Review } from "../core/review.js";
import type { BelowView } from "./belowView.js";
import { keyOf } from "./documents.js";
import { kindOf } from "./pages.js";
import type { Reviews } from "./reviews.js";
import { documentOf } from "./subject.js";

/** Steps through the readings of an edit in doubt. */
function readingCommands({ readings, canStep }: Review, about: string): vscode.Command[] {
  if (readings === null || !canStep) return [];
  const [next, previous] = ["applyService.nextReading", "applyService.previousReading"];
  return [
    { title: "$(arrow-left)", command: previous, arguments: [about], tooltip: "Previous reading" },
    { title: "$(arrow-right)", command: next, arguments: [about], tooltip: "Next reading" },
    { title: readings.title, command: next, arguments: [about], tooltip: "Next reading" },
  ];
}

export class Lenses implements vscode.CodeLensProvider, vscode.Disposable {
  readonly #reviews: Reviews;
  readonly #belowView: BelowView;
  readonly #changed = new vscode.EventEmitter<void>();
  readonly #subscriptions: vscode.Disposable;

  readonly onDidChangeCodeLenses = this.#changed.event;

  constructor(reviews: Reviews, belowView: BelowView) {
    this.#reviews = reviews;
    this.#belowView = belowView;
    this.#subscriptions = vscode.Disposable.from(
      this.#changed,
      reviews.onDidChange(() => this.#changed.fire()),
      vscode.languages.registerCodeLensProvider("*", this),
    );
  }

  /** In the document, and on the page of its preview. */
  provideCodeLenses(shown: vscode.TextDocument): vscode.CodeLens[] {
    const isPage = kindOf(shown.uri) === "preview";
    const document = isPage ? documentOf({ document: shown }) : shown;
    const review = document && this.#reviews.get(document);
    const onPage = isPage ? this.#belowView.shownIn(shown)?.hunks : undefined;
    if (document === undefined || review === undefined || review.isStale) return [];
    if (isPage && onPage === undefined) return [];
    const lensesAt = (line: number, commands: readonly vscode.Command[]): vscode.CodeLens[] =>
      commands.map((command) => new vscode.CodeLens(new vscode.Range(line, 0, line, 0), command));
    const hunks = previewOf(review.proposal, 1);
    const ofReadings = readingCommands(review, keyOf(document));
    if (hunks.length === 0) return lensesAt(0, ofReadings);
    return hunks.flatMap(({ index, first, title }, i) => {
      const place = onPage?.find((hunk) => hunk.index === index)?.first ?? first;
      const line = Math.min(place, shown.lineCount - 1);
      const target = [keyOf(document), index];
      const commands: vscode.Command[] = [
        { title: "$(check) Accept", command: "applyService.acceptHunk", arguments: target },
        { title: "$(close) Reject", command: "applyService.rejectHunk", arguments: target },
        ...(i === 0 ? ofReadings : []),
        { title, command: "applyService.openDiff", tooltip: "Open the diff" },
      ];
      if (!isPage) commands.push({ title: "$(eye) Preview", command: "applyService.openPreview" });
      return lensesAt(line, commands);
    });
  }

  dispose(): void {
    this.#subscriptions.dispose();
  }
}

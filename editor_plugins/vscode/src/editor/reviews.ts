/** The open proposal of each document: accepted hunk by hunk, followed through undo, closed. */

import * as vscode from "vscode";
import type { Offer } from "../core/carryOver.js";
import type { Proposal } from "../core/proposal.js";
import { Review } from "../core/review.js";
import { keyOf, refusalOf, replaceIn } from "./documents.js";
import type { Notices } from "./notices.js";

/** `review`: absent where it was closed; `proposal` is then what it came to. */
export interface ReviewChange {
  readonly document: vscode.TextDocument;
  readonly review: Review | undefined;
  readonly proposal: Proposal;
}

export class Reviews implements vscode.Disposable {
  readonly #notices: Notices;
  readonly #open = new Map<string, Review>();
  /** Documents that the extension itself is changing. */
  readonly #editing = new Set<string>();
  readonly #changed = new vscode.EventEmitter<ReviewChange>();
  readonly #foundStale = new vscode.EventEmitter<vscode.TextDocument>();
  readonly #subscriptions: vscode.Disposable;
  /** One decision after the other: each is made on what the one before led to. */
  #last: Promise<unknown> = Promise.resolve();

  readonly onDidChange = this.#changed.event;
  /** A decision was not carried out: the document was changed since, and holds what its proposal was not made for. */
  readonly onDidFindStale = this.#foundStale.event;

  constructor(notices: Notices) {
    this.#notices = notices;
    this.#subscriptions = vscode.Disposable.from(
      vscode.workspace.onDidChangeTextDocument((event) => {
        if (event.contentChanges.length > 0) this.#follow(event.document);
      }),
      vscode.workspace.onDidCloseTextDocument((document) => this.close(document)),
    );
  }

  get(document: vscode.TextDocument): Review | undefined {
    return this.#open.get(keyOf(document));
  }

  /** Shows a proposal; where the document does not hold its original, it waits until that is so. */
  open(document: vscode.TextDocument, offer: Offer): void {
    const review = new Review(offer);
    review.follow(document.getText());
    this.#open.set(keyOf(document), review);
    this.tell(document);
  }

  close(document: vscode.TextDocument): void {
    const review = this.get(document);
    if (review === undefined) return;
    this.#open.delete(keyOf(document));
    this.#changed.fire({ document, review: undefined, proposal: review.proposal });
  }

  /** Puts pending hunks into the document, as one undo step. */
  async accept(document: vscode.TextDocument, indices: readonly number[]): Promise<void> {
    await this.#inTurn(() => this.#accept(document, indices));
  }

  async reject(document: vscode.TextDocument, indices: readonly number[]): Promise<void> {
    await this.#inTurn(async () => {
      const review = this.#fresh(document);
      review?.reject(indices);
      if (review !== undefined) this.tell(document);
    });
  }

  /** Says how the review of a document stands. */
  tell(document: vscode.TextDocument): void {
    const review = this.get(document);
    if (review === undefined) return;
    if (review.isOver) this.close(document);
    else this.#changed.fire({ document, review, proposal: review.proposal });
  }

  dispose(): void {
    this.#open.clear();
    this.#changed.dispose();
    this.#foundStale.dispose();
    this.#subscriptions.dispose();
  }

  async #accept(document: vscode.TextDocument, indices: readonly number[]): Promise<void> {
    const refusal = await refusalOf(document);
    const review = refusal === null ? this.#fresh(document) : undefined;
    if (refusal !== null) this.#notices.error(refusal);
    if (review === undefined) return;
    const plan = review.proposal.plan(indices);
    if (plan.edits.length === 0) return;
    this.#editing.add(keyOf(document));
    const fault = await replaceIn(document, plan.edits, plan.text).finally(() => this.#editing.delete(keyOf(document)));
    if (fault === null) review.accept(plan);
    else this.#notices.error(fault);
    // What came while the edit was under way was not followed.
    review.follow(document.getText());
    if (this.get(document) === review) this.tell(document);
  }

  /** The review, if the document still holds what it takes it to hold. */
  #fresh(document: vscode.TextDocument): Review | undefined {
    const review = this.get(document);
    review?.follow(document.getText());
    if (review === undefined || !review.isStale) return review;
    this.#foundStale.fire(document);
    return undefined;
  }

  #follow(document: vscode.TextDocument): void {
    const review = this.get(document);
    if (review === undefined || this.#editing.has(keyOf(document))) return;
    // Drawn lines move with the text, so what stays stale needs no new drawing.
    if (review.follow(document.getText()) !== "none") this.tell(document);
  }

  async #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => undefined);
    await turn;
  }
}

/** From a document and an edit to the service, and from its answer to a proposal. One request a document at a time. */

import * as vscode from "vscode";
import type { EditRequest, NativeAnswer } from "apply-service-client";
import { proposalFor } from "../core/answer.js";
import { carryOver, type Offer } from "../core/carryOver.js";
import { CANCELLED, type Failure } from "../core/failure.js";
import type { LocalServer } from "../core/localServer.js";
import { OptionError, type Options } from "../core/options.js";
import { Proposal } from "../core/proposal.js";
import { Readings } from "../core/readings.js";
import { requestOf, textFault, type WantedEdit } from "../core/request.js";
import { speedOf } from "../core/status.js";
import { Asking, type Running } from "./asking.js";
import type { Diagnostics } from "./diagnostics.js";
import { keyOf, lineEndOf, nameOf, refusalOf, sourceOf } from "./documents.js";
import type { Notices, Remedy } from "./notices.js";
import { Presenting, type Showing } from "./presenting.js";
import { SETTINGS } from "./remedies.js";
import type { Reviews } from "./reviews.js";
import { type ApiKeys, optionsFor } from "./settings.js";
import type { StreamViews } from "./streaming.js";

/** What requests work with. */
export interface Parts {
  readonly reviews: Reviews;
  readonly diagnostics: Diagnostics;
  readonly notices: Notices;
  readonly keys: ApiKeys;
  readonly server: LocalServer;
  readonly views: StreamViews;
  readonly log: vscode.LogOutputChannel;
}

export class Requests implements vscode.Disposable {
  readonly #parts: Parts;
  readonly #asking: Asking;
  readonly #presenting: Presenting;
  readonly #running = new Map<string, Running>();
  readonly #answers = new Map<string, NativeAnswer>();
  readonly #changed = new vscode.EventEmitter<void>();
  readonly #subscription: vscode.Disposable;

  /** A request began or ended. */
  readonly onDidChange = this.#changed.event;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#asking = new Asking(parts);
    this.#presenting = new Presenting(parts);
    this.#subscription = vscode.Disposable.from(
      this.#asking,
      vscode.workspace.onDidCloseTextDocument((document) => {
        this.cancel(document);
        this.#answers.delete(keyOf(document));
      }),
      parts.reviews.onDidFindStale((document) => void this.carryOver(document)),
    );
  }

  get isAnyRunning(): boolean {
    return this.#running.size > 0;
  }

  isRunning(document: vscode.TextDocument): boolean {
    return this.#running.has(keyOf(document));
  }

  lastAnswer(document: vscode.TextDocument): NativeAnswer | undefined {
    return this.#answers.get(keyOf(document));
  }

  /** Stops the document's request; whether there was one. */
  cancel(document: vscode.TextDocument): boolean {
    const own = this.#running.get(keyOf(document));
    own?.controller.abort();
    return own !== undefined;
  }

  /** Stops every request; whether there was one. */
  cancelAll(): boolean {
    for (const { controller } of this.#running.values()) controller.abort();
    return this.isAnyRunning;
  }

  /** Asks for an edit. The document is changed by nothing but accepted hunks. */
  async start(document: vscode.TextDocument, edit: WantedEdit, mayStartServer = false): Promise<void> {
    await this.#alone(document, (running) => this.#run(running, edit, mayStartServer));
  }

  /** Shows the next (1) or previous (-1) reading of the edit in place of the one that is shown. */
  async step(document: vscode.TextDocument, by: 1 | -1): Promise<void> {
    const { reviews, notices } = this.#parts;
    const review = reviews.get(document);
    if (review?.readings == null) return notices.info("There is no other reading of this edit.");
    if (!review.canStep)
      return notices.info("Undo what was changed first: another reading begins with the file as it was.");
    const readings = review.readings.step(by);
    await this.#alone(document, (running) => this.#step(running, readings));
  }

  /** Merges the proposal of a document that was changed since with what the document holds now, to be looked at. */
  async carryOver(document: vscode.TextDocument, mayStartServer = false): Promise<void> {
    const review = this.#parts.reviews.get(document);
    if (review === undefined) return;
    const { asked, proposal, readings } = review;
    await this.#alone(document, async (running) => {
      const found = optionsFor(document);
      const options = { ...found, "startServer.enabled": found["startServer.enabled"] || mayStartServer };
      const showing = { options, opensPreview: true, mayAccept: false };
      const failure = await this.#show(running, { asked, proposal, readings }, showing);
      const retry = (): unknown => this.carryOver(document, true);
      if (failure !== null) this.#presenting.fail(document, failure, found, retry);
    });
  }

  dispose(): void {
    this.cancelAll();
    this.#changed.dispose();
    this.#subscription.dispose();
  }

  async #alone(document: vscode.TextDocument, work: (running: Running) => Promise<void>): Promise<void> {
    const { notices } = this.#parts;
    if (this.isRunning(document)) {
      const stop: Remedy = { label: "Cancel It", act: () => this.cancel(document) };
      return notices.warn("An edit of this document is under way.", stop);
    }
    const running: Running = { document, controller: new AbortController() };
    this.#running.set(keyOf(document), running);
    this.#changed.fire();
    try {
      await work(running);
    } catch (error) {
      if (!(error instanceof OptionError)) throw error;
      notices.error(error.message, SETTINGS);
    } finally {
      this.#end(running);
    }
  }

  #end(running: Running): void {
    const key = keyOf(running.document);
    if (this.#running.get(key) !== running) return;
    this.#running.delete(key);
    this.#changed.fire();
  }

  async #run(running: Running, edit: WantedEdit, mayStartServer: boolean): Promise<void> {
    const { document } = running;
    const options = optionsFor(document);
    const refusal = await refusalOf(document);
    const source = sourceOf(document);
    const fault = refusal ?? textFault(source, edit);
    if (fault !== null) return this.#parts.notices.error(fault);
    this.#parts.reviews.close(document);
    this.#parts.diagnostics.clear(document);
    const mayStart = options["startServer.enabled"] || mayStartServer;
    const request = requestOf(source, edit, options);
    let outcome = await this.#asking.ask(running, request, options, mayStart);
    // Where an edit is refused because it is not clear, its likeliest reading is shown, and no setting accepts it.
    const refused = "failure" in outcome ? Readings.ofRefusal(request, outcome.failure.readings) : null;
    const asked = refused?.request ?? request;
    if (refused !== null) outcome = await this.#asking.ask(running, asked, options, false);
    const proposal = "failure" in outcome ? outcome.failure : this.#proposalOf(document, source.text, outcome.answer);
    const showing = { options, opensPreview: true, mayAccept: refused === null };
    const failure =
      proposal instanceof Proposal
        ? await this.#show(
            running,
            { asked, proposal, readings: refused ?? Readings.of(request, proposal.answer) },
            showing,
          )
        : proposal;
    this.#end(running);
    if (failure !== null) this.#presenting.fail(document, failure, options, () => this.start(document, edit, true));
  }

  /** Another reading is only looked at: no setting accepts it. Where it can't be had, the one that is shown stays. */
  async #step(running: Running, readings: Readings): Promise<void> {
    const { document } = running;
    const { reviews, notices } = this.#parts;
    const showing = { options: optionsFor(document), opensPreview: false, mayAccept: false, isQuiet: true };
    const asked = readings.request;
    const { likeliest } = readings;
    const proposal =
      readings.at === 0 && likeliest !== null
        ? this.#proposalOf(document, document.getText(), likeliest)
        : await this.#proposalTo(running, asked, showing.options);
    const failure =
      proposal instanceof Proposal ? await this.#show(running, { asked, proposal, readings }, showing) : proposal;
    if (failure === null) return;
    notices.error(failure.words);
    reviews.tell(document);
  }

  /** The proposal that the answer to a request makes. */
  async #proposalTo(running: Running, request: EditRequest, options: Options): Promise<Proposal | Failure> {
    const { document } = running;
    const sent = request.original ?? "";
    const fault = textFault({ ...sourceOf(document), text: sent }, {});
    if (fault !== null) return failed("bad_encoding", fault);
    const outcome = await this.#asking.ask(running, request, options, options["startServer.enabled"]);
    return "failure" in outcome ? outcome.failure : this.#proposalOf(document, sent, outcome.answer);
  }

  /**
   * Shows an offer, merged with the document where that was changed since. Null, or why it can't be.
   *
   * It waits then: the document may be changed so that it fits.
   */
  async #show(running: Running, offer: Offer, showing: Showing): Promise<Failure | null> {
    const { document } = running;
    const { reviews } = this.#parts;
    const before = reviews.get(document)?.proposal;
    const now = (): string => document.getText();
    const shown = await carryOver(offer, now, (request) => this.#proposalTo(running, request, showing.options));
    // Over before anything is awaited: hunks may be accepted, and another edit asked for.
    this.#end(running);
    if (reviews.get(document)?.proposal !== before)
      reviews.tell(document); // decided meanwhile
    else if ("proposal" in shown) await this.#presenting.present(document, offer, shown, showing);
    else {
      if (before === undefined && shown.kind !== CANCELLED.kind && !document.isClosed) reviews.open(document, offer);
      return shown;
    }
    return null;
  }

  /** Shows the proposal of an answer to the text that was sent. Null, or in a sentence why there is none. */
  async receive(
    document: vscode.TextDocument,
    sent: string,
    answer: NativeAnswer,
    options: Options,
  ): Promise<string | null> {
    let failure: Failure | null = CANCELLED;
    await this.#alone(document, async (running) => {
      const proposal = this.#proposalOf(document, sent, answer);
      const asked = requestOf({ ...sourceOf(document), text: sent }, {}, options);
      const showing = { options, opensPreview: false, mayAccept: false };
      const isOne = proposal instanceof Proposal;
      failure = isOne ? await this.#show(running, { asked, proposal, readings: null }, showing) : proposal;
    });
    return (failure as Failure | null)?.words ?? null;
  }

  /** The proposal of an answer to the text that was sent, or why there is none. */
  #proposalOf(document: vscode.TextDocument, sent: string, answer: NativeAnswer): Proposal | Failure {
    const { views, log } = this.#parts;
    if (document.isClosed) return failed("stale_base", "The document was closed; nothing was changed.");
    const proposal = proposalFor(sent, answer, lineEndOf(document));
    if (!(proposal instanceof Proposal)) return failed(proposal.code, proposal.words);
    this.#answers.set(keyOf(document), answer);
    views.rate.learn(answer);
    log.info(`${nameOf(document)}: ${proposal.hunks.length} hunks, ${speedOf(answer)}, decided by ${answer.strategy}`);
    return proposal;
  }
}

function failed(code: string, words: string): Failure {
  return { code, words: `${words} [${code}]`, kind: "failed" };
}

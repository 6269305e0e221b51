/** From a document and an edit to the service, and from its answer to a proposal. One request a document at a time. */

import * as vscode from "vscode";
import { ApplyError, type EditRequest, type NativeAnswer } from "apply-service-client";
import { isAutoAccepted, proposalFor } from "../core/answer.js";
import { ask } from "../core/exchange.js";
import { CANCELLED, type Failure, failureOf } from "../core/failure.js";
import { isLocal, type LocalServer } from "../core/localServer.js";
import { OptionError, type Options } from "../core/options.js";
import type { FoundServer } from "../core/programs.js";
import { Proposal } from "../core/proposal.js";
import { noticeOf, Readings } from "../core/readings.js";
import { requestOf, type Source, textFault, type WantedEdit } from "../core/request.js";
import { speedOf, statusText } from "../core/status.js";
import type { Diagnostics } from "./diagnostics.js";
import { keyOf, lineEndOf, nameOf, refusalOf, revealLine, sourceOf } from "./documents.js";
import type { Notices, Remedy } from "./notices.js";
import { Progress } from "./progress.js";
import { APPLY_REPLY, SET_KEY, SETTINGS, NEXT_READING, SHOW_VERDICTS } from "./remedies.js";
import type { Reviews } from "./reviews.js";
import { type ApiKeys, optionsFor } from "./settings.js";
import { Stream, StreamMark, type StreamViews } from "./streaming.js";

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

type Outcome = { readonly answer: NativeAnswer } | { readonly failure: Failure };

interface Running {
  readonly document: vscode.TextDocument;
  readonly controller: AbortController;
}

export class Requests implements vscode.Disposable {
  readonly #parts: Parts;
  readonly #running = new Map<string, Running>();
  readonly #answers = new Map<string, NativeAnswer>();
  readonly #mark = new StreamMark();
  readonly #changed = new vscode.EventEmitter<void>();
  readonly #subscription: vscode.Disposable;

  /** A request began or ended. */
  readonly onDidChange = this.#changed.event;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#subscription = vscode.workspace.onDidCloseTextDocument((document) => {
      this.cancel(document);
      this.#answers.delete(keyOf(document));
    });
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

  dispose(): void {
    this.cancelAll();
    this.#mark.dispose();
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
    let outcome = await this.#ask(running, source, request, options, mayStart);
    // Where an edit is refused because it is not clear, its likeliest reading is shown.
    const refused = "failure" in outcome ? Readings.ofRefusal(request, outcome.failure.readings) : null;
    if (refused !== null) outcome = await this.#ask(running, source, refused.request, options, false);
    // Over before anything is awaited: hunks may be accepted, and another edit asked for.
    this.#end(running);
    if ("failure" in outcome) this.#fail(document, edit, outcome.failure, options);
    else {
      const readings = refused ?? Readings.of(request, outcome.answer);
      const fault = await this.receive(document, source.text, outcome.answer, options, true, readings);
      if (fault !== null) this.#parts.notices.error(fault);
    }
  }

  /** Another reading is only looked at: no setting accepts it. Where it can't be had, the one that is shown stays. */
  async #step(running: Running, readings: Readings): Promise<void> {
    const { document } = running;
    const { reviews, notices } = this.#parts;
    const [options, source] = [optionsFor(document), sourceOf(document)];
    const outcome =
      readings.at === 0 && readings.likeliest !== null
        ? { answer: readings.likeliest }
        : await this.#ask(running, source, readings.request, options, false);
    const shown =
      "failure" in outcome ? outcome.failure.words : this.#proposalOf(document, source.text, outcome.answer);
    if (typeof shown === "string") {
      notices.error(shown);
      return reviews.tell(document);
    }
    reviews.open(document, shown, readings);
    revealFirst(document, shown);
  }

  async #ask(
    { document, controller }: Running,
    source: Source,
    request: EditRequest,
    options: Options,
    mayStart: boolean,
  ): Promise<Outcome> {
    const { keys, server, log, views } = this.#parts;
    const { signal } = controller;
    const progress = new Progress(nameOf(document), () => controller.abort());
    const stream = new Stream(document, views, this.#mark, (status) => progress.report(statusText(status)));
    log.info(`asking ${options.url} about ${nameOf(document)} (${source.text.length} characters)`);
    try {
      const apiKey = await keys.get(options.url);
      const startServer = mayStart
        ? (waiting: AbortSignal): Promise<void> => server.start(options, waiting)
        : undefined;
      const onText = (text: string): void => stream.add(text);
      const findServer = (): Promise<FoundServer | null> => server.findUserServer(options);
      const answer = await ask({ options, apiKey, request, signal, onText, findServer, startServer });
      if (isLocal(options.url)) views.statusBar.setServer("ready");
      return { answer };
    } catch (error) {
      if (!(error instanceof ApplyError) && !signal.aborted) log.error(error instanceof Error ? error : String(error));
      return { failure: failureOf(error, signal.aborted) };
    } finally {
      stream.end();
      progress.end();
    }
  }

  #fail(document: vscode.TextDocument, edit: WantedEdit, failure: Failure, options: Options): void {
    const { notices, views } = this.#parts;
    views.diffView.showProvisional(document, document.getText());
    if (failure.kind === CANCELLED.kind) {
      void this.#parts.server.look(options);
      views.statusBar.set(document, { phase: "ready" });
      return notices.info(failure.words);
    }
    if (!document.isClosed) {
      views.statusBar.set(
        document,
        failure.kind === "offline" ? { phase: "offline" } : { phase: "failed", code: failure.code },
      );
    }
    if (failure.kind === "offline") void this.#parts.server.look(options);
    else if (isLocal(options.url) && failure.code !== "not_ready" && failure.code !== "unreachable")
      views.statusBar.setServer("ready");
    notices.error(failure.words, ...this.#remedies(document, edit, failure, options));
  }

  #remedies(document: vscode.TextDocument, edit: WantedEdit, failure: Failure, options: Options): Remedy[] {
    if (failure.code === "unauthorized") return [SET_KEY];
    if (failure.kind !== "offline") return [];
    const start: Remedy = { label: "Start Server", act: () => this.start(document, edit, true) };
    return isLocal(options.url) && !options["startServer.enabled"] ? [start, SETTINGS] : [SETTINGS];
  }

  /** Shows the proposal of an answer to the text that was sent. Null, or in a sentence why there is none. */
  async receive(
    document: vscode.TextDocument,
    sent: string,
    answer: NativeAnswer,
    options: Options,
    opensPreview = true,
    readings: Readings | null = null,
  ): Promise<string | null> {
    const proposal = this.#proposalOf(document, sent, answer);
    if (typeof proposal === "string") return proposal;
    await this.#present(document, proposal, options, opensPreview, readings);
    return null;
  }

  /** The proposal of an answer to the text that was sent, or in a sentence why there is none. */
  #proposalOf(document: vscode.TextDocument, sent: string, answer: NativeAnswer): Proposal | string {
    const { views, log } = this.#parts;
    if (document.isClosed) return "The document was closed; nothing was changed.";
    const proposal = proposalFor(sent, document.getText(), answer, lineEndOf(document));
    if (!(proposal instanceof Proposal)) {
      views.statusBar.set(document, { phase: "failed", code: proposal.code });
      return `${proposal.words} [${proposal.code}]`;
    }
    this.#answers.set(keyOf(document), answer);
    views.rate.learn(answer);
    log.info(`${nameOf(document)}: ${proposal.hunks.length} hunks, ${speedOf(answer)}, decided by ${answer.strategy}`);
    return proposal;
  }

  async #present(
    document: vscode.TextDocument,
    proposal: Proposal,
    options: Options,
    opensPreview: boolean,
    readings: Readings | null,
  ): Promise<void> {
    const { reviews, diagnostics, notices, views } = this.#parts;
    const { answer } = proposal;
    const found = answer.verdicts.filter(({ severity }) => severity !== "pass").map(({ check }) => check);
    if (found.length > 0 || readings !== null) {
      const remedies = [
        ...(readings === null ? [] : [NEXT_READING]),
        SHOW_VERDICTS,
        ...(found.includes("other_files") ? [APPLY_REPLY] : []),
      ];
      notices.warn(noticeOf(found, readings), ...remedies);
    }
    if (proposal.hunks.length === 0 && readings === null) {
      views.statusBar.set(document, { phase: "ready" });
      diagnostics.show(document, proposal);
      return notices.info("The edit changes nothing.");
    }
    reviews.open(document, proposal, readings);
    revealFirst(document, proposal);
    const isRefused = readings !== null && readings.likeliest === null;
    if (!isRefused && isAutoAccepted(answer, options.autoAccept)) await reviews.accept(document, proposal.pending);
    else if (opensPreview && options.preview === "below") await views.belowView.open(document);
  }
}

function revealFirst(document: vscode.TextDocument, proposal: Proposal): void {
  if (proposal.hunks.length > 0) revealLine(document, proposal.placeOf(0).first);
}

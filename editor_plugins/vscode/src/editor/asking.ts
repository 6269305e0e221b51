/** One question to the service, with what is seen of it while it is under way. */

import type * as vscode from "vscode";
import { ApplyError, type EditRequest, type NativeAnswer } from "apply-service-client";
import { ask } from "../core/exchange.js";
import { type Failure, failureOf } from "../core/failure.js";
import { isLocal, type LocalServer } from "../core/localServer.js";
import type { Options } from "../core/options.js";
import type { FoundServer } from "../core/programs.js";
import { statusText } from "../core/status.js";
import { nameOf } from "./documents.js";
import { Progress } from "./progress.js";
import type { ApiKeys } from "./settings.js";
import { Stream, StreamMark, type StreamViews } from "./streaming.js";

export type Outcome = { readonly answer: NativeAnswer } | { readonly failure: Failure };

/** A request of a document from its start to what the user gets to see, however often the service is asked. */
export interface Running {
  readonly document: vscode.TextDocument;
  readonly controller: AbortController;
}

interface Parts {
  readonly keys: ApiKeys;
  readonly server: LocalServer;
  readonly views: StreamViews;
  readonly log: vscode.LogOutputChannel;
}

export class Asking implements vscode.Disposable {
  readonly #parts: Parts;
  readonly #mark = new StreamMark();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** `mayStart`: a server, where none answers. */
  async ask(
    { document, controller }: Running,
    request: EditRequest,
    options: Options,
    mayStart: boolean,
  ): Promise<Outcome> {
    const { keys, server, log, views } = this.#parts;
    const { signal } = controller;
    const progress = new Progress(nameOf(document), () => controller.abort());
    const stream = new Stream(document, views, this.#mark, (status) => progress.report(statusText(status)));
    log.info(`asking ${options.url} about ${nameOf(document)} (${request.original?.length ?? 0} characters)`);
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

  dispose(): void {
    this.#mark.dispose();
  }
}

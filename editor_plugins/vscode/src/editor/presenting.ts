/** What comes of a request, for the user to see: an offer in its document, or why there is none. */

import type * as vscode from "vscode";
import { foundIn, isAutoAccepted } from "../core/answer.js";
import type { Offer } from "../core/carryOver.js";
import { CANCELLED, type Failure } from "../core/failure.js";
import { isLocal, type LocalServer } from "../core/localServer.js";
import type { Options } from "../core/options.js";
import type { Proposal } from "../core/proposal.js";
import { noticeOf } from "../core/readings.js";
import type { Diagnostics } from "./diagnostics.js";
import { revealLine } from "./documents.js";
import type { Notices, Remedy } from "./notices.js";
import { APPLY_REPLY, SET_KEY, SETTINGS, NEXT_READING, SHOW_VERDICTS } from "./remedies.js";
import type { Reviews } from "./reviews.js";
import type { StreamViews } from "./streaming.js";

const CARRIED = "The document was changed since the request, and the edit was merged with the change.";

interface Parts {
  readonly reviews: Reviews;
  readonly diagnostics: Diagnostics;
  readonly notices: Notices;
  readonly server: LocalServer;
  readonly views: StreamViews;
}

/** How an offer is shown. */
export interface Showing {
  readonly options: Options;
  readonly opensPreview: boolean;
  /** Whether the settings may accept it. */
  readonly mayAccept: boolean;
  /** Whether what the checks found is known already. */
  readonly isQuiet?: boolean;
}

export class Presenting {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Shows an offer that fits its document.
   *
   * `first`: it before it was merged with changes of the document; `shown` itself where there were none.
   */
  async present(document: vscode.TextDocument, first: Offer, shown: Offer, showing: Showing): Promise<void> {
    const { reviews, diagnostics, notices, views } = this.#parts;
    const { proposal, readings } = shown;
    const answers = [first.proposal.answer, proposal.answer];
    const found = [...new Set(answers.flatMap(foundIn))];
    const isCarried = shown !== first;
    const words = [...(isCarried ? [CARRIED] : []), noticeOf(found, readings)].join(" ").trimEnd();
    const isTold = isCarried || showing.isQuiet !== true;
    if (isTold && (found.length > 0 || readings !== null)) {
      const remedies = [
        ...(readings === null ? [] : [NEXT_READING]),
        SHOW_VERDICTS,
        ...(found.includes("other_files") ? [APPLY_REPLY] : []),
      ];
      notices.warn(words, ...remedies);
    } else if (isCarried) notices.info(words);
    if (proposal.hunks.length === 0 && readings === null) {
      reviews.close(document);
      views.statusBar.set(document, { phase: "ready" });
      diagnostics.show(document, proposal);
      return notices.info("The edit changes nothing.");
    }
    reviews.open(document, shown);
    revealFirst(document, proposal);
    const { options, opensPreview, mayAccept } = showing;
    const isAccepted = mayAccept && answers.every((answer) => isAutoAccepted(answer, options.autoAccept));
    if (isAccepted) await reviews.accept(document, proposal.pending);
    else if (opensPreview && options.preview === "below") await views.belowView.open(document);
  }

  /** Says why there is nothing to show. `retry`: with a server that is started. */
  fail(document: vscode.TextDocument, failure: Failure, options: Options, retry: () => unknown): void {
    const { notices, reviews, views } = this.#parts;
    views.diffView.showProvisional(document, document.getText());
    if (failure.kind === CANCELLED.kind) {
      void this.#parts.server.look(options);
      views.statusBar.set(document, { phase: "ready" });
      reviews.tell(document);
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
    notices.error(failure.words, ...this.#remedies(failure, options, retry));
  }

  #remedies(failure: Failure, options: Options, retry: () => unknown): Remedy[] {
    if (failure.code === "unauthorized") return [SET_KEY];
    if (failure.kind !== "offline") return [];
    const start: Remedy = { label: "Start Server", act: retry };
    return isLocal(options.url) && !options["startServer.enabled"] ? [start, SETTINGS] : [SETTINGS];
  }
}

function revealFirst(document: vscode.TextDocument, proposal: Proposal): void {
  if (proposal.hunks.length > 0) revealLine(document, proposal.placeOf(0).first);
}

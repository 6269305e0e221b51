/** What the status bar says of a document. */

import type { NativeAnswer } from "apply-service-client";
import type { ServerState } from "./localServer.js";

export type Status =
  | { readonly phase: "ready" }
  | { readonly phase: "streaming"; readonly nTokens: number; readonly tokensPerS: number }
  | { readonly phase: "hunks"; readonly n: number; readonly speed: string; readonly reading: string }
  /** The document was changed since, so that the proposal does not fit. */
  | { readonly phase: "changed" }
  | { readonly phase: "failed"; readonly code: string }
  | { readonly phase: "offline" };

/** Characters of a token before any answer has told. */
const FIRST_GUESS = 4;

/** Estimates of a stream's speed; every answer's own counts correct what a token is taken to be. */
export class TokenRate {
  #charactersPerToken = FIRST_GUESS;

  learn(answer: NativeAnswer): void {
    const nTokens = answer.usage.completion_tokens;
    if (nTokens > 0) this.#charactersPerToken = Math.max(1, answer.merged_code.length / nTokens);
  }

  /** Of so many characters in so many seconds. */
  status(nCharacters: number, passedS: number): Status {
    const nTokens = nCharacters / this.#charactersPerToken;
    return { phase: "streaming", nTokens, tokensPerS: nTokens / Math.max(0.001, passedS) };
  }
}

/** What the answer says of its own speed; who decided, where no model did. */
export function speedOf(answer: NativeAnswer): string {
  const [nTokens, decodeS] = [answer.usage.completion_tokens, answer.timings_s["decode_s"] ?? 0];
  return nTokens > 0 && decodeS > 0 ? `${Math.round(nTokens / decodeS)} tok/s` : answer.strategy;
}

function words(status: Status): string {
  switch (status.phase) {
    case "streaming":
      if (status.nTokens === 0) return "streaming…";
      return `streaming… ~${Math.round(status.nTokens)} tok, ~${Math.round(status.tokensPerS)} tok/s`;
    case "hunks":
      return [`${status.n} ${status.n === 1 ? "hunk" : "hunks"}`, status.speed, status.reading]
        .filter((part) => part !== "")
        .join(", ");
    case "changed":
      return "document changed";
    case "failed":
      return `failed (${status.code})`;
    default:
      return status.phase;
  }
}

const SERVER_WORDS: Readonly<Record<ServerState, string>> = {
  unknown: "ready",
  ready: "ready",
  notFound: "server not found",
  starting: "server starting…",
  stopped: "server stopped",
};

/** `server`: how the one on this machine is, which is told where nothing else goes on. */
export function statusText(status: Status, server: ServerState = "unknown"): string {
  if (status.phase === "ready" || (status.phase === "offline" && server === "starting"))
    return `Apply: ${SERVER_WORDS[server]}`;
  return `Apply: ${words(status)}`;
}

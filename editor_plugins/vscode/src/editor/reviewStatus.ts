/** How a review stands, for the status bar. */

import type * as vscode from "vscode";
import { type Status, speedOf } from "../core/status.js";
import type { ReviewChange, Reviews } from "./reviews.js";
import type { StatusBar } from "./statusBar.js";

function statusOf({ review, proposal }: ReviewChange): Status {
  if (review === undefined) return { phase: "ready" };
  if (review.isStale) return { phase: "changed" };
  const reading = review.readings?.place ?? "";
  return { phase: "hunks", n: proposal.pending.length, speed: speedOf(proposal.answer), reading };
}

export function bindStatus(reviews: Reviews, statusBar: StatusBar): vscode.Disposable {
  return reviews.onDidChange((change) => statusBar.set(change.document, statusOf(change)));
}

/** What keys and menus are bound to: whether the document has a proposal and other readings of its edit, and whether a
 * request is under way. */

import * as vscode from "vscode";
import type { Requests } from "./requests.js";
import type { Reviews } from "./reviews.js";
import { subject } from "./subject.js";

/** A stale proposal counts: its keys then merge it with the document. */
export function bindContexts(reviews: Reviews, requests: Requests): vscode.Disposable {
  const update = (): void => {
    const document = subject();
    const review = document && reviews.get(document);
    const hasProposal = review !== undefined;
    void vscode.commands.executeCommand("setContext", "applyService.hasProposal", hasProposal);
    void vscode.commands.executeCommand("setContext", "applyService.hasReadings", review?.canStep === true);
    void vscode.commands.executeCommand("setContext", "applyService.isRunning", requests.isAnyRunning);
  };
  return vscode.Disposable.from(
    reviews.onDidChange(update),
    requests.onDidChange(update),
    vscode.window.onDidChangeActiveTextEditor(update),
  );
}

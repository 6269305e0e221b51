/** The status bar's item: what goes on for the document in the active editor. */

import * as vscode from "vscode";
import { type Status, statusText } from "../core/status.js";
import type { ServerState } from "../core/localServer.js";
import { keyOf } from "./documents.js";
import { subject } from "./subject.js";

const READY: Status = { phase: "ready" };

const COMMANDS: Readonly<Record<Status["phase"], string>> = {
  ready: "applyService.showOutput",
  streaming: "applyService.cancel",
  hunks: "applyService.nextHunk",
  changed: "applyService.nextHunk",
  failed: "applyService.showOutput",
  offline: "applyService.showOutput",
};

const HINTS: Readonly<Record<Status["phase"], string>> = {
  ready: "Show the log",
  streaming: "Cancel",
  hunks: "Go to the next hunk",
  changed: "Merge the edit with what was changed since",
  failed: "Show the log",
  offline: "No service answers. Show the log",
};

/** Command and hint where nothing goes on and the server is not ready. */
const SERVER_HINTS: Readonly<Partial<Record<ServerState, readonly [string, string]>>> = {
  notFound: ["applyService.startServer", "No server answers, and `apply-service` was not found. Start it to see why"],
  starting: ["applyService.showOutput", "Show the log"],
  stopped: ["applyService.startServer", "No server answers. Start it"],
};

export class StatusBar implements vscode.Disposable {
  readonly #item = vscode.window.createStatusBarItem("applyService.status", vscode.StatusBarAlignment.Right, 100);
  #server: ServerState = "unknown";
  readonly #states = new Map<string, Status>();
  readonly #subscriptions: vscode.Disposable;

  constructor() {
    this.#item.name = "Apply Service";
    this.#subscriptions = vscode.Disposable.from(
      this.#item,
      vscode.window.onDidChangeActiveTextEditor(() => this.#draw()),
      vscode.workspace.onDidCloseTextDocument((document) => this.set(document, READY)),
    );
    this.#draw();
    this.#item.show();
  }

  setServer(server: ServerState): void {
    this.#server = server;
    this.#draw();
  }

  set(document: vscode.TextDocument, status: Status): void {
    if (status.phase === "ready") this.#states.delete(keyOf(document));
    else this.#states.set(keyOf(document), status);
    this.#draw();
  }

  get(document: vscode.TextDocument): Status {
    return this.#states.get(keyOf(document)) ?? READY;
  }

  dispose(): void {
    this.#subscriptions.dispose();
  }

  #draw(): void {
    const document = subject();
    const status = document === undefined ? READY : this.get(document);
    const isBad = status.phase === "failed" || status.phase === "offline";
    this.#item.text = statusText(status, this.#server);
    const [command, hint] = (status.phase === "ready" ? SERVER_HINTS[this.#server] : undefined) ?? [
      COMMANDS[status.phase],
      HINTS[status.phase],
    ];
    this.#item.command = command;
    this.#item.tooltip = hint;
    this.#item.backgroundColor = isBad ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
  }
}

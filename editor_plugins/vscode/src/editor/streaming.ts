/** What is seen of a request under way: its speed, the place that the stream has come to, its text in the diff. */

import * as vscode from "vscode";
import { Provisional } from "../core/provisional.js";
import { type Status, TokenRate } from "../core/status.js";
import type { BelowView } from "./belowView.js";
import type { DiffView } from "./diffView.js";
import { editorsOf } from "./documents.js";
import type { StatusBar } from "./statusBar.js";

const REDRAW_MS = 100;

/** Views that streams are shown in. */
export interface StreamViews {
  readonly statusBar: StatusBar;
  readonly diffView: DiffView;
  readonly belowView: BelowView;
  readonly rate: TokenRate;
}

export class StreamMark implements vscode.Disposable {
  readonly #type = vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: new vscode.ThemeColor("editor.rangeHighlightBackground"),
    after: { contentText: "\u00a0\u00a0◂ streaming", color: new vscode.ThemeColor("editorCodeLens.foreground") },
  });

  show(document: vscode.TextDocument, line: number): void {
    const place = Math.min(line, document.lineCount - 1);
    for (const editor of editorsOf(document)) editor.setDecorations(this.#type, [document.lineAt(place).range]);
  }

  clear(document: vscode.TextDocument): void {
    for (const editor of editorsOf(document)) editor.setDecorations(this.#type, []);
  }

  dispose(): void {
    this.#type.dispose();
  }
}

/** One request's. */
export class Stream {
  readonly #document: vscode.TextDocument;
  readonly #views: StreamViews;
  readonly #mark: StreamMark;
  readonly #onStatus: (status: Status) => void;
  readonly #provisional: Provisional;
  #startedMs = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(document: vscode.TextDocument, views: StreamViews, mark: StreamMark, onStatus: (status: Status) => void) {
    this.#document = document;
    this.#views = views;
    this.#mark = mark;
    this.#onStatus = onStatus;
    this.#provisional = new Provisional(document.getText());
    this.#tell({ phase: "streaming", nTokens: 0, tokensPerS: 0 });
    views.diffView.showProvisional(document, this.#provisional.text);
  }

  add(text: string): void {
    if (this.#startedMs === 0) this.#startedMs = Date.now();
    this.#provisional.add(text);
    this.#timer ??= setTimeout(() => this.#redraw(), REDRAW_MS);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#mark.clear(this.#document);
  }

  #redraw(): void {
    this.#timer = undefined;
    if (this.#document.isClosed) return;
    this.#tell(this.#views.rate.status(this.#provisional.length, (Date.now() - this.#startedMs) / 1000));
    this.#mark.show(this.#document, this.#provisional.line);
    this.#views.diffView.showProvisional(this.#document, this.#provisional.text);
  }

  #tell(status: Status): void {
    this.#views.statusBar.set(this.#document, status);
    this.#onStatus(status);
  }
}

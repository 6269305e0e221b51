/** Pages that the extension makes: the text a document would become, and the verdicts on it. */

import * as vscode from "vscode";
import { keyOf, nameOf } from "./documents.js";
import { aboutOf, SCHEME } from "./subject.js";

export type PageKind = "proposal" | "preview" | "verdicts";

const NAMES: Readonly<Record<PageKind, (name: string) => string>> = {
  proposal: (name) => name, // the name tells the language
  preview: (name) => `Preview of ${name}`,
  verdicts: (name) => `Verdicts on ${name}.txt`,
};

export function pageOf(kind: PageKind, document: vscode.TextDocument): vscode.Uri {
  const path = `/${kind}/${NAMES[kind](nameOf(document))}`;
  return vscode.Uri.from({ scheme: SCHEME, path, query: keyOf(document) });
}

export function kindOf(page: vscode.Uri): PageKind | undefined {
  if (page.scheme !== SCHEME) return undefined;
  return (["proposal", "preview"] as const).find((kind) => page.path.startsWith(`/${kind}/`)) ?? "verdicts";
}

export class Pages implements vscode.TextDocumentContentProvider, vscode.Disposable {
  readonly #texts = new Map<string, string>();
  readonly #changed = new vscode.EventEmitter<vscode.Uri>();
  readonly #subscriptions: vscode.Disposable;

  readonly onDidChange = this.#changed.event;

  constructor() {
    this.#subscriptions = vscode.Disposable.from(
      vscode.workspace.registerTextDocumentContentProvider(SCHEME, this),
      vscode.workspace.onDidCloseTextDocument((document) => this.#forget(keyOf(document))),
    );
  }

  /** Gives a page its text; where it is open it is shown there. */
  set(page: vscode.Uri, text: string): void {
    this.#texts.set(page.toString(), text);
    this.#changed.fire(page);
  }

  provideTextDocumentContent(page: vscode.Uri): string {
    return this.#texts.get(page.toString()) ?? "";
  }

  dispose(): void {
    this.#changed.dispose();
    this.#subscriptions.dispose();
  }

  /** What was about a document goes with it, but for what is still shown. */
  #forget(about: string): void {
    const shown = new Set(vscode.workspace.textDocuments.map(keyOf));
    for (const page of this.#texts.keys()) {
      if (aboutOf(vscode.Uri.parse(page, true)) === about && !shown.has(page)) this.#texts.delete(page);
    }
  }
}

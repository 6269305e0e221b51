/** What each command does. */

import * as vscode from "vscode";
import { OptionError } from "../core/options.js";
import { hunkAt, lineOfNeighbour } from "../core/preview.js";
import { NOTEBOOK_REFUSAL } from "../core/refusal.js";
import { reportOf } from "../core/report.js";
import type { Review } from "../core/review.js";
import { BelowView } from "./belowView.js";
import type { DiffView } from "./diffView.js";
import { editorsOf, keyOf, moveCursor, nameOf } from "./documents.js";
import type { Notices } from "./notices.js";
import { pageOf, type Pages } from "./pages.js";
import type { Replies } from "./replies.js";
import type { Requests } from "./requests.js";
import type { Reviews } from "./reviews.js";
import { type ApiKeys, optionsFor } from "./settings.js";
import { clipboardSnippet, pickTarget, selectedSnippet } from "./sources.js";
import { subject } from "./subject.js";

export interface CommandParts {
  readonly requests: Requests;
  readonly replies: Replies;
  readonly reviews: Reviews;
  readonly diffView: DiffView;
  readonly belowView: BelowView;
  readonly pages: Pages;
  readonly notices: Notices;
  readonly keys: ApiKeys;
  readonly log: vscode.LogOutputChannel;
}

/** What a command is given to do nothing. */
const FIRST_USE = Symbol("first use");
const NO_DOCUMENT = "Open the file to edit in a text editor first.";

interface Reviewed {
  readonly document: vscode.TextDocument;
  readonly review: Review;
}

export class Commands {
  readonly #parts: CommandParts;
  /** One key after the other: the next finds the cursor where the last one left it. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(parts: CommandParts) {
    this.#parts = parts;
  }

  register(): vscode.Disposable {
    const acts: Readonly<Record<string, (...given: unknown[]) => unknown>> = {
      applyClipboard: () => this.#applyClipboard(),
      applySelectionToFile: () => this.#applySelectionToFile(),
      applyReply: () => this.#applyReply(),
      applyInstruction: () => this.#applyInstruction(),
      acceptHunk: (about, index) => this.#inTurn(() => this.#decideOne("accept", about, index)),
      rejectHunk: (about, index) => this.#inTurn(() => this.#decideOne("reject", about, index)),
      acceptAll: () => this.#inTurn(() => this.#decideAll("accept")),
      rejectAll: () => this.#inTurn(() => this.#decideAll("reject")),
      nextHunk: () => this.#inTurn(() => this.#goTo(1)),
      previousHunk: () => this.#inTurn(() => this.#goTo(-1)),
      nextReading: (about) => this.#inTurn(() => this.#step(1, about)),
      previousReading: (about) => this.#inTurn(() => this.#step(-1, about)),
      showVerdicts: () => this.#showVerdicts(),
      openPreview: () => this.#openPreview(),
      openDiff: () => this.#openDiff(),
      cancel: () => this.#cancel(),
      setApiKey: () => this.#setApiKey(),
      showOutput: () => this.#parts.log.show(),
    };
    const registered = Object.entries(acts).map(([name, act]) =>
      vscode.commands.registerCommand(`applyService.${name}`, (...given: unknown[]) =>
        given[0] === FIRST_USE ? undefined : act(...given),
      ),
    );
    // The editor holds back the first use of a command until it has asked all extensions for it.  A second key would
    // overtake it: the decision would be made before the cursor has gone to the next hunk.
    for (const name of Object.keys(acts)) void vscode.commands.executeCommand(`applyService.${name}`, FIRST_USE);
    return vscode.Disposable.from(...registered);
  }

  // -- asking ---------------------------------------------------------------------------------------------------------
  async #applyClipboard(): Promise<void> {
    const document = this.#target();
    if (document === undefined) return;
    const snippet = await clipboardSnippet();
    if ("fault" in snippet) return this.#parts.notices.error(snippet.fault);
    await this.#parts.requests.start(document, { update: snippet.text });
  }

  async #applySelectionToFile(): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    if (editor === undefined)
      return this.#parts.notices.error("Open the text that holds the snippet in an editor first.");
    const update = selectedSnippet(editor);
    if (update === null) {
      return this.#parts.notices.error("Select the snippet, or place the cursor in a fenced code block.");
    }
    const document = await pickTarget(editor.document.uri);
    if (document !== undefined) await this.#parts.requests.start(document, { update });
  }

  async #applyReply(): Promise<void> {
    const reply = await clipboardSnippet();
    if ("fault" in reply) return this.#parts.notices.error(reply.fault);
    await this.#parts.replies.start(reply.text);
  }

  async #applyInstruction(): Promise<void> {
    const document = this.#target();
    if (document === undefined) return;
    const prompt = { title: "Apply with Instruction", prompt: "What is to be done", ignoreFocusOut: true };
    const instruction = await vscode.window.showInputBox(prompt);
    if (instruction === undefined || instruction.trim() === "") return;
    const clipboard = await clipboardSnippet();
    const withSnippet = "fault" in clipboard ? false : await askForSnippet();
    if (withSnippet === undefined) return;
    const update = withSnippet && "text" in clipboard ? { update: clipboard.text } : {};
    await this.#parts.requests.start(document, { instruction, ...update });
  }

  #cancel(): void {
    const { requests, notices } = this.#parts;
    const document = subject();
    const isStopped = document !== undefined && requests.cancel(document);
    if (!isStopped && !requests.cancelAll()) notices.info("No edit is under way.");
  }

  /** The document to edit; the user is told why there is none. */
  #target(): vscode.TextDocument | undefined {
    const document = subject();
    const isNotebook = document === undefined && vscode.window.activeNotebookEditor !== undefined;
    if (isNotebook) this.#parts.notices.error(NOTEBOOK_REFUSAL);
    else if (document === undefined) this.#parts.notices.error(NO_DOCUMENT);
    return isNotebook ? undefined : document;
  }

  async #inTurn(act: () => Promise<void>): Promise<void> {
    const turn = this.#last.then(act);
    this.#last = turn.catch(() => undefined);
    await turn;
  }

  // -- deciding -------------------------------------------------------------------------------------------------------
  async #decideAll(decision: "accept" | "reject"): Promise<void> {
    const found = this.#reviewed(subject());
    if (found === undefined) return;
    const { hunks, pending } = found.review.proposal;
    const isDropped = decision === "reject" && found.review.isStale;
    if (hunks.length === 0 || isDropped) this.#parts.reviews.close(found.document);
    else await this.#parts.reviews[decision](found.document, pending);
  }

  /** `about` and `index` come from a hunk's own buttons; without them it is the hunk at the cursor. */
  async #decideOne(decision: "accept" | "reject", about: unknown, index: unknown): Promise<void> {
    const named = documentNamed(about);
    const found = await this.#current(named ?? subject());
    if (found === undefined) return;
    const active = vscode.window.activeTextEditor;
    const page = BelowView.isPage(active) ? active : undefined;
    const atCursor = (): number | null => (page === undefined ? cursorHunk(found) : this.#parts.belowView.hunkAt(page));
    const chosen = named !== undefined && typeof index === "number" ? index : atCursor();
    if (chosen === null) {
      const next = { label: "Next Hunk", act: () => this.#goTo(1) };
      return this.#parts.notices.info("There is no pending hunk at the cursor.", next);
    }
    await this.#parts.reviews[decision](found.document, [chosen]);
    // A document that is not in view is shown while it is edited.
    if (page !== undefined) await this.#parts.belowView.open(found.document);
  }

  /** `about` comes from a button; without it it is the document in the active editor. */
  async #step(by: 1 | -1, about: unknown): Promise<void> {
    const found = await this.#current(documentNamed(about) ?? subject());
    if (found === undefined) return;
    const isOnPage = BelowView.isPage(vscode.window.activeTextEditor);
    await this.#parts.requests.step(found.document, by);
    if (isOnPage) await this.#parts.belowView.open(found.document);
  }

  async #goTo(step: 1 | -1): Promise<void> {
    const found = await this.#current(subject());
    if (found === undefined) return;
    const { document, review } = found;
    const active = vscode.window.activeTextEditor;
    if (BelowView.isPage(active)) return this.#parts.belowView.goTo(active, step);
    const editor = editorsOf(document)[0] ?? (await vscode.window.showTextDocument(document));
    const line = lineOfNeighbour(review.proposal, editor.selection.active.line, step);
    if (line !== null) await moveCursor(editor, line);
  }

  /** The review of a document; where that was changed since, the two are merged first, for the user to look at. */
  async #current(document: vscode.TextDocument | undefined): Promise<Reviewed | undefined> {
    const found = this.#reviewed(document);
    if (found?.review.isStale !== true) return found;
    await this.#parts.requests.carryOver(found.document);
    return undefined;
  }

  /** The review of a document; the user is told that there is none. */
  #reviewed(document: vscode.TextDocument | undefined): Reviewed | undefined {
    const review = document && this.#parts.reviews.get(document);
    if (review === undefined) this.#parts.notices.info("There is no proposal for this document.");
    return document === undefined || review === undefined ? undefined : { document, review };
  }

  // -- looking --------------------------------------------------------------------------------------------------------
  async #openPreview(): Promise<void> {
    const found = await this.#current(subject());
    if (found !== undefined) await this.#parts.belowView.open(found.document);
  }

  async #openDiff(): Promise<void> {
    const document = subject();
    const isRunning = document !== undefined && this.#parts.requests.isRunning(document);
    if (document !== undefined && isRunning) return this.#parts.diffView.open(document, true);
    const found = this.#reviewed(document);
    if (found !== undefined) await this.#parts.diffView.open(found.document, false);
  }

  async #showVerdicts(): Promise<void> {
    const document = subject();
    const answer = document && this.#parts.requests.lastAnswer(document);
    if (document === undefined || answer === undefined) {
      return this.#parts.notices.info("There is no answer for this document yet.");
    }
    const page = pageOf("verdicts", document);
    this.#parts.pages.set(page, reportOf(nameOf(document), answer));
    await vscode.window.showTextDocument(page, {
      viewColumn: vscode.ViewColumn.Beside,
      preview: true,
      preserveFocus: true,
    });
  }

  // -- the key --------------------------------------------------------------------------------------------------------
  async #setApiKey(): Promise<void> {
    const { keys, notices } = this.#parts;
    const url = this.#url();
    if (url === undefined) return;
    const key = await vscode.window.showInputBox({
      title: "Set API Key",
      prompt: `The key of ${url}; empty: none`,
      password: true,
      ignoreFocusOut: true,
      validateInput: (text) =>
        /^[\x21-\x7e]*$/.test(text.trim()) ? null : "A key has printable ASCII characters only.",
    });
    if (key === undefined) return;
    await keys.set(url, key.trim() === "" ? undefined : key.trim());
    notices.info(key.trim() === "" ? `No key is sent to ${url}.` : `The key for ${url} is kept in the secret storage.`);
  }

  #url(): string | undefined {
    try {
      return optionsFor(subject()).url;
    } catch (error) {
      if (!(error instanceof OptionError)) throw error;
      this.#parts.notices.error(error.message);
      return undefined;
    }
  }
}

function documentNamed(about: unknown): vscode.TextDocument | undefined {
  return vscode.workspace.textDocuments.find((document) => keyOf(document) === about);
}

function cursorHunk({ document, review }: Reviewed): number | null {
  const editor = editorsOf(document)[0];
  return editor === undefined ? null : hunkAt(review.proposal, editor.selection.active.line);
}

/** Undefined: the user went away. */
async function askForSnippet(): Promise<boolean | undefined> {
  const [alone, both] = ["The instruction alone", "With the clipboard's snippet"];
  const picked = await vscode.window.showQuickPick([alone, both], { title: "Apply with Instruction" });
  return picked === undefined ? undefined : picked === both;
}

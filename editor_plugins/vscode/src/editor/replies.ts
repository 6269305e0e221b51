/** A reply over several files, to a folder of the workspace: a proposal in each file, in a tab of its own. */

import { realpath } from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import type { BatchItem } from "apply-service-client";
import { askBatch } from "../core/exchange.js";
import { failureOf } from "../core/failure.js";
import type { LocalServer } from "../core/localServer.js";
import { OptionError, type Options } from "../core/options.js";
import type { FoundServer } from "../core/programs.js";
import { answerOfItem, isInside, nameOfItem, namesOf, summary } from "../core/reply.js";
import { sha256, textFault } from "../core/request.js";
import { refusalOf, sourceOf } from "./documents.js";
import type { Notices } from "./notices.js";
import { Progress } from "./progress.js";
import type { Requests } from "./requests.js";
import type { Reviews } from "./reviews.js";
import { type ApiKeys, optionsFor } from "./settings.js";

interface Parts {
  readonly requests: Requests;
  readonly reviews: Reviews;
  readonly notices: Notices;
  readonly keys: ApiKeys;
  readonly server: LocalServer;
}

/** A file of the reply as it was sent. */
interface Sent {
  readonly document: vscode.TextDocument;
  readonly text: string;
}

/** The real path of what is there, or would be: links of the folders that exist are followed. */
async function realOf(file: string): Promise<string> {
  const folder = path.dirname(file);
  return realpath(file).catch(async () =>
    folder === file ? file : path.join(await realOf(folder), path.basename(file)),
  );
}

async function leadsInside(folder: vscode.Uri, uri: vscode.Uri): Promise<boolean> {
  if (uri.scheme !== "file") return true;
  const [root, file] = [await realOf(folder.fsPath), await realOf(uri.fsPath)];
  return file.startsWith(root.endsWith(path.sep) ? root : root + path.sep);
}

async function isFile(uri: vscode.Uri): Promise<boolean> {
  const isThere = (stat: vscode.FileStat): boolean => (stat.type & vscode.FileType.File) !== 0;
  return Promise.resolve(vscode.workspace.fs.stat(uri)).then(isThere, () => false);
}

/** The folder that the names are of; undefined: there is none, or the user went away. */
async function pickFolder(): Promise<vscode.Uri | undefined> {
  const folders = vscode.workspace.workspaceFolders ?? [];
  if (folders.length <= 1) return folders[0]?.uri;
  return (await vscode.window.showWorkspaceFolderPick({ placeHolder: "The folder that the reply's names are of" }))
    ?.uri;
}

export class Replies {
  readonly #parts: Parts;
  #isRunning = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async start(text: string): Promise<void> {
    const { notices } = this.#parts;
    if (this.#isRunning) return notices.warn("A reply is under way.");
    if ((vscode.workspace.workspaceFolders ?? []).length === 0)
      return notices.error("Open the folder that the reply's files are in first.");
    const fault = textFault({ text: "", name: null, language: "" }, { update: text });
    if (fault !== null) return notices.error(fault);
    const folder = await pickFolder();
    if (folder === undefined) return;
    this.#isRunning = true;
    const controller = new AbortController();
    const progress = new Progress("Reply", () => controller.abort());
    try {
      await this.#run(folder, text, controller.signal);
    } catch (error) {
      const { words, kind } = failureOf(error, controller.signal.aborted);
      if (error instanceof OptionError) notices.error(error.message);
      else if (kind === "cancelled") notices.info(words);
      else notices.error(words);
    } finally {
      progress.end();
      this.#isRunning = false;
    }
  }

  /** The service says first which files it wants, then what becomes of them. */
  async #run(folder: vscode.Uri, patch: string, signal: AbortSignal): Promise<void> {
    const options = { ...optionsFor(undefined), autoAccept: "never" } as const;
    const { server } = this.#parts;
    const apiKey = await this.#parts.keys.get(options.url);
    const findServer = (): Promise<FoundServer | null> => server.findUserServer(options);
    const startServer = options["startServer.enabled"]
      ? (waiting: AbortSignal): Promise<void> => server.start(options, waiting)
      : undefined;
    const request = { patch, mode: "independent", on_verdict: { ...options.onVerdict } } as const;
    const ask = (files: { path: string; original: string; base_sha256: string }[]): Promise<BatchItem[]> =>
      askBatch({ options, apiKey, signal, findServer, startServer }, { ...request, files }).then(({ items }) => items);
    const named = await ask([]);
    const sent = await this.#read(folder, namesOf(named));
    const files = [...sent].map(([name, { text }]) => ({ path: name, original: text, base_sha256: sha256(text) }));
    const items = files.length === 0 ? named : await ask(files);
    await this.#present(folder, items, sent, options);
  }

  async #read(folder: vscode.Uri, names: readonly string[]): Promise<Map<string, Sent>> {
    const sent = new Map<string, Sent>();
    for (const name of names) {
      const uri = vscode.Uri.joinPath(folder, name);
      if (!isInside(name) || !(await leadsInside(folder, uri)) || !(await isFile(uri))) continue;
      const document = await vscode.workspace.openTextDocument(uri);
      sent.set(name, { document, text: document.getText() });
    }
    return sent;
  }

  async #present(
    folder: vscode.Uri,
    items: readonly BatchItem[],
    sent: ReadonlyMap<string, Sent>,
    options: Options,
  ): Promise<void> {
    const { notices, reviews } = this.#parts;
    const hunks = new Map<string, number>();
    const documents: vscode.TextDocument[] = [];
    let nFailed = 0;
    for (const item of items) {
      const name = nameOfItem(item);
      const found = await this.#offer(folder, item, sent.get(name), options);
      if (typeof found === "string") {
        nFailed += 1;
        notices.error(`${name}: ${found}`);
      } else {
        hunks.set(name, reviews.get(found)?.proposal.hunks.length ?? 0);
        documents.push(found);
      }
    }
    const first = documents.find((document) => reviews.get(document) !== undefined);
    if (first !== undefined) await vscode.window.showTextDocument(first);
    if (first !== undefined && options.preview === "below")
      await vscode.commands.executeCommand("applyService.openPreview");
    const acceptAll = {
      label: "Accept All",
      act: async (): Promise<void> => {
        for (const document of documents) {
          const pending = reviews.get(document)?.proposal.pending ?? [];
          if (pending.length > 0) await reviews.accept(document, pending);
        }
      },
    };
    notices.info(summary(hunks, nFailed), ...(first === undefined ? [] : [acceptAll]));
  }

  /** The document that shows its proposal, or in a sentence why there is none. It stays open in a tab of its own. */
  async #offer(
    folder: vscode.Uri,
    item: BatchItem,
    sent: Sent | undefined,
    options: Options,
  ): Promise<vscode.TextDocument | string> {
    const answer = answerOfItem(item);
    if (typeof answer === "string") return answer;
    const uri = vscode.Uri.joinPath(folder, nameOfItem(item));
    if (!(await leadsInside(folder, uri))) return "The name leads out of the folder.";
    const document = sent?.document ?? (await vscode.workspace.openTextDocument(uri.with({ scheme: "untitled" })));
    const refusal = (await refusalOf(document)) ?? textFault(sourceOf(document), {});
    if (refusal !== null) return refusal;
    if (this.#parts.requests.isRunning(document)) return "An edit of this document is under way.";
    await vscode.window.showTextDocument(document, { preview: false, preserveFocus: true });
    return (await this.#parts.requests.receive(document, sent?.text ?? "", answer, options)) ?? document;
  }
}

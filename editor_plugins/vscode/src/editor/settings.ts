/** The settings that hold for a document, and the key of the server they name. */

import * as vscode from "vscode";
import { completeOptions, type Options } from "../core/options.js";

/** Throws OptionError for a setting that cannot be used. */
export function optionsFor(document: vscode.TextDocument | undefined): Options {
  const given = vscode.workspace.getConfiguration("applyService", document);
  const names = Object.keys(given).filter((name) => typeof given[name] !== "function");
  return completeOptions(Object.fromEntries(names.map((name) => [name, given[name]])));
}

/** Keys in the editor's secret storage. Each belongs to the server it was given for, and is sent to no other. */
export class ApiKeys {
  readonly #secrets: vscode.SecretStorage;

  constructor(secrets: vscode.SecretStorage) {
    this.#secrets = secrets;
  }

  async get(url: string): Promise<string | undefined> {
    return this.#secrets.get(this.#name(url));
  }

  /** Undefined: the key is forgotten. */
  async set(url: string, key: string | undefined): Promise<void> {
    if (key === undefined) await this.#secrets.delete(this.#name(url));
    else await this.#secrets.store(this.#name(url), key);
  }

  #name(url: string): string {
    return `applyService.apiKey:${new URL(url).origin}`;
  }
}

/** The one way the extension speaks to its user: a message with what can be done about it, and a line in the log. */

import * as vscode from "vscode";

/** A button and what it does. */
export interface Remedy {
  readonly label: string;
  readonly act: () => unknown;
}

type Show = (text: string, ...labels: string[]) => Thenable<string | undefined>;

export class Notices {
  readonly #log: vscode.LogOutputChannel;

  constructor(log: vscode.LogOutputChannel) {
    this.#log = log;
  }

  info(text: string, ...remedies: Remedy[]): void {
    this.#log.info(text);
    this.#show(vscode.window.showInformationMessage, text, remedies);
  }

  warn(text: string, ...remedies: Remedy[]): void {
    this.#log.warn(text);
    this.#show(vscode.window.showWarningMessage, text, remedies);
  }

  error(text: string, ...remedies: Remedy[]): void {
    this.#log.error(text);
    this.#show(vscode.window.showErrorMessage, text, remedies);
  }

  /** Nobody waits for the user to answer. */
  #show(show: Show, text: string, remedies: readonly Remedy[]): void {
    // A link in what a message quotes of a file is none of ours.
    const chosen = show(`Apply: ${text.replaceAll("](", "]\u200b(")}`, ...remedies.map(({ label }) => label));
    void chosen.then((label) => remedies.find((remedy) => remedy.label === label)?.act());
  }
}

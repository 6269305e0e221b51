/** A notification with a button that cancels, for a request that takes long enough to be seen. */

import * as vscode from "vscode";

const DELAY_MS = 400;

export class Progress {
  readonly #timer: ReturnType<typeof setTimeout>;
  #isOver = false;
  #onEnd: () => void = () => undefined;
  #onReport: (message: string) => void = () => undefined;

  /** `name`: the file's. */
  constructor(name: string, onCancel: () => void) {
    this.#timer = setTimeout(() => void this.#show(name, onCancel), DELAY_MS);
  }

  report(message: string): void {
    this.#onReport(message);
  }

  end(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#onEnd();
  }

  async #show(name: string, onCancel: () => void): Promise<void> {
    const options = { location: vscode.ProgressLocation.Notification, title: name, cancellable: true };
    await vscode.window.withProgress(options, (progress, token) => {
      token.onCancellationRequested(onCancel);
      progress.report({ message: "Apply: waiting for the service" });
      this.#onReport = (message) => progress.report({ message });
      return new Promise<void>((resolve) => {
        this.#onEnd = resolve;
        if (this.#isOver) resolve();
      });
    });
  }
}

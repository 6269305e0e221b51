/** Findings of the checks, and hunks that the model was unsure of, in the list of problems. */

import * as vscode from "vscode";
import { type Finding, findingsOf } from "../core/findings.js";
import type { Proposal } from "../core/proposal.js";
import type { ReviewChange, Reviews } from "./reviews.js";

const SEVERITIES: Readonly<Record<Finding["severity"], vscode.DiagnosticSeverity>> = {
  error: vscode.DiagnosticSeverity.Error,
  warning: vscode.DiagnosticSeverity.Warning,
  information: vscode.DiagnosticSeverity.Information,
};

function diagnosticOf(finding: Finding, document: vscode.TextDocument): vscode.Diagnostic {
  const last = Math.min(finding.last, document.lineCount - 1);
  const first = Math.min(finding.first, last);
  const range = new vscode.Range(first, 0, last, document.lineAt(last).text.length);
  const diagnostic = new vscode.Diagnostic(range, finding.message, SEVERITIES[finding.severity]);
  diagnostic.source = "apply-service";
  diagnostic.code = finding.code;
  return diagnostic;
}

export class Diagnostics implements vscode.Disposable {
  readonly #collection = vscode.languages.createDiagnosticCollection("apply-service");
  readonly #subscriptions: vscode.Disposable;

  constructor(reviews: Reviews) {
    this.#subscriptions = vscode.Disposable.from(
      this.#collection,
      reviews.onDidChange((change) => this.#follow(change)),
      vscode.workspace.onDidChangeTextDocument((event) => {
        if (event.contentChanges.length > 0 && reviews.get(event.document) === undefined) this.clear(event.document);
      }),
      vscode.workspace.onDidCloseTextDocument((document) => this.clear(document)),
    );
  }

  /** Of an answer that leaves nothing to decide. */
  show(document: vscode.TextDocument, proposal: Proposal): void {
    this.#collection.set(
      document.uri,
      findingsOf(proposal).map((finding) => diagnosticOf(finding, document)),
    );
  }

  clear(document: vscode.TextDocument): void {
    this.#collection.delete(document.uri);
  }

  dispose(): void {
    this.#subscriptions.dispose();
  }

  /** What was accepted keeps its findings until the document is changed: places are only known up to then. */
  #follow({ document, review, proposal }: ReviewChange): void {
    const isKept = document.getText() === proposal.text && (review !== undefined || proposal.accepted.length > 0);
    if (isKept && !document.isClosed) this.show(document, proposal);
    else this.clear(document);
  }
}

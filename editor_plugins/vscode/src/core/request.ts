/** From a document and an edit to a request. */

import { createHash } from "node:crypto";
import type { EditRequest } from "apply-service-client";
import type { Options } from "./options.js";

/** What is to be done. */
export interface WantedEdit {
  readonly update?: string;
  readonly instruction?: string;
}

/** The document as it was when the edit was asked for. */
export interface Source {
  readonly text: string;
  /** The file's name without folders; null: it has none yet. */
  readonly name: string | null;
  readonly language: string;
}

export function sha256(text: string): string {
  return createHash("sha256").update(text, "utf8").digest("hex");
}

/** Why texts cannot be sent; null where they can. */
export function textFault(source: Source, edit: WantedEdit): string | null {
  const texts = { document: source.text, snippet: edit.update ?? "", instruction: edit.instruction ?? "" };
  for (const [name, text] of Object.entries(texts)) {
    if (!text.isWellFormed()) return `The ${name} holds half of a character (a lone surrogate), which no file can.`;
    if (text.includes("\0")) return `The ${name} holds a NUL character.`;
  }
  return null;
}

/** The request's body. Settings that are empty are the service's own choice and are left out. */
export function requestOf(source: Source, edit: WantedEdit, options: Options): EditRequest {
  const { update, instruction } = edit;
  const { model, drafter, constrain } = options;
  return {
    original: source.text,
    base_sha256: sha256(source.text),
    strategy: options.strategy,
    timeout_s: options.timeoutSeconds,
    ...(update !== undefined && { update }),
    ...(instruction !== undefined && { instruction }),
    ...(source.name !== null && { path: source.name }),
    ...(source.name === null && source.language !== "plaintext" && { language: source.language }),
    ...(model !== "" && { model }),
    ...(drafter !== "" && { drafter }),
    ...(constrain !== "" && { constrain }),
    ...(Object.keys(options.onVerdict).length > 0 && { on_verdict: { ...options.onVerdict } }),
  };
}

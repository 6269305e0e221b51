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

/** Longest edit that is taken from the clipboard, in characters. */
export const MOST_CHARACTERS = 1_000_000;

/** Why the clipboard's text is no edit, in a sentence; null where it may be one. */
export function clipboardFault(text: string): string | null {
  if (text.trim() === "") return "The clipboard holds no text. Copy a snippet first.";
  const nReplaced = text.split("\ufffd").length - 1;
  if (/[\u0000-\u0008\u000e-\u001a\u001c-\u001f]/.test(text) || 10 * nReplaced > text.length)
    return "The clipboard holds binary data, not a snippet. Copy the snippet's text, and ask again.";
  if (!/\p{L}/u.test(text))
    return "The clipboard's text has no letters, so it is no snippet. Copy the snippet, and ask again.";
  if (text.length <= MOST_CHARACTERS) return null;
  const [has, most] = [text.length, MOST_CHARACTERS].map((n) => n.toLocaleString("en"));
  return `The clipboard's text is too long for a snippet: ${has} characters; at most ${most} are taken.`;
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

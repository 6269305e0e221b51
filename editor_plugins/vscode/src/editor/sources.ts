/** Where an edit comes from, and which document it is for. */

import * as vscode from "vscode";
import { blockAt } from "../core/fence.js";
import { clipboardFault } from "../core/request.js";
import { SCHEME } from "./subject.js";

/** The selection's text; without one, the fenced code block around the cursor. Null: neither. */
export function selectedSnippet(editor: vscode.TextEditor): string | null {
  if (!editor.selection.isEmpty) return editor.document.getText(editor.selection);
  const lines = Array.from({ length: editor.document.lineCount }, (_, line) => editor.document.lineAt(line).text);
  return blockAt(lines, editor.selection.active.line);
}

/** The clipboard's text, or in a sentence why it is no edit. */
export async function clipboardSnippet(): Promise<{ readonly text: string } | { readonly fault: string }> {
  const text = await vscode.env.clipboard.readText();
  const fault = clipboardFault(text);
  return fault === null ? { text } : { fault };
}

interface Target extends vscode.QuickPickItem {
  /** Undefined: another file is to be chosen. */
  readonly uri?: vscode.Uri;
}

function openFiles(except: vscode.Uri): vscode.Uri[] {
  const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
  const uris = tabs.flatMap(({ input }) => (input instanceof vscode.TabInputText ? [input.uri] : []));
  const isTarget = (uri: vscode.Uri): boolean => uri.scheme !== SCHEME && uri.toString() !== except.toString();
  return [...new Map(uris.filter(isTarget).map((uri) => [uri.toString(), uri])).values()];
}

async function chosenFile(): Promise<vscode.Uri | undefined> {
  const chosen = await vscode.window.showOpenDialog({ canSelectMany: false, openLabel: "Apply to This File" });
  return chosen?.[0];
}

/** Asks for the file to edit: one that is open, or any other. Undefined: the user wants none. */
export async function pickTarget(except: vscode.Uri): Promise<vscode.TextDocument | undefined> {
  const items: Target[] = openFiles(except).map((uri) => ({
    label: uri.path.split("/").at(-1) ?? uri.path,
    description: vscode.workspace.asRelativePath(uri),
    uri,
  }));
  items.push({ label: "$(folder-opened) Another file…" });
  const picked = await vscode.window.showQuickPick(items, { title: "Apply to File", placeHolder: "The file to edit" });
  const uri = picked === undefined ? undefined : (picked.uri ?? (await chosenFile()));
  if (uri === undefined) return undefined;
  const document = await vscode.workspace.openTextDocument(uri);
  await vscode.window.showTextDocument(document);
  return document;
}

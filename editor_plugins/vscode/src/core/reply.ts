/** A reply over several files: the names in it, and what of the service's answer an editor can show. */

import type { BatchItem, NativeAnswer } from "apply-service-client";

/** Whether a name leads to a file below the folder that it is of, links not looked at, and not into `.git`. */
export function isInside(name: string): boolean {
  const parts = name.split(/[\\/]/);
  return !/^([\\/]|[A-Za-z]:)|\0/.test(name) && !parts.includes("..") && parts[0] !== ".git" && parts.at(-1) !== "";
}

export function nameOfItem(item: BatchItem): string {
  return item.path ?? item.source ?? "";
}

/** The names of the files that an answer is about. */
export function namesOf(items: readonly BatchItem[]): string[] {
  return [...new Set(items.flatMap((item) => [nameOfItem(item), item.source ?? nameOfItem(item)]))];
}

/** The answer for one file, or in a sentence why there is none. */
export function answerOfItem(item: BatchItem): NativeAnswer | string {
  if (!isInside(nameOfItem(item))) return "The name leads out of the folder, or into .git.";
  if (item.error !== null) return `${item.error.message}. ${item.error.remedy} [${item.error.code}]`;
  const hasText = item.action === "create" || item.action === "modify";
  if (!hasText || item.answer === null)
    return `To ${item.action} files is not for an editor; \`apply-service apply --patch\` does it.`;
  return item.answer;
}

/** So many of something, in words. */
export function count(n: number, what: string): string {
  return `${n} ${n === 1 ? what : `${what}s`}`;
}

/** What came of a reply: hunks by file's name, and how many files failed. */
export function summary(hunks: ReadonlyMap<string, number>, nFailed: number): string {
  const n = [...hunks.values()].reduce((sum, more) => sum + more, 0);
  const failed = nFailed === 0 ? "" : ` ${count(nFailed, "file")} failed.`;
  if (n === 0) return `The reply changes nothing.${failed}`;
  const each = [...hunks].filter(([, own]) => own > 0).map(([name, own]) => `${name} (${own})`);
  return `${count(n, "hunk")} in ${count(each.length, "file")}: ${each.join(", ")}.${failed} Nothing is written yet.`;
}

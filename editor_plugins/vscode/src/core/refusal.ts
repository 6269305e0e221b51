/** Why a document cannot be edited. Looks at facts that the editor tells; asks nothing itself. */

export interface DocumentFacts {
  readonly scheme: string;
  readonly isNotebookCell: boolean;
  readonly isClosed: boolean;
  /** Of the file system; undefined: unknown. */
  readonly isWritableFileSystem: boolean | undefined;
  /** Whether the file itself is protected. */
  readonly isReadOnlyFile: boolean;
}

/** Schemes of what is no file, although it is shown like one. */
const NO_FILES = new Set([
  "output",
  "git",
  "debug",
  "search-editor",
  "comment",
  "apply-service",
  "vscode",
  "vscode-scm",
]);

export const NOTEBOOK_REFUSAL =
  "Notebooks are not supported: their cells are no single text file, so an edit could land in the wrong one. " +
  "Apply it to an exported script.";

/** Words for people; null: it can be edited. */
export function documentRefusal(facts: DocumentFacts): string | null {
  if (facts.isNotebookCell) return NOTEBOOK_REFUSAL;
  if (facts.isClosed) return "The document was closed; nothing was changed.";
  if (NO_FILES.has(facts.scheme)) return `A document of "${facts.scheme}" is not a file that can be edited.`;
  if (facts.scheme === "untitled") return null;
  if (facts.isWritableFileSystem === false) return `The file system "${facts.scheme}" is read-only.`;
  if (facts.isReadOnlyFile)
    return "The file is read-only: it is write-protected on disk. Allow writing, and ask again.";
  return null;
}

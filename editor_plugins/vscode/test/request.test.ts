import assert from "node:assert/strict";
import { test } from "node:test";
import { blockAt } from "../src/core/fence.js";
import { completeOptions } from "../src/core/options.js";
import { type DocumentFacts, documentRefusal } from "../src/core/refusal.js";
import { clipboardFault, MOST_CHARACTERS, requestOf, type Source, textFault } from "../src/core/request.js";

const SOURCE: Source = { text: "a = 1\n", name: "a.py", language: "python" };

test("empty settings are the service's choice and are not sent", () => {
  assert.deepEqual(requestOf(SOURCE, { update: "a = 2\n" }, completeOptions({})), {
    original: "a = 1\n",
    base_sha256: "cb78bd8a17f7b751fe0d4663366dcbc257204033ef7ddd64b1f2969573b5b2e2",
    strategy: "auto",
    timeout_s: 120,
    update: "a = 2\n",
    path: "a.py",
  });
});

test("settings are sent by the service's names", () => {
  const given = {
    model: "m",
    drafter: "suffix",
    constrain: "none",
    strategy: "model",
    timeoutSeconds: 7,
    onVerdict: { syntax: "fail" },
  };
  const { model, drafter, constrain, strategy, timeout_s, on_verdict } = requestOf(SOURCE, {}, completeOptions(given));
  assert.deepEqual(
    [model, drafter, constrain, strategy, timeout_s, on_verdict],
    ["m", "suffix", "none", "model", 7, { syntax: "fail" }],
  );
});

test("a document without a name tells its language", () => {
  const untitled = { ...SOURCE, name: null };
  const request = requestOf(untitled, { instruction: "rename a" }, completeOptions({}));
  assert.deepEqual(
    [request.path, request.language, request.instruction, request.update],
    [undefined, "python", "rename a", undefined],
  );
  assert.equal(requestOf({ ...untitled, language: "plaintext" }, {}, completeOptions({})).language, undefined);
});

test("texts that no file can hold are not sent", () => {
  assert.match(textFault({ ...SOURCE, text: "a\ud83d" }, {}) ?? "", /document holds half of a character/);
  assert.match(textFault(SOURCE, { update: "\0" }) ?? "", /snippet holds a NUL/);
  assert.match(textFault(SOURCE, { instruction: "\udc00" }) ?? "", /instruction/);
  assert.equal(textFault({ ...SOURCE, text: "😀\ufeff\u2028" }, { update: "x" }), null);
});

const PAGE = ["text", "```python", "a = 1", "~~~", "```", "more", "~~~~", "b", "```", "~~~", "~~~~~", "```", "open"];

test("the fenced block around a line, its fences included", () => {
  assert.deepEqual(
    [0, 1, 2, 4, 5].map((line) => blockAt(PAGE, line)),
    [null, "a = 1\n~~~\n", "a = 1\n~~~\n", "a = 1\n~~~\n", null],
  );
  assert.equal(blockAt(PAGE, 7), "b\n```\n~~~\n");
  assert.equal(blockAt(PAGE, 12), null);
});

const FILE: DocumentFacts = {
  scheme: "file",
  isNotebookCell: false,
  isClosed: false,
  isWritableFileSystem: true,
  isReadOnlyFile: false,
};

test("files and untitled documents can be edited", () => {
  assert.equal(documentRefusal(FILE), null);
  assert.equal(documentRefusal({ ...FILE, scheme: "untitled", isWritableFileSystem: undefined }), null);
  assert.equal(documentRefusal({ ...FILE, scheme: "vscode-remote" }), null);
});

test("what cannot be edited is refused with the reason", () => {
  assert.match(
    documentRefusal({ ...FILE, isNotebookCell: true }) ?? "",
    /Notebooks are not supported: .* exported script/,
  );
  assert.match(documentRefusal({ ...FILE, isReadOnlyFile: true }) ?? "", /read-only/);
  assert.match(
    documentRefusal({ ...FILE, scheme: "ro", isWritableFileSystem: false }) ?? "",
    /file system "ro" is read-only/,
  );
  assert.match(documentRefusal({ ...FILE, isClosed: true }) ?? "", /closed/);
  assert.match(documentRefusal({ ...FILE, scheme: "output" }) ?? "", /not a file/);
  assert.match(documentRefusal({ ...FILE, scheme: "apply-service" }) ?? "", /not a file/);
});

const GARBAGE: readonly [string, string, RegExp][] = [
  ["nothing", " \n", /holds no text/],
  ["text without letters", "12 + 34 = ...\n", /no letters/],
  ["an image's bytes", "\u0089PNG\r\n\u001a\n\0\0", /binary/],
  ["bytes that were no text", "abc\ufffd\ufffd", /binary/],
  ["far too much", "x".repeat(MOST_CHARACTERS + 1), /1,000,001 characters; at most 1,000,000/],
];

for (const [name, text, words] of GARBAGE) {
  test(`of the clipboard ${name} is refused in a sentence`, () => assert.match(clipboardFault(text) ?? "", words));
}

test("what may be a snippet is taken from the clipboard", () => {
  const snippets = [
    "x",
    "é\n",
    "数 = 1\n",
    "\u001b[32mgreen",
    "a\tb\f\n",
    'print("\ufffd")',
    "x".repeat(MOST_CHARACTERS),
  ];
  for (const snippet of snippets) assert.equal(clipboardFault(snippet), null);
});

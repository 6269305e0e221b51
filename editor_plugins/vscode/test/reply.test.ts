/** A reply over several files, up to what an editor shows of it. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { BatchItem } from "apply-service-client";
import { askBatch } from "../src/core/exchange.js";
import { answerOfItem, isInside, namesOf, summary } from "../src/core/reply.js";
import { answerOf, give, optionsWith, withServer } from "./fixtures.js";

function itemOf(change: Partial<BatchItem>): BatchItem {
  const about = { path: "a.py", source: "a.py", action: "modify", status: "ok" } as const;
  return {
    ...about,
    new_mode: null,
    verdicts: [],
    answer: answerOf("three_hunks"),
    error: null,
    diff: null,
    ...change,
  };
}

test("names that lead out of the folder are not taken", () => {
  const good = ["a.py", "lib/b.py", ".github/c.yml", "a..b", "lib/.gitignore"];
  const bad = [
    "/etc/passwd",
    "../a.py",
    "lib/../../a.py",
    "..\\a.py",
    "\\a",
    "C:\\a.py",
    ".git/config",
    "lib/",
    "",
    "a\0b",
  ];
  assert.deepEqual(good.filter(isInside), good);
  assert.deepEqual(bad.filter(isInside), []);
});

test("both names of a moved file are wanted, each once", () => {
  const items = [itemOf({}), itemOf({ path: "new.py", source: "old.py" }), itemOf({ path: "c.py", source: null })];
  assert.deepEqual(namesOf(items), ["a.py", "new.py", "old.py", "c.py"]);
});

test("an item has an answer or a sentence why it has none", () => {
  assert.deepEqual(answerOfItem(itemOf({})), answerOf("three_hunks"));
  const error = {
    code: "needs_more_context",
    message: "it has no place",
    value: "",
    limit: null,
    remedy: "Show more.",
    readings: [],
    failures: [],
    source_sha256: null,
  };
  const failed = itemOf({ status: "failed", answer: null, error });
  assert.equal(answerOfItem(failed), "it has no place. Show more. [needs_more_context]");
  for (const action of ["delete", "rename", "copy", "mode"] as const)
    assert.match(String(answerOfItem(itemOf({ action }))), new RegExp(`To ${action} .*apply --patch`));
  assert.match(String(answerOfItem(itemOf({ path: "../a.py" }))), /leads out/);
  assert.match(String(answerOfItem(itemOf({ answer: null }))), /not for an editor/);
});

test("the summary counts hunks and files", () => {
  const hunks = new Map([
    ["a.py", 1],
    ["lib/b.py", 2],
    ["same.py", 0],
  ]);
  assert.equal(summary(hunks, 0), "3 hunks in 2 files: a.py (1), lib/b.py (2). Nothing is written yet.");
  assert.equal(
    summary(new Map([["a.py", 1]]), 1),
    "1 hunk in 1 file: a.py (1). 1 file failed. Nothing is written yet.",
  );
  assert.equal(summary(new Map(), 2), "The reply changes nothing. 2 files failed.");
});

test("the service is asked with the key, by the batch's path", async () => {
  const seen: unknown[] = [];
  const reply = {
    status: 200,
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ mode: "independent", status: "applied", items: [itemOf({})] }),
  };
  await withServer(
    (_, response, request) => {
      if (request.method === "POST") seen.push([request.url, request.headers.authorization]);
      give(reply, response);
    },
    async (url) => {
      const connection = { options: optionsWith({ url }), apiKey: "k", signal: new AbortController().signal };
      const { items } = await askBatch(connection, { patch: "p", mode: "independent" });
      assert.deepEqual(items, [itemOf({})]);
    },
  );
  assert.deepEqual(seen, [["/v1/apply/batch", "Bearer k"]]);
});

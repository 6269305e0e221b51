/** Every case of the contract, over real HTTP, streamed and whole: what is sent, and what becomes of the document. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { EditRequest, NativeAnswer } from "apply-service-client";
import { proposalFor } from "../src/core/answer.js";
import { requestFor } from "../src/core/carryOver.js";
import { ask } from "../src/core/exchange.js";
import { failureOf } from "../src/core/failure.js";
import { fits, type LineEnd } from "../src/core/lineEnds.js";
import { Proposal } from "../src/core/proposal.js";
import { requestOf, type Source } from "../src/core/request.js";
import type { Options } from "../src/core/options.js";
import { offerOf } from "./answers.js";
import { Buffer } from "./buffer.js";
import { type Fixture, FIXTURES, fixture, give, optionsWith, type Seen, withServer } from "./fixtures.js";

const FAILURES: Readonly<Record<string, string>> = {
  wrong_key: "unauthorized",
  stale_base: "stale_base",
  needs_more_context: "needs_more_context",
  overloaded: "overloaded",
  failing_stream: "engine_failure",
  cut_off: "unreachable",
  edit_conflict: "edit_conflict",
};
/** Whose document was changed since, where an edit is asked for again. */
const FIRST: Readonly<Record<string, string>> = {
  carried_over: "crlf",
  carried_text: "three_hunks",
  edit_conflict: "three_hunks",
};
/** What the contract promises: a document has one kind of line end. */
const UNFIT = new Set(["mixed_line_ends", "line_end_changed"]);

interface Outcome {
  readonly answer?: NativeAnswer;
  readonly code?: string;
  readonly text: string;
  readonly seen: readonly Seen[];
}

function sourceOf({ request }: Fixture): Source {
  return { text: request.original, name: request.path ?? null, language: "plaintext" };
}

function askedBy(recorded: Fixture, options: Options): EditRequest {
  const first = FIRST[recorded.name];
  if (first === undefined) return requestOf(sourceOf(recorded), { update: recorded.request.update }, options);
  return requestFor(offerOf(first, options), recorded.request.original);
}

async function exchanged(recorded: Fixture, stream: boolean): Promise<Outcome> {
  const got: { answer?: NativeAnswer; code?: string } = {};
  let text = "";
  const serve = (_: unknown, response: Parameters<typeof give>[1]): void =>
    give(stream ? recorded.stream : recorded.reply, response);
  const seen = await withServer(serve, async (url) => {
    const options = optionsWith({ url, stream });
    const request = askedBy(recorded, options);
    const onText = (piece: string): void => void (text += piece);
    const { signal } = new AbortController();
    await ask({ options, apiKey: "secret", request, signal, onText }).then(
      (found) => void (got.answer = found),
      (error: unknown) => void (got.code = failureOf(error, false).code),
    );
  });
  return { ...got, text, seen };
}

function lineEndOf(text: string): LineEnd {
  return text.includes("\r\n") ? "\r\n" : "\n";
}

test("the contract has 20 cases", () => {
  assert.equal(FIXTURES.length, 20);
});

for (const recorded of FIXTURES) {
  for (const stream of [true, false]) {
    test(`${recorded.name}, ${stream ? "streamed" : "whole"}`, async () => {
      const { answer, code, seen } = await exchanged(recorded, stream);
      const sent = seen.find(({ path }) => path === "/v1/apply");
      assert.equal(sent?.key, "Bearer secret");
      for (const [name, value] of Object.entries(recorded.request)) assert.deepEqual(sent?.body?.[name], value, name);
      // What is cut off as a stream is whole where it is asked for in one piece.
      const expected = recorded.name === "cut_off" && !stream ? undefined : FAILURES[recorded.name];
      assert.equal(code, expected);
      if (answer !== undefined) holds(recorded, answer);
    });
  }
}

/** The document becomes the recorded text byte for byte, and undo takes it back; or it cannot hold it, and is not. */
function holds({ name, request }: Fixture, answer: NativeAnswer): void {
  const end = lineEndOf(request.original);
  const proposal = proposalFor(request.original, answer, end);
  if (UNFIT.has(name)) {
    assert.ok(!(proposal instanceof Proposal) && proposal.code === "line_ends");
    return;
  }
  assert.ok(proposal instanceof Proposal);
  const mark = request.original.startsWith("\ufeff") ? "\ufeff" : "";
  const buffer = new Buffer(request.original.slice(mark.length), end);
  const plan = proposal.plan(proposal.pending);
  // A mark at a file's start is no text of the editor's; edits behind it stand one unit further left.
  buffer.edit(plan.edits.map((edit) => ({ ...edit, start: edit.start - mark.length, end: edit.end - mark.length })));
  assert.equal(mark + buffer.text, answer.merged_code);
  assert.equal(plan.text, answer.merged_code);
  assert.ok(fits(buffer.text, end));
  buffer.undo();
  assert.equal(mark + buffer.text, request.original);
}

test("provisional text comes as it was streamed", async () => {
  const { text, answer } = await exchanged(fixture("three_hunks"), true);
  assert.equal(text, answer?.merged_code);
});

test("a stream that fails is no answer, whatever text came before", async () => {
  const { text, answer, code } = await exchanged(fixture("failing_stream"), true);
  assert.deepEqual([text, answer, code], ["import os\n", undefined, "engine_failure"]);
});

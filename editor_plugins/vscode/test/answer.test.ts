import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { hasFindings, isAutoAccepted, proposalFor } from "../src/core/answer.js";
import type { LineEnd } from "../src/core/lineEnds.js";
import { Proposal } from "../src/core/proposal.js";
import type { NativeAnswer } from "apply-service-client";
import { answerOf, fixture } from "./fixtures.js";

function codeOf(name: string, change: Partial<NativeAnswer> = {}, end: LineEnd = "\n"): string {
  const { original } = fixture(name).request;
  const found = proposalFor(original, { ...answerOf(name), ...change }, end);
  return found instanceof Proposal ? "proposal" : found.code;
}

test("an answer for the document as it is becomes a proposal", () => {
  assert.equal(codeOf("three_hunks"), "proposal");
  assert.equal(codeOf("crlf", {}, "\r\n"), "proposal");
});

test("an answer whose hashes do not match is refused", () => {
  assert.equal(codeOf("three_hunks", { source_sha256: "0".repeat(64) }), "bad_answer");
  assert.equal(codeOf("three_hunks", { result_sha256: "0".repeat(64) }), "bad_answer");
});

test("an answer of which something is missing is refused", () => {
  for (const name of ["edits", "hunks", "spans", "verdicts", "usage", "timings_s"] as const) {
    assert.equal(codeOf("three_hunks", { [name]: undefined }), "bad_answer", name);
  }
});

test("line ends that a document cannot hold are refused", () => {
  assert.equal(codeOf("mixed_line_ends", {}, "\r\n"), "line_ends");
  assert.equal(codeOf("line_end_changed", {}, "\r\n"), "line_ends");
});

test("a document without line ends gives its own to new lines", () => {
  const proposal = proposalFor("", answerOf("new_file"), "\r\n");
  assert.ok(proposal instanceof Proposal);
  assert.equal(proposal.plan([0]).text, "a = 1\r\nb = 2\r\n");
});

test("a proposal's text is hashed as UTF-8", () => {
  const { original } = fixture("astral").request;
  assert.equal(
    answerOf("astral").source_sha256,
    createHash("sha256").update(Buffer.from(original, "utf8")).digest("hex"),
  );
  assert.equal(codeOf("astral"), "proposal");
});

test("the rule decides which answers are accepted unasked", () => {
  const [clean, odd] = [answerOf("crlf"), answerOf("three_hunks")];
  assert.deepEqual([hasFindings(clean), hasFindings(odd)], [false, true]);
  const accepted = (rule: "never" | "clean" | "always"): boolean[] =>
    [clean, odd].map((answer) => isAutoAccepted(answer, rule));
  assert.deepEqual(
    [accepted("never"), accepted("clean"), accepted("always")],
    [
      [false, false],
      [true, false],
      [true, true],
    ],
  );
});

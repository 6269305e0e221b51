/** The readings of an edit in doubt: stepped through, asked for, told in words. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { EditRequest, NativeAnswer } from "apply-service-client";
import { Proposal } from "../src/core/proposal.js";
import { noticeOf, Readings } from "../src/core/readings.js";
import { Review } from "../src/core/review.js";
import { alone, proposalOf } from "./answers.js";
import { answerOf } from "./fixtures.js";

const REQUEST: EditRequest = { original: "a = 1\n", update: "a = 2\n" };
const DOUBT = {
  check: "doubt",
  severity: "error",
  message: "26% sure",
  lines: null,
  side: "merged",
  question: "",
} as const;

function other(id: string, difference: string): NativeAnswer["readings"][number] {
  return { id, difference, probability: 0.25, diff: null };
}

function doubted(changes: Partial<NativeAnswer> = {}): NativeAnswer {
  const readings = [other("b", "keep line 3"), other("c", "remove line 9")];
  return { ...answerOf("three_hunks"), verdicts: [DOUBT], reading: "a", readings, ...changes };
}

function readingsOf(answer: NativeAnswer): Readings {
  const readings = Readings.of(REQUEST, answer);
  assert.ok(readings !== null);
  return readings;
}

test("readings are stepped through round the end, and asked for by the same request", () => {
  let readings = readingsOf(doubted());
  const seen = [readings.title];
  for (let i = 0; i < 3; i++) {
    readings = readings.step(1);
    seen.push(readings.title);
    assert.deepEqual(readings.request, { ...REQUEST, reading: ["b", "c", "a"][i] });
  }
  const first = "reading 1 of 3. Did you mean to keep line 3?";
  assert.deepEqual(seen, [first, "reading 2 of 3: keep line 3", "reading 3 of 3: remove line 9", first]);
  assert.equal(readings.step(-1).place, "reading 3 of 3");
});

test("there are none without a doubt, without another reading, or of a service that gives no ids", () => {
  const [first] = doubted().readings;
  const { id: _, ...without } = first as NativeAnswer["readings"][number];
  const older = doubted({ readings: [without] as unknown as NativeAnswer["readings"] });
  const { readings: __, ...oldest } = doubted();
  for (const answer of [
    doubted({ verdicts: [] }),
    doubted({ verdicts: [{ ...DOUBT, severity: "pass" }] }),
    doubted({ readings: [] }),
    doubted({ reading: null }),
    older,
    oldest as NativeAnswer,
  ])
    assert.equal(Readings.of(REQUEST, answer), null);
});

test("an edit that was refused because it is not clear has its readings told beside the file", () => {
  const readings = Readings.ofRefusal(REQUEST, [other("a", "replace line 3"), other("b", "replace line 9")]);
  assert.ok(readings !== null);
  assert.deepEqual(readings.request, { ...REQUEST, reading: "a" });
  assert.equal(readings.title, "reading 1 of 2: replace line 3");
  assert.equal(readings.question, "Did you mean to replace line 3?");
  assert.equal(Readings.ofRefusal(REQUEST), null);
  assert.equal(Readings.ofRefusal(REQUEST, []), null);
});

test("what a difference quotes stays one line without control characters and icons", () => {
  const readings = readingsOf(doubted({ readings: [other("b", "keep `a\n\u202eb`")] }));
  assert.equal(readings.question, "Did you mean to keep `a ·b`?");
  const command = readingsOf(doubted({ readings: [other("b", "keep `$(rm)`")] }));
  assert.equal(command.step(1).title, "reading 2 of 2: keep `\\$(rm)`");
});

test("a doubt between readings is told as a question", () => {
  const readings = readingsOf(doubted());
  assert.equal(noticeOf(["doubt"], readings), "Did you mean to keep line 3?");
  assert.equal(noticeOf(["doubt"], null), "The checks found something: doubt.");
  const both = "The checks found something: syntax. Did you mean to keep line 3?";
  assert.equal(noticeOf(["doubt", "syntax"], readings), both);
});

test("another reading can be shown until a hunk is accepted, and after it is undone", () => {
  const proposal = proposalOf("three_hunks");
  const review = new Review(alone(proposal, readingsOf(doubted())));
  assert.ok(review.canStep);
  review.accept(proposal.plan([0]));
  assert.ok(!review.canStep);
  review.follow(proposal.original);
  assert.ok(review.canStep);
  review.follow("something else");
  assert.ok(!review.canStep);
  assert.ok(!new Review(alone(proposal)).canStep);
});

test("a reading that changes nothing waits for another to be chosen", () => {
  const nothing = Proposal.of("a = 1\n", answerOf("no_change"));
  assert.ok(nothing !== null);
  assert.ok(!new Review(alone(nothing, readingsOf(doubted()))).isOver);
  assert.ok(new Review(alone(nothing)).isOver);
});

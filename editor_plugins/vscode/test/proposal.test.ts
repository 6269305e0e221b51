import assert from "node:assert/strict";
import { test } from "node:test";
import { applyEdits } from "../src/core/edits.js";
import { Lines } from "../src/core/lines.js";
import { Proposal } from "../src/core/proposal.js";
import { Review } from "../src/core/review.js";
import { alone, proposalOf } from "./answers.js";
import { answerOf, fixture } from "./fixtures.js";

const ORIGINAL = fixture("three_hunks").request.original;

test("lines end at every kind of line end, and nowhere else", () => {
  const lines = new Lines("a\r\nb\rc\n\u2028\f\n");
  assert.deepEqual(lines.starts, [0, 3, 5, 7, 10]);
  assert.deepEqual(
    [0, 1, 2, 3, 4, 9].map((line) => lines.lineText(line)),
    ["a", "b", "c", "\u2028\f", "", ""],
  );
  assert.equal(new Lines("x\n😀y").offsetOf({ line: 1, character: 2 }), 4);
});

test("lines of a hunk come with their origin", () => {
  const [first, second, third] = proposalOf("three_hunks").hunks;
  assert.deepEqual(first?.added, [{ text: "import sys", origin: "update" }]);
  assert.deepEqual(second?.removed, ["    return 1"]);
  assert.deepEqual(third?.added, [
    { text: "    # checked", origin: "model" },
    { text: "    return 30", origin: "update" },
  ]);
});

test("a plan's edits are of the text as it is now", () => {
  const later = proposalOf("three_hunks").plan([0]).proposal;
  const plan = later.plan([2]);
  assert.equal(applyEdits(later.text, plan.edits), plan.text);
  assert.ok(
    plan.text.includes("import sys\n") && plan.text.includes("    return 1\n") && plan.text.endsWith("return 30\n"),
  );
});

test("a hunk that is decided is not decided again", () => {
  const rejected = proposalOf("three_hunks").with([1], "rejected");
  const plan = rejected.plan([0, 1, 2]);
  assert.deepEqual(plan.proposal.states, ["accepted", "rejected", "accepted"]);
  assert.ok(plan.text.includes("    return 1\n"));
  assert.equal(plan.proposal.plan([0, 1, 2]).edits.length, 0);
});

test("places follow what was accepted above", () => {
  const proposal = proposalOf("three_hunks");
  const place = (index: number): unknown => proposal.plan([0]).proposal.placeOf(index);
  assert.deepEqual(
    [proposal.placeOf(0), proposal.placeOf(2)],
    [
      { first: 1, last: 1 },
      { first: 12, last: 13 },
    ],
  );
  assert.deepEqual(
    [place(0), place(2)],
    [
      { first: 1, last: 2 },
      { first: 13, last: 14 },
    ],
  );
});

test("lines of both texts are found in the text as it is now", () => {
  const proposal = proposalOf("three_hunks").plan([0]).proposal;
  assert.equal(proposal.lineNow(4, "original"), 5);
  assert.equal(proposal.lineNow(6, "merged"), 6);
  // Line 14 of the merged text is in a hunk that is pending: the nearest line that is there.
  assert.equal(proposal.lineNow(14, "merged"), 13);
  assert.equal(proposal.lineNow(0, "original"), 0);
});

test("the offered text leaves out what is rejected, and knows the origin of the rest", () => {
  const proposal = proposalOf("three_hunks").with([0], "rejected");
  assert.equal(proposal.offered, answerOf("three_hunks").merged_code.replace("import sys\n", ""));
  assert.deepEqual(proposal.offeredLines(), [
    { line: 4, origin: "update" },
    { line: 12, origin: "model" },
    { line: 13, origin: "update" },
  ]);
});

test("edits that do not lead to the text are no proposal", () => {
  const answer = answerOf("three_hunks");
  const [edit] = answer.edits;
  assert.equal(Proposal.of(ORIGINAL, { ...answer, merged_code: `${answer.merged_code} ` }), null);
  assert.equal(Proposal.of(ORIGINAL, { ...answer, edits: answer.edits.slice(1) }), null);
  assert.equal(Proposal.of(ORIGINAL, { ...answer, edits: edit ? [...answer.edits.slice(1), edit] : [] }), null);
  assert.equal(Proposal.of(ORIGINAL, { ...answer, hunks: answer.hunks.slice(1) }), null);
});

test("undo makes accepted hunks pending again, redo accepts them, rejected ones stay so", () => {
  const review = new Review(alone(proposalOf("three_hunks")));
  review.accept(review.proposal.plan([0]));
  const once = review.proposal.text;
  review.reject([1]);
  review.accept(review.proposal.plan([2]));
  const twice = review.proposal.text;
  assert.equal(review.isOver, true);
  assert.deepEqual([review.follow(once), review.proposal.states], ["moved", ["accepted", "rejected", "pending"]]);
  assert.deepEqual([review.follow(ORIGINAL), review.proposal.states], ["moved", ["pending", "rejected", "pending"]]);
  assert.deepEqual([review.follow(twice), review.proposal.states], ["moved", ["accepted", "rejected", "accepted"]]);
  assert.equal(review.follow(twice), "none");
});

test("any other change makes a review stale, until it is taken back", () => {
  const review = new Review(alone(proposalOf("three_hunks")));
  assert.deepEqual([review.follow(`${ORIGINAL}x`), review.isStale], ["stale", true]);
  assert.equal(review.follow(`${ORIGINAL}xy`), "none");
  assert.deepEqual([review.follow(ORIGINAL), review.isStale], ["moved", false]);
});

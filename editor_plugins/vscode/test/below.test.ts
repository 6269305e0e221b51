import assert from "node:assert/strict";
import { test } from "node:test";
import { belowOf, hunkOnPage, neighbourOnPage } from "../src/core/below.js";
import { applyEdits } from "../src/core/edits.js";
import { proposalOf } from "./answers.js";

/** The page as a diff reads: `-` goes, `+` and the origin comes. */
function drawn(name: string): string[] {
  const { text, lines } = belowOf(proposalOf(name));
  const marks = new Map(lines.map(({ line, mark }) => [line, mark]));
  return text.split("\n").map((row, line) => {
    const mark = marks.get(line);
    return mark === undefined ? ` ${row}` : mark === "removed" ? `-${row}` : `+${row} (${mark})`;
  });
}

test("what comes stands below what goes", () => {
  const rows = drawn("three_hunks");
  assert.deepEqual(
    rows.filter((row) => !row.startsWith(" ")),
    [
      "+import sys (update)",
      "-    return 1",
      "+    return 10 (update)",
      "-    return 3",
      "+    # checked (model)",
      "+    return 30 (update)",
    ],
  );
  const at = rows.indexOf("-    return 1");
  assert.equal(rows[at + 1], "+    return 10 (update)");
});

test("without what comes the page is the document, without what goes the proposal", () => {
  for (const name of ["three_hunks", "new_file", "emptied", "astral"]) {
    const proposal = proposalOf(name);
    const { text, lines } = belowOf(proposal);
    const marks = new Map(lines.map(({ line, mark }) => [line, mark]));
    const rows = text.split("\n").map((row, line) => ({ row, mark: marks.get(line) }));
    const kept = rows.filter(({ mark }) => mark === undefined || mark === "removed");
    assert.equal(kept.map(({ row }) => row).join("\n"), proposal.text, name);
    const offered = rows.filter(({ mark }) => mark !== "removed");
    assert.equal(offered.map(({ row }) => row).join("\n"), proposal.offered, name);
  }
});

test("a page of a file with other line ends has them as the editor's", () => {
  const { text } = belowOf(proposalOf("crlf", "\r\n"));
  assert.doesNotMatch(text, /\r/);
});

test("decided hunks are not drawn", () => {
  const proposal = proposalOf("three_hunks");
  const plan = proposal.plan([0]);
  assert.equal(applyEdits(proposal.text, plan.edits), plan.text);
  const { text, hunks } = belowOf(plan.proposal.with([1], "rejected"));
  assert.deepEqual(
    hunks.map(({ index }) => index),
    [2],
  );
  assert.match(text, /import sys/);
  assert.doesNotMatch(text, /return 10/);
});

test("lines of the page lead to hunks, and round the end", () => {
  const below = belowOf(proposalOf("three_hunks"));
  const [one, two, three] = below.hunks;
  assert.ok(one !== undefined && two !== undefined && three !== undefined);
  assert.deepEqual(
    [one.first, one.last, two.first, two.last - 1, three.last - 1].map((line) => hunkOnPage(below, line)),
    [0, null, 1, 1, 2],
  );
  assert.deepEqual(
    [0, one.first, three.first].map((line) => neighbourOnPage(below, line, 1)),
    [one.first, two.first, one.first],
  );
  assert.deepEqual(
    [0, three.last].map((line) => neighbourOnPage(below, line, -1)),
    [three.first, three.first],
  );
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { findingsOf } from "../src/core/findings.js";
import { hunkHtml, legendOf } from "../src/core/hover.js";
import { hunkAt, lineOfNeighbour, MOST_PIECES, previewOf, shown } from "../src/core/preview.js";
import { Proposal, type ProposedHunk } from "../src/core/proposal.js";
import { reportOf } from "../src/core/report.js";
import { proposalOf } from "./answers.js";
import { answerOf } from "./fixtures.js";

/** Non-breaking spaces as plain ones. */
function plain(text: string): string {
  return text.replaceAll("\u00a0", " ");
}

function textsOf(proposal: Proposal): unknown[] {
  return previewOf(proposal, 4).map(({ ghosts }) =>
    ghosts.map(({ line, at, pieces }) => [line, at, ...pieces.map(({ text, origin }) => [plain(text), origin])]),
  );
}

test("what comes stands beside what goes, by origin", () => {
  assert.deepEqual(textsOf(proposalOf("three_hunks")), [
    [[0, "end", [" + import sys ", "update"]]],
    [[4, "end", [" →     return 10 ", "update"]]],
    [[12, "end", [" →     # checked ", "model"], [" ↵     return 30 ", "update"]]],
  ]);
});

test("above the first line it stands before the line", () => {
  assert.deepEqual(textsOf(proposalOf("new_file")), [[[0, "start", [" + a = 1 ", "update"], [" ↵ b = 2 ", "update"]]]]);
});

test("what is only taken away has nothing beside it", () => {
  const [hunk] = previewOf(proposalOf("emptied"), 4);
  assert.deepEqual([hunk?.first, hunk?.last, hunk?.ghosts], [0, 2, []]);
});

test("decided hunks are not drawn, the others where they are now", () => {
  const proposal = proposalOf("three_hunks").plan([0]).proposal.with([1], "rejected");
  assert.deepEqual(
    previewOf(proposal, 4).map(({ index, first }) => [index, first]),
    [[2, 13]],
  );
});

test("titles tell size and confidence", () => {
  assert.deepEqual(
    previewOf(proposalOf("three_hunks"), 4).map(({ title }) => title),
    ["hunk 1/3 · +1 −0 · 99 % sure", "hunk 2/3 · +1 −1 · 75 % sure", "hunk 3/3 · +2 −1 · 50 % sure"],
  );
  assert.equal(previewOf(proposalOf("emptied"), 4)[0]?.title, "hunk 1/1 · +0 −2");
});

test("beside a syntax error nothing is said to be sure", () => {
  const proposal = proposalOf("three_hunks");
  const broken = {
    check: "syntax",
    severity: "error",
    message: "odd",
    lines: null,
    side: "merged",
    question: "",
  } as const;
  const answer = { ...proposal.answer, verdicts: [broken] };
  const found = Proposal.of(proposal.original, answer);
  assert.ok(found !== null);
  assert.deepEqual(
    previewOf(found, 4).map(({ title }) => title),
    ["hunk 1/3 · +1 −0 · syntax error", "hunk 2/3 · +1 −1 · syntax error", "hunk 3/3 · +2 −1 · syntax error"],
  );
  assert.doesNotMatch(reportOf("a.py", answer), /\d %/);
  assert.match(reportOf("a.py", proposal.answer), /50 %/);
});

test("many lines are told by their number", () => {
  const { original, merged_code } = { original: "", merged_code: "x\n".repeat(40) };
  const answer = {
    ...answerOf("new_file"),
    merged_code,
    edits: [
      {
        range: { start: { line: 0, character: 0 }, end: { line: 0, character: 0 } },
        newText: merged_code,
        utf8_columns: { start: 0, end: 0 },
      },
    ],
    hunks: [
      {
        original_start: 0,
        original_end: 0,
        merged_start: 0,
        merged_end: 40,
        first_edit: 0,
        end_edit: 1,
        confidence: null,
      },
    ],
  };
  const pieces = previewOf(Proposal.of(original, answer) as Proposal, 4)[0]?.ghosts[0]?.pieces ?? [];
  assert.deepEqual(
    [pieces.length, plain(pieces.at(-1)?.text ?? ""), pieces.at(-1)?.origin],
    [MOST_PIECES + 1, " … 34 more", "note"],
  );
});

test("text beside a line shows what it is", () => {
  assert.equal(plain(shown("\ta\u202eb\u0001c  d", 2)), "  a·b·c  d");
  assert.equal(shown("a b", 4), "a\u00a0b");
  assert.equal([...shown("😀".repeat(500), 4)].length, 161);
});

test("the cursor is in a hunk, or next to where lines are added", () => {
  const proposal = proposalOf("three_hunks");
  assert.deepEqual(
    [0, 1, 2, 4, 5, 12].map((line) => hunkAt(proposal, line)),
    [0, 0, null, 1, null, 2],
  );
});

test("moves go to the next hunk and round the end", () => {
  const proposal = proposalOf("three_hunks");
  assert.deepEqual(
    [0, 1, 4, 12].map((line) => lineOfNeighbour(proposal, line, 1)),
    [1, 4, 12, 1],
  );
  assert.deepEqual(
    [0, 4, 13].map((line) => lineOfNeighbour(proposal, line, -1)),
    [12, 1, 12],
  );
  assert.equal(lineOfNeighbour(proposal.with([0, 1, 2], "rejected"), 0, 1), null);
});

test("a hover's text is never markup", () => {
  const hunk: ProposedHunk = {
    said: {
      original_start: 0,
      original_end: 1,
      merged_start: 0,
      merged_end: 1,
      first_edit: 0,
      end_edit: 1,
      confidence: null,
    },
    edits: [],
    removed: ["</pre><b>&amp;"],
    added: [{ text: '[x](command:y) "`', origin: "model" }],
  };
  const html = hunkHtml(hunk, 4);
  assert.ok(html.includes("- &lt;/pre&gt;&lt;b&gt;&amp;amp;"));
  assert.equal(html.match(/<\/pre>/g)?.length, 1);
  assert.ok(plain(html).includes("* [x](command:y) &quot;`"));
  assert.ok(html.includes("color:var(--vscode-applyService-modelForeground);"));
  assert.equal(legendOf(hunk), "`*` written by the model");
});

test("findings are told where they are, with unsure hunks", () => {
  assert.deepEqual(findingsOf(proposalOf("three_hunks")), [
    // Line 2 of the merged text is the added import: pending, it would stand before line 1.
    { first: 1, last: 1, severity: "warning", code: "syntax", message: "line 2 is odd" },
    {
      first: 4,
      last: 4,
      severity: "information",
      code: "confidence",
      message: "Hunk 2: of edits like it 75 % were right when counted.",
    },
    {
      first: 12,
      last: 12,
      severity: "information",
      code: "confidence",
      message: "Hunk 3: of edits like it 50 % were right when counted.",
    },
  ]);
});

test("a raw confidence is told as what it is", () => {
  const { original } = proposalOf("three_hunks");
  const proposal = Proposal.of(original, { ...answerOf("three_hunks"), confidence_kind: "raw" });
  assert.ok(proposal);
  assert.equal(findingsOf(proposal).at(-1)?.message, "Hunk 3: the model gave its least sure word 50 %.");
});

test("findings move with what is accepted, and go with what is rejected", () => {
  const proposal = proposalOf("three_hunks").plan([0, 2]).proposal.with([1], "rejected");
  assert.deepEqual(
    findingsOf(proposal).map(({ first, last, code }) => [first, last, code]),
    [
      [1, 1, "syntax"],
      [13, 14, "confidence"],
    ],
  );
});

test("the report tells who decided, how surely, and every verdict", () => {
  const report = reportOf("a\nb.py", answerOf("three_hunks"));
  assert.deepEqual(report.split("\n").slice(0, 5), [
    "file:       a b.py",
    "decided by: model (embedded)",
    "confidence: 50 % (calibrated)",
    "merge:      certain",
    "speed:      80 tok/s",
  ]);
  assert.ok(report.includes("\nhunk 2/3:   75 %\n"));
  assert.ok(report.endsWith("pass    no_op\nwarning syntax: line 2 is odd (merged lines 2-2)\n"));
});

/**
 * Random edits of random documents: the editor's own text buffer holds what the service computed, byte for byte, hunk
 * by hunk; each acceptance is one undo step, and undo restores what was before. The service's edits and the expected
 * texts come from the project's Python. FUZZ_SEED and FUZZ_EDITS choose others.
 */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { test } from "node:test";
import type { NativeAnswer } from "apply-service-client";
import { proposalFor } from "../src/core/answer.js";
import { fits, type LineEnd } from "../src/core/lineEnds.js";
import { Proposal } from "../src/core/proposal.js";
import { Review } from "../src/core/review.js";
import { alone } from "./answers.js";
import { Buffer } from "./buffer.js";

const ROOT = "../..";
const FIRST_SEED = Number(process.env["FUZZ_SEED"] ?? 20_261_121);
const N_EDITS = Number(process.env["FUZZ_EDITS"] ?? 1000);

interface Case {
  readonly seed: number;
  readonly end: LineEnd;
  readonly answer: NativeAnswer;
  /** Hunks (1-based) that are accepted together. */
  readonly groups: readonly (readonly number[])[];
  /** The original, and the text after each group. */
  readonly texts: readonly [string, ...string[]];
}

/** The project's Python: named, or that of its virtual environment; undefined where there is none. */
function python(): string | undefined {
  const named = process.env["APPLY_PYTHON"];
  if (named !== undefined) return named;
  return [resolve(ROOT, ".venv/bin/python")].find((path) => existsSync(path));
}

function generate(program: string): Case[] {
  const words = ["-m", "tests.editor_plugins.vscode.unit_cases", String(FIRST_SEED), String(N_EDITS)];
  const made = spawnSync(program, words, { cwd: ROOT, encoding: "utf8", maxBuffer: 1 << 28 });
  assert.equal(made.status, 0, made.error?.message ?? made.stderr.slice(-2000));
  return made.stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Case);
}

/** What stands at pending hunks is what they say. */
function checkPlaces(review: Review, buffer: Buffer, seed: number): void {
  for (const index of review.proposal.pending) {
    const { first, last } = review.proposal.placeOf(index);
    assert.deepEqual(buffer.lines.slice(first, last), review.proposal.hunks[index]?.removed, `seed ${seed}`);
  }
}

function accept(review: Review, buffer: Buffer, group: readonly number[]): void {
  const plan = review.proposal.plan(group.map((number) => number - 1));
  if (plan.edits.length === 0) return;
  buffer.edit(plan.edits);
  assert.equal(buffer.text, plan.text);
  review.accept(plan);
}

/** Whether the result could be put into the document; where not, it was refused. */
function run({ seed, end, answer, groups, texts }: Case): boolean {
  const buffer = new Buffer(texts[0], end);
  assert.equal(buffer.text, texts[0], `seed ${seed}`);
  const proposal = proposalFor(texts[0], answer, buffer.end);
  if (!(proposal instanceof Proposal)) {
    assert.deepEqual([proposal.code, fits(answer.merged_code, end)], ["line_ends", false], `seed ${seed}`);
    return false;
  }
  const review = new Review(alone(proposal));
  const isConverted = !fits(answer.merged_code, end);
  const expected = texts.map((text) => (isConverted ? text.replace(/\r\n|\r|\n/g, end) : text));
  for (const [i, group] of groups.entries()) {
    accept(review, buffer, group);
    assert.equal(buffer.text, expected[i + 1], `seed ${seed}`);
    checkPlaces(review, buffer, seed);
  }
  assert.equal(buffer.nSteps, groups.length, `seed ${seed}`);
  for (const text of expected.slice(0, -1).reverse()) {
    buffer.undo();
    assert.equal(buffer.text, text, `seed ${seed}`);
    review.follow(buffer.text);
    checkPlaces(review, buffer, seed);
  }
  assert.equal(review.proposal.pending.length, proposal.hunks.length, `seed ${seed}`);
  return true;
}

const PYTHON = python();
const skip =
  PYTHON === undefined ? "needs the project's Python (make creates .venv, or name one in APPLY_PYTHON)" : false;

test(`${N_EDITS} random edits`, { skip }, () => {
  const cases = generate(PYTHON ?? "");
  assert.equal(cases.length, N_EDITS);
  const kept = cases.filter(run);
  console.log(
    `seeds: ${FIRST_SEED} to ${FIRST_SEED + N_EDITS - 1}; put in: ${kept.length}, refused: ${N_EDITS - kept.length}`,
  );
  assert.ok(kept.length > 0.6 * N_EDITS, "too many were refused");
  assert.deepEqual(new Set(cases.map(({ end }) => end)), new Set(["\n", "\r\n"]));
  assert.ok(
    cases.some(({ texts }) => /[\ud800-\udbff][\udc00-\udfff]/.test(texts[0])),
    "no astral character",
  );
});

/** Answers whose document was changed since the request: what is asked for again, how often, and what is told. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { EditRequest, NativeAnswer } from "apply-service-client";
import { carryOver, type Offer, requestFor } from "../src/core/carryOver.js";
import { type Failure, failureOf } from "../src/core/failure.js";
import { ask } from "../src/core/exchange.js";
import { Proposal } from "../src/core/proposal.js";
import { Readings } from "../src/core/readings.js";
import { sha256 } from "../src/core/request.js";
import { Review } from "../src/core/review.js";
import { offerOf } from "./answers.js";
import { answerOf, fixture, give, optionsWith, withServer } from "./fixtures.js";

const CRLF = fixture("crlf").request.original;
const TYPED = fixture("carried_over").request.original;
const THREE = fixture("three_hunks").request.original;
const THREE_TYPED = fixture("carried_text").request.original;
const FAILED: Failure = { code: "edit_conflict", words: "no", kind: "failed" };

function carriedProposal(): Proposal {
  const proposal = Proposal.of(TYPED, answerOf("carried_over"));
  assert.ok(proposal !== null);
  return proposal;
}

/** The texts of the edit in a request that replaces one text by another. */
function textsIn(request: EditRequest): unknown {
  return JSON.parse(request.update ?? "");
}

/** Carries an offer over to a document that holds one text after the other, the last one from then on. */
async function carry(
  offer: Offer,
  texts: readonly string[],
  answers: readonly (Proposal | Failure)[],
): Promise<{ found: Offer | Failure; asked: EditRequest[] }> {
  const asked: EditRequest[] = [];
  const now = (): string => texts[Math.min(asked.length, texts.length - 1)] ?? "";
  const found = await carryOver(offer, now, (request) => {
    asked.push(request);
    return Promise.resolve(answers[Math.min(asked.length, answers.length) - 1] ?? FAILED);
  });
  return { found, asked };
}

test("the same edit is asked for, with the text that it was made for as its base", () => {
  const offer = offerOf("crlf");
  assert.deepEqual(requestFor(offer, TYPED), {
    ...offer.asked,
    original: TYPED,
    base: CRLF,
    base_sha256: sha256(CRLF),
  });
});

test("what a model wrote is not asked for again, but carried over as it is", () => {
  const request = requestFor(offerOf("three_hunks"), THREE_TYPED);
  assert.deepEqual([request.format, request.strategy, request.base], ["json_edit", "exact", THREE]);
  assert.deepEqual(textsIn(request), { old_string: THREE, new_string: answerOf("three_hunks").merged_code });
});

test("an instruction and a strategy that the service refuses beside a base are left out", () => {
  for (const changes of [{ strategy: "model" }, { instruction: "ten", reading: "a" }] as const) {
    const { update: _, ...asked } = offerOf("crlf").asked;
    const request = requestFor({ ...offerOf("crlf"), asked: { ...asked, ...changes } }, TYPED);
    assert.deepEqual([request.strategy, request.instruction, request.reading], ["exact", undefined, undefined]);
    assert.deepEqual(textsIn(request), { old_string: CRLF, new_string: answerOf("crlf").merged_code });
  }
});

test("of a proposal whose hunks are decided, only what is pending is asked for", () => {
  const offer = offerOf("three_hunks");
  const decided = offer.proposal.plan([0]).proposal.with([1], "rejected");
  const request = requestFor({ ...offer, proposal: decided }, `${decided.text}# typed\n`);
  assert.equal(request.base, decided.text);
  assert.equal(request.base_sha256, sha256(decided.text));
  assert.ok(decided.text.includes("import sys\n") && decided.text.includes("return 3\n"));
  const offered = decided.text.replace("    return 3\n", "    # checked\n    return 30\n");
  assert.deepEqual(textsIn(request), { old_string: decided.text, new_string: offered });
});

test("a document that was not changed, or is again what it was, is not asked about", async () => {
  const offer = offerOf("crlf");
  const { found, asked } = await carry(offer, [CRLF], []);
  assert.deepEqual([found, asked], [offer, []]);
});

test("a change is merged by one request, whose answer is for the text as it is now", async () => {
  const { found, asked } = await carry(offerOf("crlf"), [TYPED], [carriedProposal()]);
  assert.equal(asked.length, 1);
  assert.ok("proposal" in found);
  assert.equal(found.proposal.plan([0]).text, answerOf("carried_over").merged_code);
  // Changed once more, it is still the first base that the edit was made for.
  const again = requestFor(found, `${TYPED}e = 5\r\n`);
  assert.deepEqual([again.base, again.original, again.update], [CRLF, `${TYPED}e = 5\r\n`, found.asked.update]);
});

test("a document that is changed during that request is asked about again, with the same base", async () => {
  const typing = `${TYPED}e`;
  const early = Proposal.of(typing, {
    ...answerOf("carried_over"),
    merged_code: `${answerOf("carried_over").merged_code}e`,
  });
  assert.ok(early !== null);
  const { found, asked } = await carry(offerOf("crlf"), [typing, TYPED], [early, carriedProposal()]);
  assert.deepEqual(
    asked.map(({ base, original }) => [base, original]),
    [
      [CRLF, typing],
      [CRLF, TYPED],
    ],
  );
  assert.ok("proposal" in found);
  assert.equal(found.proposal.original, TYPED);
});

test("a document that never rests is given up, and told so", async () => {
  const texts = [1, 2, 3, 4, 5].map((n) => `${TYPED}${n}`);
  const { found, asked } = await carry(offerOf("crlf"), texts, [carriedProposal()]);
  assert.equal(asked.length, 3);
  assert.ok("words" in found);
  assert.deepEqual([found.code, found.kind], ["stale_base", "failed"]);
  assert.match(found.words, /changed again while the service worked; nothing was changed/);
});

test("where the two can't be merged there is no proposal", async () => {
  const { found, asked } = await carry(offerOf("crlf"), [TYPED], [FAILED]);
  assert.deepEqual([found, asked.length], [FAILED, 1]);
});

test("a conflict is told with its lines and both sides, streamed and whole", async () => {
  for (const stream of [true, false]) {
    const recorded = fixture("edit_conflict");
    let words = "";
    await withServer(
      (_, response) => give(stream ? recorded.stream : recorded.reply, response),
      async (url) => {
        const request = requestFor(offerOf("three_hunks"), recorded.request.original);
        const { signal } = new AbortController();
        const options = optionsWith({ url, stream });
        await ask({ options, apiKey: undefined, request, signal, onText: () => undefined }).then(
          () => assert.fail("there was an answer"),
          (error: unknown) => void (words = failureOf(error, false).words),
        );
      },
    );
    assert.equal(
      words,
      "The document was changed where the edit changes it too; nothing was changed by it. " +
        "Line 5: the document has `return 11`, the edit has `return 10`. " +
        "Line 13: the document has nothing, the edit has `# checked return 30`. " +
        "Take your change of these lines back and accept again, or ask again. [edit_conflict]",
    );
  }
});

test("a proposal that can't be merged waits, and fits again once the change is taken back", () => {
  const review = new Review(offerOf("three_hunks"));
  review.follow(THREE_TYPED);
  assert.ok(review.isStale && !review.isOver);
  assert.deepEqual([review.follow(THREE), review.isStale], ["moved", false]);
});

// -- readings ---------------------------------------------------------------------------------------------------------
function doubted(): NativeAnswer {
  const doubt = { check: "doubt", severity: "error", message: "", lines: null, side: "merged", question: "" } as const;
  const other = { id: "b", difference: "keep line 3", probability: 0.25, diff: null };
  return { ...answerOf("crlf"), verdicts: [doubt], reading: "a", readings: [other] };
}

test("readings stay those of the edit, and are asked for by the request with the base", async () => {
  const { asked, proposal } = offerOf("crlf");
  const readings = Readings.of(asked, doubted());
  const { found } = await carry({ asked, proposal, readings }, [TYPED], [carriedProposal()]);
  assert.ok("proposal" in found && found.readings !== null);
  assert.equal(found.readings.title, "reading 1 of 2. Did you mean to keep line 3?");
  assert.deepEqual(found.readings.likeliest, answerOf("carried_over"));
  const { base, original, reading } = found.readings.step(1).request;
  assert.deepEqual([base, original, reading], [CRLF, TYPED, "b"]);
});

test("another reading is carried over as that one; the likeliest is then asked for", async () => {
  const { asked, proposal } = offerOf("crlf");
  const second = Readings.of(asked, doubted())?.step(1);
  assert.ok(second !== undefined);
  const offer = { asked: second.request, proposal, readings: second };
  const { found, asked: requests } = await carry(offer, [TYPED], [carriedProposal()]);
  assert.equal(requests[0]?.reading, "b");
  assert.ok("proposal" in found && found.readings !== null);
  assert.equal(found.readings.place, "reading 2 of 2");
  assert.equal(found.readings.likeliest, null);
  assert.equal(found.readings.step(-1).request.reading, "a");
});

/** What is seen while the service works. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Provisional } from "../src/core/provisional.js";
import { speedOf, statusText, TokenRate } from "../src/core/status.js";
import { answerOf, fixture } from "./fixtures.js";

const ORIGINAL = fixture("three_hunks").request.original;

test("the status bar says what goes on", () => {
  assert.equal(statusText({ phase: "ready" }), "Apply: ready");
  assert.equal(statusText({ phase: "streaming", nTokens: 0, tokensPerS: 0 }), "Apply: streaming…");
  assert.equal(
    statusText({ phase: "streaming", nTokens: 12.4, tokensPerS: 80.6 }),
    "Apply: streaming… ~12 tok, ~81 tok/s",
  );
  assert.equal(statusText({ phase: "hunks", n: 3, speed: "80 tok/s", reading: "" }), "Apply: 3 hunks, 80 tok/s");
  assert.equal(
    statusText({ phase: "hunks", n: 1, speed: "exact", reading: "reading 2 of 3" }),
    "Apply: 1 hunk, exact, reading 2 of 3",
  );
  assert.equal(statusText({ phase: "hunks", n: 1, speed: "", reading: "" }), "Apply: 1 hunk");
  assert.equal(statusText({ phase: "failed", code: "stale_base" }), "Apply: failed (stale_base)");
  assert.equal(statusText({ phase: "changed" }), "Apply: document changed");
  assert.equal(statusText({ phase: "offline" }), "Apply: offline");
});

test("where nothing goes on the status bar says how the server is", () => {
  const said = (["unknown", "ready", "notFound", "starting", "stopped"] as const).map((server) =>
    statusText({ phase: "ready" }, server),
  );
  const words = ["ready", "ready", "server not found", "server starting…", "server stopped"];
  assert.deepEqual(
    said,
    words.map((word) => `Apply: ${word}`),
  );
  assert.equal(statusText({ phase: "offline" }, "stopped"), "Apply: offline");
  assert.equal(statusText({ phase: "hunks", n: 1, speed: "", reading: "" }, "stopped"), "Apply: 1 hunk");
});

test("the speed is the answer's own, or who decided", () => {
  assert.deepEqual([speedOf(answerOf("three_hunks")), speedOf(answerOf("crlf"))], ["80 tok/s", "exact"]);
});

test("what a token is taken to be is learnt from answers", () => {
  const rate = new TokenRate();
  assert.deepEqual(rate.status(40, 2), { phase: "streaming", nTokens: 10, tokensPerS: 5 });
  const answer = { ...answerOf("three_hunks"), merged_code: "x".repeat(80) }; // 40 tokens
  rate.learn(answer);
  assert.deepEqual(rate.status(40, 2), { phase: "streaming", nTokens: 20, tokensPerS: 10 });
  rate.learn(answerOf("crlf")); // no model took part
  assert.deepEqual(rate.status(40, 2), { phase: "streaming", nTokens: 20, tokensPerS: 10 });
});

test("provisional text is what came and what is still to come", () => {
  const provisional = new Provisional(ORIGINAL);
  assert.deepEqual([provisional.text, provisional.line], [ORIGINAL, 0]);
  provisional.add("import os\nimport s");
  assert.equal(provisional.text, `import os\nimport s\n${ORIGINAL.slice("import os\n".length)}`);
  provisional.add("ys\n\n\ndef first():\n    return 10\n");
  const rest = ORIGINAL.slice(ORIGINAL.indexOf("    return 1\n"));
  assert.equal(provisional.text, `import os\nimport sys\n\n\ndef first():\n    return 10\n${rest}`);
  assert.equal(provisional.line, 4);
});

test("the place never goes back, and ends with the text", () => {
  const provisional = new Provisional("alpha\nbeta\nalpha\ngamma\n");
  const places = ["alpha\n", "alpha\n", "gamma\n", "beta\n", "more\n"].map((line) => {
    provisional.add(line);
    return provisional.line;
  });
  assert.deepEqual(places, [1, 3, 4, 4, 4]);
  assert.equal(provisional.text, "alpha\nalpha\ngamma\nbeta\nmore\n");
});

test("a whole answer streamed leaves nothing of the original but what it kept", () => {
  for (const end of ["\n", "\r\n"]) {
    const provisional = new Provisional(ORIGINAL.replaceAll("\n", end));
    const { merged_code } = answerOf("three_hunks");
    for (const piece of merged_code.match(/[^]{1,7}/g) ?? []) provisional.add(piece);
    // The last line is not in the original, so the stream cannot know that it took the place of one.
    assert.equal(provisional.text, `${merged_code}    return 3${end}`);
  }
});

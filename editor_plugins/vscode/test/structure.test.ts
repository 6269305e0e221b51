/** The house keeps its shape. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

function sources(folder: string): [string, string][] {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
  return files.map((file) => [`${folder}/${file}`, readFileSync(`${folder}/${file}`, "utf8")]);
}

test("the core knows no editor", () => {
  const core = sources("src/core");
  assert.ok(core.length > 10);
  for (const [name, text] of core) assert.doesNotMatch(text, /from "(vscode|\.\.\/)/, name);
});

test("files are small and lines are short", () => {
  for (const [name, text] of [...sources("src"), ...sources("test")]) {
    const lines = text.split("\n");
    assert.ok(lines.length <= 301, `${name}: ${lines.length} lines`);
    for (const line of lines) assert.ok(line.length <= 120, `${name}: ${line}`);
  }
});

test("nothing is sent but by the exchange and the local server's poll", () => {
  const senders = sources("src").filter(([, text]) => /\bfetch\(|ApplyClient\(|node:https?"/.test(text));
  assert.deepEqual(senders.map(([name]) => name).sort(), ["src/core/exchange.ts", "src/core/localServer.ts"]);
});

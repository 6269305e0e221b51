/** Where the service's program is found, and what it says of the user's server. */

import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import * as path from "node:path";
import { test } from "node:test";
import { findProgram, findUserServer } from "../src/core/programs.js";

const NAME = "apply-service";

function scratch(): string {
  return mkdtempSync(path.join(tmpdir(), "apply-"));
}

function program(file: string, text = ""): string {
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, `#!${process.execPath}\n${text}\n`);
  chmodSync(file, 0o755);
  return file;
}

test("a workspace's environment goes before PATH, and folders go in order", () => {
  const [first, second, onPath] = [scratch(), scratch(), scratch()];
  const places = { folders: [first, second], path: `${first}:${onPath}`, platform: "linux" } as const;
  assert.equal(findProgram(NAME, places), null);
  const global = program(path.join(onPath, NAME));
  assert.equal(findProgram(NAME, places), global);
  const other = program(path.join(second, "venv", "bin", NAME));
  assert.equal(findProgram(NAME, places), other);
  const own = program(path.join(first, ".venv", "bin", NAME));
  assert.equal(findProgram(NAME, places), own);
  assert.equal(findProgram(NAME, { ...places, folders: [] }), global, "a workspace that is not trusted");
});

test("what is no program is passed over, and so are relative folders of PATH", () => {
  const folder = scratch();
  writeFileSync(path.join(folder, NAME), "text");
  assert.equal(findProgram(NAME, { folders: [], path: `${folder}:.::bin`, platform: "linux" }), null);
});

test("on Windows the program ends with .exe, and lies in Scripts", () => {
  const folder = scratch();
  const file = program(path.join(folder, ".venv", "Scripts", `${NAME}.exe`));
  assert.equal(findProgram(NAME, { folders: [folder], path: "", platform: "win32" }), file);
});

test("a path in the settings stays what it is", () => {
  const places = { folders: [], path: "", platform: "linux" } as const;
  for (const name of ["/opt/apply", "bin/apply", "C:\\apply.exe"]) assert.equal(findProgram(name, places), name);
});

const URL_ = "http://127.0.0.1:1234";

function saying(said: unknown, kept: unknown = { url: URL_, key: "k" }, exitCode = 0): string {
  const folder = scratch();
  const keyFile = path.join(folder, "server.json");
  writeFileSync(keyFile, JSON.stringify(kept));
  const text = JSON.stringify({ key_file: keyFile, ...(said as object) });
  const script = `if (process.argv.slice(2).join(" ") !== "status --json") process.exit(9);
console.log(${JSON.stringify(text)}); process.exitCode = ${exitCode};`;
  return program(path.join(folder, NAME), script);
}

test("the user's server is what status says, with the key of the file that it names", async () => {
  assert.deepEqual(await findUserServer(saying({ is_ready: true, url: URL_ })), { url: URL_, apiKey: "k" });
});

test("the program is asked in the home folder, not in one of the workspace", async () => {
  const said = `{ is_ready: true, url: process.cwd(), key_file: process.argv[1] + ".json" }`;
  const script = `console.log(JSON.stringify(${said}));`;
  const file = program(path.join(scratch(), NAME), script);
  writeFileSync(`${file}.json`, JSON.stringify({ url: realpathSync(homedir()), key: "k" }));
  assert.equal((await findUserServer(file))?.url, realpathSync(homedir()));
});

const NONE: readonly [string, string][] = [
  ["none runs", saying({ is_running: false, is_ready: false }, {}, 1)],
  ["it is still loading", saying({ is_ready: false, url: URL_ })],
  ["the file is of another server by now", saying({ is_ready: true, url: "http://127.0.0.1:9" })],
  ["the file has no key", saying({ is_ready: true, url: URL_ }, { url: URL_ })],
  ["the program is older", program(path.join(scratch(), NAME), "console.log('usage: ...'); process.exitCode = 2;")],
  ["there is no program", "/no/such/program"],
];

for (const [name, file] of NONE) {
  test(`there is no server of the user's where ${name}`, async () => assert.equal(await findUserServer(file), null));
}

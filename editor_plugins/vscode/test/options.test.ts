/** The settings; and that manifest, README and code name the same ones. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { completeOptions, OptionError, SPECS } from "../src/core/options.js";

interface Property {
  readonly type: string;
  readonly default: unknown;
  readonly scope?: string;
  readonly enum?: readonly string[];
  readonly maximum?: number;
}

interface Manifest {
  readonly contributes: {
    readonly commands: readonly { readonly command: string; readonly title: string }[];
    readonly keybindings: readonly { readonly command: string }[];
    readonly configuration: { readonly properties: Readonly<Record<string, Property>> };
    readonly colors: readonly { readonly id: string }[];
  };
}

const { contributes } = JSON.parse(readFileSync("package.json", "utf8")) as Manifest;
const README = readFileSync("README.md", "utf8");
const PROPERTIES = contributes.configuration.properties;

function problemOf(given: Record<string, unknown>): string {
  try {
    completeOptions(given);
  } catch (error) {
    assert.ok(error instanceof OptionError);
    return error.message;
  }
  return "";
}

test("without settings every option has its default", () => {
  const options = completeOptions({});
  assert.deepEqual(
    [options.url, options.timeoutSeconds, options["startServer.enabled"]],
    ["http://127.0.0.1:8765", 120, false],
  );
});

test("settings come nested or dotted", () => {
  assert.equal(completeOptions({ startServer: { enabled: true } })["startServer.enabled"], true);
  assert.equal(completeOptions({ "startServer.enabled": true })["startServer.enabled"], true);
});

test("a name that does not exist is refused", () => {
  assert.equal(problemOf({ modle: "x" }), "The setting applyService.modle does not exist.");
  assert.equal(problemOf({ startServer: { port: 1 } }), "The setting applyService.startServer.port does not exist.");
});

const BAD: readonly [string, unknown, RegExp][] = [
  ["url", "ftp://host", /must be an http or https URL, not "ftp:\/\/host"/],
  ["url", "http://a b", /URL/],
  ["model", 3, /must be a text, not 3/],
  ["strategy", "quick", /must be one of \["auto","model","exact"\], not "quick"/],
  ["autoAccept", true, /must be one of/],
  ["timeoutSeconds", 0, /must be a number above 0 and at most 290, not 0/],
  ["timeoutSeconds", 291, /at most 290/],
  ["timeoutSeconds", "5", /not "5"/],
  ["connectTimeoutSeconds", Number.NaN, /above 0/],
  ["stream", "yes", /true or false/],
  ["onVerdict", { syntax: "ignore" }, /"warn" or "fail"/],
  ["onVerdict", ["syntax"], /"warn" or "fail"/],
  ["constrain", "all", /must be one of/],
  ["startServer.command", [], /list of texts/],
  ["startServer.command", ["serve", 1], /list of texts/],
  ["startServer.waitSeconds", 4000, /at most 3600/],
];

for (const [name, value, problem] of BAD) {
  test(`${name} = ${JSON.stringify(value)} is refused by name`, () => {
    const said = problemOf({ [name]: value });
    assert.match(said, problem);
    assert.ok(said.startsWith(`The setting applyService.${name} `));
  });
}

test("the manifest has the same settings, defaults, choices and ranges", () => {
  const names = Object.keys(PROPERTIES).map((name) => name.replace(/^applyService\./, ""));
  assert.deepEqual(names, Object.keys(SPECS));
  for (const [name, spec] of Object.entries(SPECS)) {
    const property = PROPERTIES[`applyService.${name}`];
    assert.deepEqual(property?.default, spec.default, name);
    assert.deepEqual(property?.enum, spec.choices, name);
    assert.equal(property?.maximum, spec.most, name);
  }
});

test("no workspace can say where files and keys are sent, or what is started", () => {
  for (const name of ["url", "startServer.enabled", "startServer.command", "startServer.waitSeconds"]) {
    assert.equal(PROPERTIES[`applyService.${name}`]?.scope, "application", name);
  }
});

test("the README has every setting with its default, and every command", () => {
  for (const [name, spec] of Object.entries(SPECS)) {
    const row = README.split("\n").find((line) => line.startsWith(`| \`applyService.${name}\` |`));
    assert.ok(row?.includes(`| \`${JSON.stringify(spec.default)}\` |`), name);
  }
  for (const { title } of contributes.commands) assert.ok(README.includes(`Apply: ${title.replace("...", "")}`), title);
});

test("every key is of a command, every colour of an origin", () => {
  const commands = new Set(contributes.commands.map(({ command }) => command));
  for (const { command } of contributes.keybindings) assert.ok(commands.has(command), command);
  const wanted = ["original", "update", "model"].flatMap((origin) => [
    `applyService.${origin}Foreground`,
    `applyService.${origin}Background`,
  ]);
  assert.deepEqual(
    contributes.colors.map(({ id }) => id),
    wanted,
  );
});

/** The way to the server and back: nobody there, too slow, cancelled, a server of one's own. */

import assert from "node:assert/strict";
import { realpathSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { homedir } from "node:os";
import { test } from "node:test";
import { ApplyError } from "apply-service-client";
import { ask, connect } from "../src/core/exchange.js";
import { type Failure, failureOf } from "../src/core/failure.js";
import { commandOf, isLocal, LocalServer, type ServerState } from "../src/core/localServer.js";
import type { Options } from "../src/core/options.js";
import { fixture, give, optionsWith, withServer } from "./fixtures.js";

const NEVER = new AbortController().signal;
const REQUEST = { original: "a\n", update: "b\n" };

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function failure(
  options: Options,
  signal: AbortSignal = NEVER,
  startServer?: () => Promise<void>,
): Promise<Failure> {
  const exchange = { options, apiKey: undefined, request: REQUEST, signal, onText: () => undefined, startServer };
  return ask(exchange).then(
    () => assert.fail("there was an answer"),
    (error: unknown) => failureOf(error, signal.aborted),
  );
}

test("where nothing listens the service is offline", async () => {
  const url = `http://127.0.0.1:${await freePort()}`;
  const { kind, code, words } = await failure(optionsWith({ url }));
  assert.deepEqual([kind, code], ["offline", "unreachable"]);
  assert.ok(words.startsWith(`No service answers at ${url}: `) && words.includes("apply-service serve"));
});

test("what takes connections and says nothing is offline after the connect timeout", async () => {
  const silent = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => silent.once("listening", resolve));
  const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const { kind, words } = await failure(optionsWith({ url, connectTimeoutSeconds: 0.2 }));
  assert.equal(kind, "offline");
  assert.ok(words.includes("no answer within 0.2 s"), words);
  silent.close();
});

test("what answers at all is there, whatever it says", async () => {
  await withServer(
    () => undefined,
    (url) => connect(`${url}/`, 5, NEVER),
  );
});

test("what is no apply service is told so", async () => {
  const reply = { status: 404, headers: {}, body: "<html>" };
  await withServer(
    (_, response) => give(reply, response),
    async (url) => {
      const { kind, code, words } = await failure(optionsWith({ url, stream: false }));
      assert.deepEqual([kind, code], ["failed", "unreachable"]);
      assert.ok(words.includes("does not answer like an apply service"), words);
    },
  );
});

test("a cancelled request ends the connection, and is no error", async () => {
  let left: Promise<unknown> = Promise.resolve();
  const controller = new AbortController();
  const reply = fixture("three_hunks").stream;
  await withServer(
    (_, response, request) => {
      left = new Promise((resolve) => request.socket.once("close", resolve));
      response.writeHead(200, reply.headers).write(reply.body.slice(0, 200));
      setImmediate(() => controller.abort());
    },
    async (url) => {
      assert.equal((await failure(optionsWith({ url }), controller.signal)).kind, "cancelled");
      await left;
    },
  );
});

test("a request cancelled before it is sent is not sent", async () => {
  const seen = await withServer(
    () => undefined,
    async (url) => {
      assert.equal((await failure(optionsWith({ url }), AbortSignal.abort())).kind, "cancelled");
    },
  );
  assert.deepEqual(seen, []);
});

test("without a key none is sent", async () => {
  const reply = fixture("wrong_key").reply;
  const seen = await withServer(
    (_, response) => give(reply, response),
    async (url) => {
      const { code, words } = await failure(optionsWith({ url, stream: false }));
      assert.equal(code, "unauthorized");
      assert.equal(words, "The API key is not known. Send a key of this service. [unauthorized]");
    },
  );
  assert.deepEqual(
    seen.map(({ key }) => key),
    [undefined, undefined],
  );
});

test("errors say what offended and what was allowed, unless the message does", () => {
  const words = (error: unknown): string => failureOf(error, false).words;
  assert.equal(
    words(new ApplyError("too_large", "Too large.", 9, 5, "Cut it.")),
    "Too large. (9; allowed: 5) Cut it. [too_large]",
  );
  assert.equal(words(new ApplyError("too_large", "9 is over 5.", 9, 5, "")), "9 is over 5. [too_large]");
  assert.equal(words(new Error("odd")), "odd [internal]");
});

test("a server is started where none answers, and then asked", async () => {
  const url = `http://127.0.0.1:${await freePort()}`;
  let nStarts = 0;
  const { code } = await failure(optionsWith({ url }), NEVER, () => {
    nStarts += 1;
    return Promise.resolve();
  });
  assert.deepEqual([nStarts, code], [1, "unreachable"]);
});

test("a start that fails is what is told", async () => {
  const url = `http://127.0.0.1:${await freePort()}`;
  const { code, words } = await failure(optionsWith({ url }), NEVER, () =>
    Promise.reject(new ApplyError("not_ready", "It ended.")),
  );
  assert.deepEqual([code, words], ["not_ready", "It ended. [not_ready]"]);
});

// -- the local server -------------------------------------------------------------------------------------------------
const SERVER = `
const [host, port] = process.argv.slice(1);
const body = JSON.stringify({ status: "ready", model: "m", models: [], n_active: 0, queue_length: 0, queue_limit: 1 });
require("node:http").createServer((_, response) => response.end(body)).listen(Number(port), host);
`;

function startOptions(port: number, script: string, waitSeconds = 30): Options {
  const command = [process.execPath, "-e", script, "{host}", "{port}"];
  return optionsWith({ url: `http://127.0.0.1:${port}`, startServer: { command, waitSeconds } });
}

test("host and port are the URL's", () => {
  const command = ["serve", "{host}:{port}", "{model}"];
  const words = (url: string): string[] => commandOf(optionsWith({ url, startServer: { command } }));
  assert.deepEqual(words("http://[::1]:90/x"), ["serve", "::1:90", "{model}"]);
  assert.deepEqual(words("http://localhost"), ["serve", "localhost:80", "{model}"]);
});

test("only this machine's addresses are local", () => {
  const urls = [
    "http://127.0.0.1:1",
    "http://localhost",
    "http://[::1]:2",
    "http://example.org",
    "http://127.0.0.1.example.org",
  ];
  assert.deepEqual(urls.map(isLocal), [true, true, true, false, false]);
});

test("a server is started, waited for, and ends with the editor", async () => {
  const lines: string[] = [];
  const server = new LocalServer((line) => lines.push(line));
  const options = startOptions(await freePort(), SERVER);
  await Promise.all([server.start(options, NEVER), server.start(options, NEVER)]);
  await connect(options.url, 5, NEVER);
  assert.equal(lines.filter((line) => line.startsWith("starting: ")).length, 1);
  await server.stop();
  assert.ok(lines.some((line) => line.startsWith("the server ended")));
  await assert.rejects(connect(options.url, 5, NEVER));
});

test("a server runs in the home folder, wherever the editor was started", async () => {
  const lines: string[] = [];
  const server = new LocalServer((line) => lines.push(line));
  await server.start(startOptions(await freePort(), `console.log(process.cwd()); ${SERVER}`), NEVER);
  await server.stop();
  assert.ok(lines.includes(realpathSync(homedir())), lines.join("\n"));
});

test("a server goes through its states, and is gone when stop returns", async () => {
  const states: ServerState[] = [];
  const server = new LocalServer(
    () => undefined,
    (name) => name,
    (state) => states.push(state),
  );
  const options = startOptions(await freePort(), SERVER);
  assert.equal(await server.stop(), false);
  await server.start(options, NEVER);
  assert.equal(await server.look(options), true);
  assert.equal(await server.stop(), true);
  await assert.rejects(connect(options.url, 5, NEVER));
  await server.start(options, NEVER); // the port is free again
  await server.stop();
  assert.equal(await server.look(options), false);
  assert.deepEqual(states, ["starting", "ready", "ready", "stopped", "starting", "ready", "stopped", "stopped"]);
});

test("a program that is nowhere is told by the places that were looked at", async () => {
  const states: ServerState[] = [];
  const server = new LocalServer(
    () => undefined,
    () => null,
    (state) => states.push(state),
  );
  const options = startOptions(await freePort(), SERVER);
  await assert.rejects(server.start(options, NEVER), /found neither in a virtual environment .* nor on PATH/);
  await server.look(options);
  await server.look(optionsWith({ url: "http://192.0.2.1:1" }));
  assert.deepEqual(states, ["starting", "notFound", "notFound", "unknown"]);
});

test("where the URL's server is down the user's own in the background is asked, with its key", async () => {
  const url = `http://127.0.0.1:${await freePort()}`;
  const seen = await withServer(
    (_, response) => give(fixture("three_hunks").reply, response),
    async (other) => {
      const options = optionsWith({ url, stream: false });
      const exchange = { options, apiKey: "of the URL", request: REQUEST, signal: NEVER, onText: () => undefined };
      await ask({ ...exchange, findServer: async () => ({ url: other, apiKey: "own" }) });
      const { kind } = await ask({ ...exchange, findServer: async () => null }).then(
        () => assert.fail("there was an answer"),
        (error: unknown) => failureOf(error, false),
      );
      assert.equal(kind, "offline");
    },
  );
  assert.deepEqual(
    seen.map(({ key }) => key),
    ["Bearer own"],
  );
});

const BROKEN: readonly [string, (port: number) => Options, RegExp][] = [
  ["a program that ends", (port) => startOptions(port, "process.exit(3)"), /ended \(3\) before it was ready/],
  [
    "a program that is never ready",
    (port) => startOptions(port, "setInterval(() => 0, 1000)", 0.3),
    /not ready in 0.3 s/,
  ],
  [
    "a program that is not there",
    (port) => optionsWith({ url: `http://127.0.0.1:${port}`, startServer: { command: ["no-such-program-here"] } }),
    /cannot be started/,
  ],
  ["a server elsewhere", () => optionsWith({ url: "http://192.0.2.1:1" }), /only started for a loopback URL/],
];

for (const [name, options, message] of BROKEN) {
  test(`${name} is told so`, async () => {
    const server = new LocalServer(() => undefined);
    await assert.rejects(server.start(options(await freePort()), NEVER), (error: unknown) => {
      assert.ok(error instanceof ApplyError);
      assert.equal(error.code, "not_ready");
      assert.match(error.message, message);
      return true;
    });
    await server.stop();
  });
}

test("who cancels does not wait for the server", async () => {
  const server = new LocalServer(() => undefined);
  const controller = new AbortController();
  const started = server.start(startOptions(await freePort(), "setInterval(() => 0, 1000)"), controller.signal);
  controller.abort();
  await assert.rejects(started, { name: "AbortError" });
  await server.stop();
});

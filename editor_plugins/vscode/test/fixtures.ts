/** The contract's recorded requests and answers, and a server that gives them. */

import { readdirSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { NativeAnswer } from "apply-service-client";
import { completeOptions, type Options } from "../src/core/options.js";

const FOLDER = "../contract/fixtures";

export interface Recorded {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface Fixture {
  readonly name: string;
  readonly request: {
    readonly original: string;
    readonly update: string;
    readonly path?: string;
    readonly base_sha256?: string;
  };
  readonly reply: Recorded;
  readonly stream: Recorded;
}

export const FIXTURES: readonly Fixture[] = readdirSync(FOLDER)
  .filter((file) => file.endsWith(".json"))
  .sort()
  .map((file) => JSON.parse(readFileSync(`${FOLDER}/${file}`, "utf8")) as Fixture);

export function fixture(name: string): Fixture {
  const found = FIXTURES.find((candidate) => candidate.name === name);
  if (found === undefined) throw new Error(`no fixture ${name}`);
  return found;
}

/** The answer of a fixture that has one. */
export function answerOf(name: string): NativeAnswer {
  return JSON.parse(fixture(name).reply.body) as NativeAnswer;
}

export interface Seen {
  readonly path: string;
  readonly key: string | undefined;
  readonly body: Record<string, unknown> | null;
}

/** What a server does with an edit. */
export type Reply = (body: Record<string, unknown>, response: ServerResponse, request: IncomingMessage) => void;

export function give(recorded: Recorded, response: ServerResponse): void {
  response.writeHead(recorded.status, recorded.headers).end(recorded.body);
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const piece of request.setEncoding("utf8")) text += piece as string;
  return text;
}

/** Runs `work` with a server on a free loopback port, and gives what the server has seen. */
export async function withServer(reply: Reply, work: (url: string) => Promise<void>): Promise<Seen[]> {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    void bodyOf(request).then((text) => {
      const body = text === "" ? null : (JSON.parse(text) as Record<string, unknown>);
      seen.push({ path: request.url ?? "", key: request.headers.authorization, body });
      if (body === null) response.writeHead(200).end("{}");
      else reply(body, response, request);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
  return seen;
}

export function optionsWith(given: Readonly<Record<string, unknown>>): Options {
  return completeOptions({ timeoutSeconds: 20, connectTimeoutSeconds: 10, ...given });
}

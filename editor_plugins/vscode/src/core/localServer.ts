/** A server on this machine, started when none answers; it ends with the editor. */

import { type ChildProcess, spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { ApplyClient, ApplyError } from "apply-service-client";
import type { Options } from "./options.js";

const POLL_MS = 250;
const LOOPBACK = new Set(["127.0.0.1", "localhost", "[::1]"]);

function notReady(message: string): ApplyError {
  return new ApplyError("not_ready", message, null, null, "Start it by hand: apply-service serve.");
}

/** Whether a server for this URL would be one on this machine. */
export function isLocal(url: string): boolean {
  return LOOPBACK.has(new URL(url).hostname);
}

/** Program and arguments that start a server for the options' URL. */
export function commandOf(options: Options): [string, ...string[]] {
  const { hostname, port, protocol } = new URL(options.url);
  const host = hostname.replace(/[[\]]/g, "");
  const place = port || (protocol === "https:" ? "443" : "80");
  const [program = "", ...words] = options["startServer.command"].map((word) =>
    word.replaceAll("{host}", () => host).replaceAll("{port}", () => place),
  );
  return [program, ...words];
}

export class LocalServer {
  readonly #log: (line: string) => void;
  #child: ChildProcess | undefined;
  #starting: Promise<void> | undefined;

  constructor(log: (line: string) => void) {
    this.#log = log;
  }

  /** Starts it, unless that is under way, and waits until it takes requests. Throws ApplyError `not_ready`. */
  async start(options: Options, signal: AbortSignal): Promise<void> {
    if (!isLocal(options.url)) throw notReady(`A server is only started for a loopback URL, not ${options.url}.`);
    this.#starting ??= this.#run(options).finally(() => {
      this.#starting = undefined;
    });
    await Promise.race([this.#starting, aborted(signal)]);
  }

  stop(): void {
    this.#child?.kill();
    this.#child = undefined;
  }

  async #run(options: Options): Promise<void> {
    this.stop();
    const ended = new AbortController();
    let fault: ApplyError | undefined;
    const end = (error: ApplyError): void => {
      fault ??= error;
      ended.abort();
    };
    this.#spawn(options, end);
    const timer = setTimeout(() => {
      end(notReady(`The server was not ready in ${options["startServer.waitSeconds"]} s.`));
      this.stop();
    }, options["startServer.waitSeconds"] * 1000);
    try {
      await untilReady(options.url, ended.signal);
    } finally {
      clearTimeout(timer);
    }
    if (fault !== undefined) throw fault;
  }

  #spawn(options: Options, onEnd: (error: ApplyError) => void): void {
    const [program, ...words] = commandOf(options);
    this.#log(`starting: ${[program, ...words].join(" ")}`);
    const child = spawn(program, words, { stdio: ["ignore", "pipe", "pipe"], windowsHide: true });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => this.#log(text.trimEnd()));
    }
    child.on("error", (error) => onEnd(notReady(`\`${program}\` cannot be started: ${error.message}.`)));
    child.on("exit", (code, killedBy) => {
      this.#log(`the server ended (${code ?? killedBy})`);
      if (this.#child === child) this.#child = undefined;
      onEnd(notReady(`\`${program}\` ended (${code ?? killedBy}) before it was ready; the output channel tells why.`));
    });
  }
}

async function untilReady(url: string, ended: AbortSignal): Promise<void> {
  const client = new ApplyClient({ baseUrl: url, timeoutMs: 1000 });
  while (!ended.aborted && !(await client.isReady({ signal: ended }))) {
    await sleep(POLL_MS, undefined, { signal: ended }).catch(() => undefined);
  }
}

/** Never settles before the signal does. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason as Error);
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
  });
}

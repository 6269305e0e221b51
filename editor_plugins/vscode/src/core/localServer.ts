/** A server on this machine, started when none answers; it ends with the editor. */

import { type ChildProcess, spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { ApplyClient, ApplyError } from "apply-service-client";
import type { Options } from "./options.js";
import { findUserServer, type FoundServer, neutralFolder } from "./programs.js";

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

const STOP_MS = 5000;

/** Of the server on this machine. `unknown`: it is elsewhere, or was not looked for. */
export type ServerState = "unknown" | "notFound" | "starting" | "ready" | "stopped";

/** The setting's program as a file; null where there is none. */
export type FindProgram = (name: string) => string | null;

export class LocalServer {
  readonly #log: (line: string) => void;
  readonly #find: FindProgram;
  readonly #onState: (state: ServerState) => void;
  #child: ChildProcess | undefined;
  #starting: Promise<void> | undefined;

  constructor(
    log: (line: string) => void,
    find: FindProgram = (name) => name,
    onState: (state: ServerState) => void = () => undefined,
  ) {
    this.#log = log;
    this.#find = find;
    this.#onState = onState;
  }

  get isStarting(): boolean {
    return this.#starting !== undefined;
  }

  /** The server of the options, in the background where it runs and answers; null: there is none. */
  async findUserServer(options: Options): Promise<FoundServer | null> {
    const program = isLocal(options.url) ? this.#find(options["startServer.command"][0] ?? "") : null;
    return program === null ? null : findUserServer(program);
  }

  /** Whether a server answers; one that is elsewhere is not asked. */
  async look(options: Options): Promise<boolean> {
    if (this.isStarting) return false;
    if (!isLocal(options.url)) {
      this.#onState("unknown");
      return false;
    }
    const client = new ApplyClient({ baseUrl: options.url, timeoutMs: 1000 });
    const isReady = (await client.isReady()) || (await this.findUserServer(options)) !== null;
    const program = this.#find(options["startServer.command"][0] ?? "");
    if (!this.isStarting) this.#onState(isReady ? "ready" : program === null ? "notFound" : "stopped");
    return isReady;
  }

  /** Starts it, unless that is under way, and waits until it takes requests. Throws ApplyError `not_ready`. */
  async start(options: Options, signal: AbortSignal): Promise<void> {
    if (!isLocal(options.url)) throw notReady(`A server is only started for a loopback URL, not ${options.url}.`);
    this.#starting ??= this.#run(options).finally(() => {
      this.#starting = undefined;
    });
    await Promise.race([this.#starting, aborted(signal)]);
  }

  /** Ends the server that was started here; whether there was one. Resolves when it is gone. */
  async stop(): Promise<boolean> {
    const child = this.#child;
    if (child === undefined) return false;
    this.#child = undefined;
    const gone = new Promise((resolve) => child.once("close", resolve));
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
    if (child.exitCode === null && child.signalCode === null && child.kill()) await gone;
    clearTimeout(timer);
    return true;
  }

  async #run(options: Options): Promise<void> {
    await this.stop();
    this.#onState("starting");
    const ended = new AbortController();
    let fault: ApplyError | undefined;
    const end = (error: ApplyError): void => {
      fault ??= error;
      ended.abort();
    };
    this.#spawn(options, end);
    const timer = setTimeout(() => {
      end(notReady(`The server was not ready in ${options["startServer.waitSeconds"]} s.`));
      void this.stop();
    }, options["startServer.waitSeconds"] * 1000);
    try {
      await untilReady(options.url, ended.signal);
    } finally {
      clearTimeout(timer);
    }
    if (fault !== undefined) throw fault;
    this.#onState("ready");
  }

  #spawn(options: Options, onEnd: (error: ApplyError) => void): void {
    const [name, ...words] = commandOf(options);
    const program = this.#find(name);
    if (program === null) {
      this.#onState("notFound");
      const where = "in a virtual environment (.venv, venv, env) of a trusted workspace nor on PATH";
      return onEnd(
        notReady(
          `\`${name}\` was found neither ${where}; install it there, or write its whole path ` +
            "into the setting applyService.startServer.command.",
        ),
      );
    }
    this.#log(`starting: ${[program, ...words].join(" ")}`);
    const cwd = neutralFolder();
    const child = spawn(program, words, { cwd, stdio: ["ignore", "pipe", "pipe"], windowsHide: true });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => this.#log(text.trimEnd()));
    }
    child.on("error", (error) => {
      if (this.#child === child) this.#child = undefined;
      this.#onState("notFound");
      onEnd(notReady(`\`${program}\` cannot be started: ${error.message}.`));
    });
    child.on("exit", (code, killedBy) => {
      this.#log(`the server ended (${code ?? killedBy})`);
      if (this.#child === child) this.#child = undefined;
      if (this.#child === undefined) this.#onState("stopped");
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

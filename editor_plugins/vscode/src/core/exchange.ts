/** One request up to its answer: is anybody there, else a server is started; then the edit, streamed or not. */

import {
  ApplyClient,
  ApplyError,
  type BatchAnswer,
  type BatchRequest,
  type EditRequest,
  type NativeAnswer,
} from "apply-service-client";
import type { Options } from "./options.js";
import type { FoundServer } from "./programs.js";

/** Who is asked, and how. */
export interface Connection {
  readonly options: Options;
  readonly apiKey: string | undefined;
  readonly signal: AbortSignal;
  /** Finds another server of the user's where none answers; null: there is none. Absent: none is looked for. */
  readonly findServer?: (() => Promise<FoundServer | null>) | undefined;
  /** Starts a server where none answers; throws where it cannot. Absent: none is to be started. */
  readonly startServer?: ((signal: AbortSignal) => Promise<void>) | undefined;
}

export interface Exchange extends Connection {
  readonly request: EditRequest;
  /** Provisional text came. */
  readonly onText: (text: string) => void;
}

const ALIVE_PATH = "/healthz";

function causeOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  if (cause instanceof Error && cause.message !== "") return cause.message;
  return error instanceof Error ? error.message : String(error);
}

/** Waits until anything answers at all. Throws ApplyError `unreachable`, or what the signal was aborted with. */
export async function connect(url: string, timeoutS: number, signal: AbortSignal): Promise<void> {
  const limit = AbortSignal.timeout(timeoutS * 1000);
  try {
    const init: RequestInit = { signal: AbortSignal.any([signal, limit]), redirect: "manual" };
    const response = await fetch(url.replace(/\/+$/, "") + ALIVE_PATH, init);
    await response.body?.cancel();
  } catch (error) {
    signal.throwIfAborted();
    const why = limit.aborted ? `no answer within ${timeoutS} s` : causeOf(error);
    const remedy = "Start one with `apply-service serve`, or correct the setting applyService.url.";
    throw new ApplyError("unreachable", `No service answers at ${url}: ${why}.`, url, null, remedy);
  }
}

/** A client of a service that answers. */
async function reach({ options, apiKey, signal, findServer, startServer }: Connection): Promise<ApplyClient> {
  const clientOf = (baseUrl: string, key: string | undefined): ApplyClient =>
    new ApplyClient({ baseUrl, timeoutMs: options.timeoutSeconds * 1000, ...(key !== undefined && { apiKey: key }) });
  try {
    await connect(options.url, options.connectTimeoutSeconds, signal);
  } catch (error) {
    signal.throwIfAborted();
    const found = await findServer?.();
    if (found) return clientOf(found.url, found.apiKey);
    if (startServer === undefined) throw error;
    await startServer(signal);
  }
  return clientOf(options.url, apiKey);
}

async function streamed(client: ApplyClient, exchange: Exchange): Promise<NativeAnswer> {
  for await (const event of client.stream(exchange.request, { signal: exchange.signal })) {
    if (event.type === "final") return event.answer;
    exchange.onText(event.text);
  }
  // The client ends a stream by its final event or by an error.
  throw new ApplyError("unreachable", "The stream ended without an answer.", exchange.options.url);
}

/** The answer. Throws ApplyError, or what the signal was aborted with. */
export async function ask(exchange: Exchange): Promise<NativeAnswer> {
  const client = await reach(exchange);
  if (exchange.options.stream) return streamed(client, exchange);
  return client.apply(exchange.request, { signal: exchange.signal });
}

/** What becomes of each file of a reply or patch. Throws as `ask` does. */
export async function askBatch(connection: Connection, request: BatchRequest): Promise<BatchAnswer> {
  const client = await reach(connection);
  return client.batch(request, { signal: connection.signal });
}

/** One request up to its answer: is anybody there, else a server is started; then the edit, streamed or not. */

import { ApplyClient, ApplyError, type EditRequest, type NativeAnswer } from "apply-service-client";
import type { Options } from "./options.js";

export interface Exchange {
  readonly options: Options;
  readonly apiKey: string | undefined;
  readonly request: EditRequest;
  readonly signal: AbortSignal;
  /** Provisional text came. */
  readonly onText: (text: string) => void;
  /** Starts a server where none answers; throws where it cannot. Absent: none is to be started. */
  readonly startServer?: ((signal: AbortSignal) => Promise<void>) | undefined;
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

async function reach(exchange: Exchange): Promise<void> {
  const { options, signal, startServer } = exchange;
  try {
    await connect(options.url, options.connectTimeoutSeconds, signal);
  } catch (error) {
    if (startServer === undefined || signal.aborted) throw error;
    await startServer(signal);
  }
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
  await reach(exchange);
  const { url, timeoutSeconds, stream } = exchange.options;
  const key = exchange.apiKey === undefined ? {} : { apiKey: exchange.apiKey };
  const client = new ApplyClient({ baseUrl: url, timeoutMs: timeoutSeconds * 1000, ...key });
  if (stream) return streamed(client, exchange);
  return client.apply(exchange.request, { signal: exchange.signal });
}

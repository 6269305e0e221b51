/**
 * The client. It has one method for each kind of call to the service.
 *
 * The server enforces the deadline of a request. The client waits a little longer for the server's answer, and gives up
 * on a server that stays silent. Decoding stops if the caller aborts the signal or leaves a stream early.
 */

import { ApplyError, foreign, late, unreachable } from "./errors.js";
import { type ApplyEvent, EventReader } from "./events.js";
import { Silence } from "./silence.js";
import type { BatchAnswer, BatchRequest, ModelList, NativeAnswer, NativeRequest, Readiness } from "./types.js";

const APPLY_PATH = "/v1/apply";
const BATCH_PATH = "/v1/apply/batch";
const GRACE_MS = 5_000;

export interface ClientOptions {
  /** The address of the service, for instance http://127.0.0.1:8765. */
  baseUrl: string;
  apiKey?: string;
  /** Deadline, in milliseconds, of requests that name no deadline. */
  timeoutMs?: number;
  /** Used instead of the global fetch. */
  fetch?: typeof fetch;
}

export interface CallOptions {
  signal?: AbortSignal;
}

/** One edit. The method decides whether the answer is streamed. */
export type EditRequest = Omit<NativeRequest, "stream">;

interface Call {
  method: "GET" | "POST";
  path: string;
  payload?: unknown;
  timeoutS?: number | null | undefined;
}

export class ApplyClient {
  readonly #url: string;
  readonly #apiKey: string | undefined;
  readonly #timeoutMs: number;
  readonly #fetch: typeof fetch;

  /** Throws a TypeError if the URL is not an http or https URL. */
  constructor(options: ClientOptions) {
    const url = new URL(options.baseUrl);
    if (url.protocol !== "http:" && url.protocol !== "https:") throw new TypeError(`not an http URL: ${options.baseUrl}`);
    this.#url = options.baseUrl.replace(/\/+$/, "");
    this.#apiKey = options.apiKey;
    this.#timeoutMs = options.timeoutMs ?? 120_000;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** Apply one edit. Throws ApplyError. */
  async apply(request: EditRequest, options: CallOptions = {}): Promise<NativeAnswer> {
    const call: Call = { method: "POST", path: APPLY_PATH, payload: request, timeoutS: request.timeout_s };
    return this.#send(call, options, (answer: NativeAnswer) => typeof answer.merged_code === "string");
  }

  /** Yield provisional tokens, then the final answer. Throws ApplyError. */
  async *stream(request: EditRequest, options: CallOptions = {}): AsyncGenerator<ApplyEvent, void, undefined> {
    const payload = { ...request, stream: true };
    const call: Call = { method: "POST", path: APPLY_PATH, payload, timeoutS: request.timeout_s };
    const silence = this.#silence(call, options);
    let body: ReadableStreamDefaultReader<Uint8Array> | undefined;
    try {
      const response = await this.#open(call, silence);
      if (response.status !== 200 || response.body === null) throw await this.#refusal(response, silence);
      body = response.body.getReader();
      yield* this.#events(body, silence);
    } finally {
      silence.end();
      await body?.cancel().catch(() => undefined);
    }
  }

  /** Apply several edits, or one patch over several files. Throws ApplyError. */
  async batch(request: BatchRequest, options: CallOptions = {}): Promise<BatchAnswer> {
    const timeoutS = (request.edits ?? []).reduce((sum, edit) => sum + (edit.timeout_s ?? this.#timeoutMs / 1000), 0);
    const call: Call = { method: "POST", path: BATCH_PATH, payload: request, timeoutS: timeoutS || null };
    return this.#send(call, options, (answer: BatchAnswer) => Array.isArray(answer.items));
  }

  /** Return the model names that requests may give, the service's own model first. Throws ApplyError. */
  async models(options: CallOptions = {}): Promise<ModelList> {
    return this.#send({ method: "GET", path: "/v1/models" }, options, (list: ModelList) => Array.isArray(list.data));
  }

  /** Return the state of a service that takes requests. Throws ApplyError `not_ready` if it takes none. */
  async health(options: CallOptions = {}): Promise<Readiness> {
    return this.#send({ method: "GET", path: "/readyz" }, options, (said: Readiness) => typeof said.model === "string");
  }

  /** Whether the server would take a request now. */
  async isReady(options: CallOptions = {}): Promise<boolean> {
    return this.health(options).then(
      () => true,
      () => false,
    );
  }

  // -- transport ------------------------------------------------------------------------------------------------------
  async #send<T>(call: Call, options: CallOptions, isAnswer: (answer: T) => boolean): Promise<T> {
    const silence = this.#silence(call, options);
    try {
      const response = await this.#open(call, silence);
      if (response.status !== 200) throw await this.#refusal(response, silence);
      const answer = (await this.#json(response, silence)) as T;
      if (typeof answer !== "object" || answer === null || !isAnswer(answer)) throw foreign(this.#url, response.status);
      return answer;
    } finally {
      silence.end();
    }
  }

  async #open(call: Call, silence: Silence): Promise<Response> {
    const init: RequestInit = { method: call.method, headers: this.#headers(call), signal: silence.signal };
    if (call.payload !== undefined) init.body = JSON.stringify(call.payload);
    return this.#guarded(silence, () => this.#fetch(this.#url + call.path, { ...init, redirect: "manual" }));
  }

  async *#events(body: ReadableStreamDefaultReader<Uint8Array>, silence: Silence): AsyncGenerator<ApplyEvent> {
    const reader = new EventReader(this.#url);
    while (!reader.hasEnded) {
      const piece = await this.#guarded(silence, () => body.read());
      if (piece.done) throw unreachable(this.#url, "the stream was cut off");
      silence.broken();
      yield* reader.feed(piece.value);
    }
  }

  async #refusal(response: Response, silence: Silence): Promise<ApplyError> {
    return ApplyError.of(await this.#json(response, silence), response.status, this.#url);
  }

  async #json(response: Response, silence: Silence): Promise<unknown> {
    const text = await this.#guarded(silence, () => response.text());
    try {
      return JSON.parse(text);
    } catch {
      throw foreign(this.#url, response.status);
    }
  }

  /** Turn errors of the transport into ours; an abort by the caller stays as it is. */
  async #guarded<T>(silence: Silence, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (silence.isLate) throw late(this.#url, silence.limitMs);
      if (silence.signal.aborted) throw silence.signal.reason;
      throw unreachable(this.#url, error);
    }
  }

  #silence(call: Call, options: CallOptions): Silence {
    const limitMs = call.timeoutS == null ? this.#timeoutMs : call.timeoutS * 1000;
    return new Silence(limitMs + GRACE_MS, options.signal);
  }

  #headers(call: Call): Record<string, string> {
    const headers: Record<string, string> = {};
    if (call.payload !== undefined) headers["Content-Type"] = "application/json";
    if (this.#apiKey !== undefined) headers["Authorization"] = `Bearer ${this.#apiKey}`;
    return headers;
  }
}

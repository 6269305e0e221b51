/** Errors of the service, and of the connection to it, as one class. */

import type { ErrorBody, ErrorCode, Failure, OtherReading } from "./types.js";

/** An error with the service's own fields. `code` is stable; a newer service may have codes that this client does not know. */
export class ApplyError extends Error {
  override readonly name = "ApplyError";

  constructor(
    readonly code: ErrorCode | (string & {}),
    message: string,
    /** The offending value. */
    readonly value: unknown = null,
    /** The allowed value or range. */
    readonly limit: unknown = null,
    readonly remedy: string = "",
    /** HTTP status; undefined if there was none. */
    readonly status?: number,
    options?: ErrorOptions,
    /** What an unclear edit may mean, the likeliest first. The field `reading` of a request chooses one. */
    readonly readings: readonly OtherReading[] = [],
    /** The parts of an edit that do not fit the file; for `edit_conflict`, both sides of each conflict. */
    readonly failures: readonly Failure[] = [],
  ) {
    super(message, options);
  }

  /** Return the error in an error body; `unreachable` if the body is not an error of this service. */
  static of(body: unknown, status: number | undefined, url: string): ApplyError {
    const detail = (body as Partial<ErrorBody> | null)?.error;
    if (typeof detail !== "object" || typeof detail?.code !== "string" || typeof detail.message !== "string") {
      return foreign(url, status);
    }
    const { code, message, value, limit, remedy, readings, failures } = detail;
    return new ApplyError(code, message, value, limit, remedy, status, undefined, readings, failures);
  }
}

/** The server that answered is not an apply service. */
export function foreign(url: string, status?: number): ApplyError {
  const message = "The server at this URL does not answer like an apply service.";
  return new ApplyError("unreachable", message, url, null, "Correct the URL.", status);
}

/** Nothing answered, or the answer broke off. */
export function unreachable(url: string, cause: unknown): ApplyError {
  const why = cause instanceof Error ? ((cause.cause as Error | undefined)?.message ?? cause.message) : String(cause);
  const remedy = "Start one with `apply-service serve`, or correct the URL.";
  return new ApplyError("unreachable", `The server cannot be reached: ${why}.`, url, null, remedy, undefined, { cause });
}

/** The server was silent for too long. */
export function late(url: string, waitedMs: number): ApplyError {
  return new ApplyError("deadline_exceeded", "The server did not answer in time.", url, waitedMs, "Allow more time.");
}

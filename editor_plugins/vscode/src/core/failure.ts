/** What went wrong, in the service's own shape, and what the editor does about it. */

import { ApplyError, type OtherReading } from "apply-service-client";

export interface Failure {
  readonly code: string;
  /** For people: what, what to do, and the code. */
  readonly words: string;
  /** `offline`: no service answers. `cancelled`: as the user wished. */
  readonly kind: "failed" | "offline" | "cancelled";
  /** What an edit that is not clear may mean. */
  readonly readings?: readonly OtherReading[];
}

export const CANCELLED: Failure = {
  code: "cancelled",
  words: "The request was cancelled; nothing was changed.",
  kind: "cancelled",
};

function detail(error: ApplyError): string {
  const { value, limit } = error;
  const isSaid = (part: unknown): boolean =>
    part === null || part === undefined || error.message.includes(String(part));
  const short = (part: unknown): string => JSON.stringify(part).slice(0, 80);
  if (isSaid(value) || error.code === "unreachable") return "";
  return isSaid(limit) ? ` (${short(value)})` : ` (${short(value)}; allowed: ${short(limit)})`;
}

/** An error of a request as a failure. */
export function failureOf(error: unknown, isCancelled: boolean): Failure {
  if (isCancelled) return CANCELLED;
  if (!(error instanceof ApplyError)) {
    const words = error instanceof Error ? error.message : String(error);
    return { code: "internal", words: `${words} [internal]`, kind: "failed" };
  }
  const remedy = error.remedy ? ` ${error.remedy}` : "";
  const words = `${error.message}${detail(error)}${remedy} [${error.code}]`;
  // What answered with a status is there, if it is no apply service.
  const isOffline = error.code === "unreachable" && error.status === undefined;
  const readings = error.readings.length > 0 && { readings: error.readings };
  return { code: error.code, words, kind: isOffline ? "offline" : "failed", ...readings };
}

/** What went wrong, in the service's own shape, and what the editor does about it. */

import { ApplyError, type OtherReading } from "apply-service-client";
import { oneLine } from "./report.js";

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

const [MOST_SHOWN, MOST_CONFLICTS] = [80, 3];

/** Lines of one side of a conflict. */
function side(lines: string | null): string {
  const said = oneLine(lines ?? "").trim();
  if (said === "") return "nothing";
  return `\`${said.length > MOST_SHOWN ? `${said.slice(0, MOST_SHOWN)}…` : said}\``;
}

/** Each place that the document and the edit both changed, with what it has in either. */
function conflictWords(error: ApplyError): string {
  const places = error.failures.slice(0, MOST_CONFLICTS).map(({ candidates: [place], found, quoted }) => {
    const [first, last] = [place?.first ?? 0, place?.last ?? 0];
    const where = first === last ? `Line ${first}` : `Lines ${first} to ${last}`;
    return `${where}: the document has ${side(found)}, the edit has ${side(quoted)}.`;
  });
  const nMore = error.failures.length - places.length;
  const words = [
    "The document was changed where the edit changes it too; nothing was changed by it.",
    ...places,
    ...(nMore > 0 ? [`There ${nMore === 1 ? "is 1 more place" : `are ${nMore} more places`}.`] : []),
    "Take your change of these lines back and accept again, or ask again.",
  ];
  return words.join(" ");
}

/** An error of a request as a failure. */
export function failureOf(error: unknown, isCancelled: boolean): Failure {
  if (isCancelled) return CANCELLED;
  if (!(error instanceof ApplyError)) {
    const words = error instanceof Error ? error.message : String(error);
    return { code: "internal", words: `${words} [internal]`, kind: "failed" };
  }
  const remedy = error.remedy ? ` ${error.remedy}` : "";
  const said = `${error.message}${detail(error)}${remedy}`;
  const isConflict = error.code === "edit_conflict" && error.failures.length > 0;
  const words = `${isConflict ? conflictWords(error) : said} [${error.code}]`;
  // What answered with a status is there, if it is no apply service.
  const isOffline = error.code === "unreachable" && error.status === undefined;
  const readings = error.readings.length > 0 && { readings: error.readings };
  return { code: error.code, words, kind: isOffline ? "offline" : "failed", ...readings };
}

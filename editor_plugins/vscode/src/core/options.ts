/** The settings: one table says kind, default and range of each; an unknown name or a bad value is refused by name. */

export interface Options {
  readonly url: string;
  readonly model: string;
  readonly strategy: "auto" | "model" | "exact";
  readonly preview: "below" | "beside";
  readonly autoAccept: "never" | "clean" | "always";
  readonly timeoutSeconds: number;
  readonly connectTimeoutSeconds: number;
  readonly stream: boolean;
  readonly onVerdict: Readonly<Record<string, "warn" | "fail">>;
  readonly drafter: string;
  readonly constrain: "" | "sources" | "none";
  readonly "startServer.enabled": boolean;
  readonly "startServer.command": readonly string[];
  readonly "startServer.waitSeconds": number;
}

export interface OptionSpec {
  readonly kind: "url" | "text" | "choice" | "seconds" | "flag" | "verdicts" | "words";
  readonly default: unknown;
  readonly choices?: readonly string[];
  /** Of `seconds`, which are above 0. */
  readonly most?: number;
}

/** The editor's own HTTP gives up after 300 s of silence, and the client waits a little longer than the server may. */
const MOST_SECONDS = 290;

export const SPECS: Readonly<Record<keyof Options, OptionSpec>> = {
  url: { kind: "url", default: "http://127.0.0.1:8765" },
  model: { kind: "text", default: "" },
  strategy: { kind: "choice", default: "auto", choices: ["auto", "model", "exact"] },
  preview: { kind: "choice", default: "below", choices: ["below", "beside"] },
  autoAccept: { kind: "choice", default: "never", choices: ["never", "clean", "always"] },
  timeoutSeconds: { kind: "seconds", default: 120, most: MOST_SECONDS },
  connectTimeoutSeconds: { kind: "seconds", default: 5, most: MOST_SECONDS },
  stream: { kind: "flag", default: true },
  onVerdict: { kind: "verdicts", default: {} },
  drafter: { kind: "text", default: "" },
  constrain: { kind: "choice", default: "", choices: ["", "sources", "none"] },
  "startServer.enabled": { kind: "flag", default: false },
  "startServer.command": {
    kind: "words",
    default: ["apply-service", "serve", "--host", "{host}", "--port", "{port}"],
  },
  "startServer.waitSeconds": { kind: "seconds", default: 60, most: 3600 },
};

/** A setting that cannot be used. */
export class OptionError extends Error {
  override readonly name = "OptionError";

  constructor(
    readonly option: string,
    problem: string,
  ) {
    super(`The setting applyService.${option} ${problem}.`);
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isUrl(value: unknown): boolean {
  return typeof value === "string" && /^https?:\/\/[^\s/]+/.test(value) && URL.canParse(value);
}

/** What the value must be; null where it is. */
function problemOf(spec: OptionSpec, value: unknown): string | null {
  switch (spec.kind) {
    case "url":
      return isUrl(value) ? null : "must be an http or https URL";
    case "text":
      return typeof value === "string" ? null : "must be a text";
    case "choice":
      return spec.choices?.some((choice) => choice === value) ? null : `must be one of ${JSON.stringify(spec.choices)}`;
    case "seconds":
      if (typeof value === "number" && value > 0 && value <= (spec.most ?? Infinity)) return null;
      return `must be a number above 0 and at most ${spec.most}`;
    case "flag":
      return typeof value === "boolean" ? null : "must be true or false";
    case "verdicts":
      if (isRecord(value) && Object.values(value).every((action) => action === "warn" || action === "fail"))
        return null;
      return 'must give "warn" or "fail" to names of checks';
    case "words":
      if (Array.isArray(value) && value.length > 0 && value.every((word) => typeof word === "string" && word !== ""))
        return null;
      return "must be a list of texts that are not empty, the program first";
  }
}

/** Dotted names and values of nested objects, as the editor hands settings out. */
function flattened(given: Readonly<Record<string, unknown>>, prefix = ""): [string, unknown][] {
  return Object.entries(given).flatMap(([key, value]): [string, unknown][] => {
    const name = prefix + key;
    const isGroup = Object.keys(SPECS).some((known) => known.startsWith(`${name}.`));
    return isGroup && isRecord(value) ? flattened(value, `${name}.`) : [[name, value]];
  });
}

/** Complete options: the given ones, and the defaults of the others. Throws OptionError. */
export function completeOptions(given: Readonly<Record<string, unknown>>): Options {
  const options: Record<string, unknown> = {};
  for (const [name, spec] of Object.entries(SPECS)) options[name] = spec.default;
  for (const [name, value] of flattened(given)) {
    const spec = Object.entries(SPECS).find(([known]) => known === name)?.[1];
    if (spec === undefined) throw new OptionError(name, "does not exist");
    const problem = problemOf(spec, value);
    if (problem !== null) throw new OptionError(name, `${problem}, not ${JSON.stringify(value)}`);
    options[name] = value;
  }
  return options as unknown as Options;
}

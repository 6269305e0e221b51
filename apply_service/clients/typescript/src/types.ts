// Made by `python -m docs.generate_typescript` from the service's OpenAPI page. Do not edit.

/** One edit of one file. A field that is not listed is refused, and the error names it. */
export interface NativeRequest {
  /** The file's text as it is, line ends untouched; `""`: a new file. */
  original?: string | null;
  /** The file's bytes in base64, in place of `original`; the answer then has `merged_b64`. */
  original_b64?: string | null;
  /** What the file's bytes are encoded in. */
  encoding?: string;
  /** The edit: lazy snippet, search/replace blocks, diff, patch or whole file. */
  update?: string;
  /** What the edit is to do, in words. */
  instruction?: string;
  /** The file's name; tells the language. Nothing is opened. */
  path?: string | null;
  /** The file's language, where its name does not tell. */
  language?: string | null;
  /** Format of the update; left out, it is detected. */
  format?: string | null;
  /**
   * The text that the edit was made for, where the file is newer: the edit is applied to it, and merged three-way
   * with the file.
   */
  base?: string | null;
  /** Hash of the bytes that the edit was made for; another original (or `base`) is refused as stale. */
  base_sha256?: string | null;
  /** Of lines that both the file and the edit changed since `base`: refuse, or write both. */
  conflicts?: "error" | "markers";
  /** Who decides: `exact` the program, `model` the target. */
  strategy?: "auto" | "model" | "exact";
  /** Drafter by name, or up to three as `merged_edit+suffix`. Changes the speed, never the answer. */
  drafter?: string | null;
  /** `sources`: every line that the target writes is one of the original or of the update. */
  constrain?: "sources" | "none" | null;
  /** Deadline in seconds, queueing included. */
  timeout_s?: number | null;
  /**
   * What a finding does, by the name of its check: marker_leak, truncation, no_op, outside_edit, symbols, syntax,
   * chat_text, indentation, edit_markup, fallback, doubt, instruction, reply, other_files.
   */
  on_verdict?: Record<string, "warn" | "fail">;
  /** Also answer with a unified diff, and one of each other reading. */
  diff?: boolean;
  /**
   * The reading of the edit to return, by its id in an answer to the same request, or by its number: 1 is the
   * likeliest, the others follow as the answer lists them.
   */
  reading?: string | null;
  /** Target model by name or alias; left out, the service's own. */
  model?: string | null;
  /** 0 is greedy. */
  temperature?: number;
  /** Seed of the sampling; the answer repeats it. */
  seed?: number;
  /** Most tokens to generate; reaching it is an error. */
  max_tokens?: number | null;
  /** Answer as server-sent events. */
  stream?: boolean;
}

/** Several files in one request. A field that is not listed is refused, and the error names it. */
export interface BatchRequest {
  /** `all_or_nothing`: one file that fails withholds every result. `independent`: each for itself. */
  mode?: "all_or_nothing" | "independent";
  /** Edits, each of a file of its own, as `POST /v1/apply` takes them, without `stream`. */
  edits?: NativeRequest[] | null;
  /** In place of `edits`: one patch or reply over `files`, in any format; no model is asked. */
  patch?: string | null;
  /** The files that the patch names, as they are. */
  files?: BatchFile[];
  /** With `patch`: what a finding does, by the name of its check. */
  on_verdict?: Record<string, "warn" | "fail">;
  /** With `patch`: also answer with diffs. */
  diff?: boolean;
}

/** A file that the patch may name. */
export interface BatchFile {
  /** The file's text as it is, line ends untouched; `""`: a new file. */
  original?: string | null;
  /** The file's bytes in base64, in place of `original`; the answer then has `merged_b64`. */
  original_b64?: string | null;
  /** What the file's bytes are encoded in. */
  encoding?: string;
  /** Its name, as the patch has it. */
  path: string;
  /** Hash of the bytes that the patch was made for. */
  base_sha256?: string | null;
}

/** The merged file, and everything that shows how far the file can be trusted. */
export interface NativeAnswer {
  /** The whole merged file, line ends as in the original. */
  merged_code: string;
  /** The merged file's bytes, where the original came as bytes. */
  merged_b64: string | null;
  /** What decided the result. */
  strategy: "exact" | "confirmed" | "model" | "windowed" | "fallback";
  /** Why decoding ended; of an answer always `stop`. */
  finish_reason: FinishReason;
  /** The edit's format, as declared or detected. */
  format: string;
  /** The file's language; null where it is unknown. */
  language: string | null;
  /** null where no model took part. */
  model: string | null;
  /** null where no model took part, or none was asked for. */
  drafter: string | null;
  /** How far the deterministic merge trusts itself. */
  certainty: Certainty;
  /** Why it does not trust itself more. */
  reasons: string[];
  /**
   * Other ways to read the edit with a chance of 1% or more, likeliest first, at most five. A request with `reading`
   * and an id returns that one.
   */
  readings: OtherReading[];
  /** The parts of the edit whose quotes do not fit, with a `next` edit. */
  failures: Failure[];
  /** Whether the file has the edit already, so that nothing changes. */
  already_applied: boolean;
  /** The id of this one; null where a model's text is no reading of the edit. */
  reading: string | null;
  /** Whether the target wrote what the deterministic merge predicted. */
  agreement: boolean | null;
  /** Whether drafts can change no bit here, by the engine's self-test. */
  determinism: "bitwise" | "tolerant" | null;
  verdicts: Verdict[];
  /** What turns the original into the merged text, as LSP text edits. */
  edits: TextEdit[];
  /** What changed, stretch by stretch. */
  hunks: Hunk[];
  /** Where the merged lines come from. */
  spans: Span[];
  /** With strategy `windowed`: the lines that the target decided; all others are the original's bytes. */
  windows: LineRange[];
  /**
   * How likely the answer is right, if a target decided or a program merged a snippet. null for other formats that a
   * program applied, and for a reading that the caller chose.
   */
  confidence: number | null;
  /**
   * `calibrated`: the share of such answers that was right when counted. `raw`: the target's least probability at a
   * decision. null without a confidence.
   */
  confidence_kind: "calibrated" | "raw" | null;
  /** Hash of the original's bytes. */
  source_sha256: string;
  /** Hash of the merged file's bytes. */
  result_sha256: string;
  /** What both are encoded in. */
  encoding: string;
  /** As in the request. */
  seed: number;
  usage: UsageOut;
  /** Seconds by stage. */
  timings_s: Record<string, number>;
  /** Unified diff, where it was asked for. */
  diff: string | null;
}

/** Why decoding ended. Only `STOP` can become a successful result. */
export type FinishReason = "stop" | "length";

/** How far a deterministic merger trusts its own answer. */
export type Certainty = "certain" | "likely" | "guess";

/** Another way to merge the edit. A request with this reading's id as its `reading` gets this merge. */
export interface OtherReading {
  /** Twelve hexadecimal digits, computed from the reading's text. */
  id: string;
  /** The chance that the reading is right, as the merger estimates it. */
  probability: number;
  /** What this reading would do to the file instead: "keep line 3 (`x = 1`) and leave out `x = 2`". */
  difference: string;
  /** The unified diff from the original to this reading, if the request asks for diffs. */
  diff: string | null;
}

/** A part of an edit whose quote is not in the file, or is there several times. */
export interface Failure {
  /** The name of the part: "edit 2", "hunk 1", "block 3". */
  part: string;
  /** Up to three places that the quote may mean, the most similar first. */
  candidates: LikePlace[];
  /** The first line of the quote that differs from the most similar place; null if no line differs. */
  quoted: string | null;
  /** The line of the file at that point; null if the file has none. */
  found: string | null;
  /** The number of that line. */
  line: number | null;
  /**
   * The smallest edit with the same meaning and a correct quote, ready to be sent as `update`; null if it is not
   * clear which place is meant.
   */
  next: string | null;
}

/** Lines of the file that a quote may mean. */
export interface LikePlace {
  first: number;
  /** The first and the last line; 1-based, inclusive. */
  last: number;
  /** The share of the quote that is at this place, from 0 to 1. */
  likeness: number;
}

/** What one check found, or that it passed. */
export interface Verdict {
  /** The check's name. */
  check: string;
  severity: "pass" | "warning" | "error";
  /** What the check found; empty if it passed. */
  message: string;
  /** The first and last line that the verdict is about; 1-based, inclusive. */
  lines: [number, number] | null;
  /** The text that has these lines. */
  side: "merged" | "original";
  /** The question to ask a person, for a doubt; `message` tells a model what to show. */
  question: string;
}

/** A text edit in the form of the Language Server Protocol, and the byte columns of the same places. */
export interface TextEdit {
  /** `start` and `end`, each `line` (0-based) and `character` (UTF-16 code units). */
  range: TextRange;
  /** The text that replaces the range. */
  newText: string;
  /** `start` and `end`, each as the number of UTF-8 bytes before the place in its line. */
  utf8_columns: Utf8Columns;
}

export interface TextRange {
  start: Position;
  end: Position;
}

/** A place in the source, counted as in the Language Server Protocol, from 0. */
export interface Position {
  line: number;
  /** The number of UTF-16 code units before the place in its line. */
  character: number;
}

export interface Utf8Columns {
  start: number;
  end: number;
}

/** One stretch of changed lines (0-based, half-open, counted as in editors), and how likely it is right. */
export interface Hunk {
  /** First line of the original; if lines are only added, the line after them. */
  original_start: number;
  original_end: number;
  /** First line of the merged text. */
  merged_start: number;
  merged_end: number;
  /** The index in `edits` of the hunk's first edit. */
  first_edit: number;
  /** One past the index of the hunk's last edit. */
  end_edit: number;
  /**
   * The chance that the hunk is right; null if there is no figure. `confidence_kind` tells what kind of figure it is.
   * If a program decided, it is the chance of all readings that change these lines in the same way. If a target
   * decided, it follows from the target's lowest probability at a decision in these lines or the next.
   */
  confidence: number | null;
}

/** Lines `start_line..end_line` (0-based, half-open) of the merged text, and where they come from. */
export interface Span {
  start_line: number;
  end_line: number;
  /** The file, the edit, or the model's own words. */
  origin: "original" | "update" | "model";
}

/** Lines `start_line..end_line` (0-based, half-open) of the original. */
export interface LineRange {
  start_line: number;
  end_line: number;
}

/**
 * Counts of the decode; all 0 if no model took part. A count is null if a remote server does not report it. If the
 * server does not report prompt and completion, these counts are 0 and the verdict `usage` says so.
 */
export interface UsageOut {
  prompt_tokens: number;
  /** Prompt tokens whose keys and values the prefix cache had. */
  cached_prompt_tokens: number | null;
  /** Generated, drafted ones included. */
  completion_tokens: number;
  /** Prompt and completion. */
  total_tokens: number;
  /** Drafted tokens that were accepted. */
  accepted_prediction_tokens: number | null;
  /** Drafted tokens that were not. */
  rejected_prediction_tokens: number | null;
  /** Accepted tokens by the source of their draft. */
  accepted_by_source: Record<string, number> | null;
  /** Forward passes over generated positions. */
  passes: number | null;
  /** Forward passes that only read the prompt. */
  prefill_passes: number | null;
  /** Passes that accepted fewer tokens than were drafted. */
  rejections: number | null;
}

/** The outcome for each file. */
export interface BatchAnswer {
  mode: "all_or_nothing" | "independent";
  /** `applied`: every file is ok; `partial`: some are; `refused`: none is. */
  status: "applied" | "partial" | "refused";
  /** In the order of the edits, or of the patch. */
  items: BatchItem[];
}

/** One file of the batch. */
export interface BatchItem {
  /** Its name after; of a deleted file its name before. */
  path: string | null;
  /** Its name before; null for a new file. */
  source: string | null;
  /** What happens to it. */
  action: "create" | "modify" | "delete" | "rename" | "copy" | "mode";
  /** git's mode (`100755`), where a patch sets one. */
  new_mode: string | null;
  /** `withheld`: it is well, but another one failed. */
  status: "ok" | "failed" | "withheld";
  /** What every check found, whatever the status. */
  verdicts: Verdict[];
  /** As of `POST /v1/apply`; null unless ok, and of a deleted file. */
  answer: NativeAnswer | null;
  /** Why it failed. */
  error: ErrorDetail | null;
  /** The whole change, names and mode included, where it was asked for. */
  diff: string | null;
}

export interface ErrorDetail {
  code: string;
  message: string;
  /** What offended. */
  value: unknown;
  /** What would have been allowed. */
  limit: unknown;
  remedy: string;
  /** What an edit that is not clear may mean, likeliest first; only there. `reading` takes one. */
  readings: OtherReading[];
  /** The parts of an edit whose quotes do not fit; only there. */
  failures: Failure[];
  /** SHA-256 of the file that the failures speak of; only beside them. */
  source_sha256: string | null;
}

export interface ModelList {
  object: "list";
  data: ModelCard[];
}

export interface ModelCard {
  id: string;
  object: "model";
  created: number;
  owned_by: string;
  /** The model that answers for this name; null where it is one. */
  alias_of: string | null;
}

export interface Readiness {
  status: string;
  model: string;
  models: string[];
  n_active: number;
  queue_length: number;
  queue_limit: number;
}

/** Every error has this shape. */
export interface ErrorBody {
  error: ErrorDetail;
}

/** Every code that an error of the service can have. */
export type ErrorCode =
  | "altered_bytes"
  | "ambiguous_tags"
  | "bad_encoding"
  | "bad_request"
  | "bad_result"
  | "bad_setting"
  | "cancelled"
  | "check_failed"
  | "context_limit"
  | "deadline_exceeded"
  | "edit_conflict"
  | "empty_update"
  | "engine_failure"
  | "error"
  | "exchanged"
  | "file_changed"
  | "file_error"
  | "file_not_readable"
  | "file_not_writable"
  | "instruction_unsupported"
  | "invalid_field"
  | "malformed_edit"
  | "method_not_allowed"
  | "missing_dependency"
  | "model_error"
  | "model_not_loadable"
  | "model_too_large"
  | "needs_more_context"
  | "no_backup"
  | "not_an_edit"
  | "not_found"
  | "not_ready"
  | "nul_byte"
  | "origin_refused"
  | "outside_roots"
  | "overloaded"
  | "rate_limited"
  | "remote_code_refused"
  | "remote_failure"
  | "request_timeout"
  | "service_error"
  | "stale_base"
  | "stream_replaced"
  | "too_large"
  | "truncated"
  | "unauthorized"
  | "unknown_drafter"
  | "unknown_edit_format"
  | "unknown_field"
  | "unknown_model"
  | "unknown_reading"
  | "unreachable"
  | "unrelated"
  | "unsupported_media_type"
  | "unsupported_parameter";

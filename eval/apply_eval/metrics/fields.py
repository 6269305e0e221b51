"""Every field of a contestant's summary, explained once: documentation, report and tests read this table."""

from __future__ import annotations

from collections.abc import Mapping

SUMMARY_FIELDS: Mapping[str, str] = {
    "n_total": "samples of the run",
    "n_scored": "samples with an answer or a refusal; the ones that count",
    "n_failed": "samples that are missing: the transport failed, or the run was stopped before them; not scored",
    "n_answered": "samples with an answer",
    "n_refused": "samples with a typed error in place of an answer; scored as not exact, never silent",
    "n_crashed": "samples on which the contestant crashed; scored as not exact, never silent",
    "errors": "how often each error code came",
    "exact_match": "share of scored samples whose answer is right to the last byte",
    "same_but_blanks": "share of answers that are right apart from white space at line ends and blank lines",
    "same_but_misquotes": "share of answers that are right apart from blank lines and misquoted context",
    "same_tree": "share of answers with the wanted syntax tree, of those a grammar can tell",
    "edit_similarity": "mean over answers of 1 less the Levenshtein distance to the wanted text, as a share",
    "change_similarity": "mean over answers of how much of the wanted change (removed and added lines) they share",
    "syntax_kept": "share of answers that parse, of those whose file parsed before and should after",
    "lines_outside": "mean over answers of wrong lines away from the edit",
    "touched_outside": "share of answers with a wrong line away from the edit",
    "silent_errors": "share of scored samples with a wrong answer, no finding, and no confidence under the threshold",
    "alarm_recall": "share of wrong answers that were flagged by a finding or low confidence",
    "alarm_precision": "share of flagged answers that were wrong",
    "false_alarms": "share of right answers that were flagged",
    "calibration": "of answers with a confidence: `n`, `error` (expected calibration error), `brier`, `ranking` (area "
    "under the ROC curve), `bins` of equal width and `deciles` of equally many answers (low, high, n, mean confidence, "
    "exact match)",
    "risk": "of scored samples: `curve` (threshold, n applied, n wrong, coverage, share wrong of the applied), "
    "`coverage_at` 1% and 2% wrong with the threshold that gives it, `at_threshold` (what is applied, wrong, or right "
    "and below the run's confidence threshold). An answer without a confidence counts as sure where no check found "
    "anything, else as 0; a refused sample is never applied",
    "coverage_at_1pct": "share of scored samples that can be applied by confidence at 1% wrong among them at most",
    "applied": "share of scored samples at or above the confidence threshold",
    "applied_wrong": "share of these that is wrong",
    "strategies": "how often each strategy decided",
    "tok_s": "median over decoded samples of generated tokens a second of decoding (prefill not counted; a service "
    "that does not tell them apart: of the whole latency)",
    "chars_s": "median over answers of characters of the file a second, from the request to the last byte",
    "latency_p50_s": "median latency of an answer, all stages",
    "latency_p95_s": "95th percentile",
    "latency_p99_s": "99th percentile",
    "ttft_p50_s": "median time to the first text",
    "tokens_per_edit": "mean generated tokens of decoded samples",
    "passes_per_edit": "mean forward passes over generated tokens of decoded samples",
    "rejections_per_edit": "mean passes that accepted less than they drafted, of decoded samples",
    "tokens_per_pass": "generated tokens over passes, all samples together",
    "acceptance_rate": "accepted over drafted tokens, all samples together",
    "origin_shares": "share of generated tokens accepted from each draft source; `target`: the target's own",
    "speedup_vs_plain": "median over samples of tok_s over that of `plain` on the same sample in the same run",
    "speedup_end_to_end": "median over samples of the latency of `plain` over this one's",
    "throughput_tok_s": "generated tokens over seconds on the wall, at the run's concurrency, all stages",
    "throughput_chars_s": "characters of the answers over the same seconds",
    "cost_per_1m_tokens": "price of a million generated tokens at that throughput, from --price-per-hour",
    "cost_per_1k_edits": "price of a thousand edits at that throughput",
    "intervals": "95% intervals by field: bootstrap over samples (2,000 draws); Wilson's for a share of 0 or 1",
    "by_language": "the main fields for each language",
    "by_size": "the same for each class of lines before the edit",
    "by_kind": "the same for each kind of edit",
    "by_tag": "the same for each tag; a sample may have several",
    "by_style": "the same for each style of snippet, where the data set names them",
}

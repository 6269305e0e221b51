"""From the rows of a run to `summary[NAME]`: one dictionary a contestant, its fields as in docs/evaluation.md.

Pure and deterministic: the same rows and seed give the same summary, whenever and in whatever order they were measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apply_eval.datasets import SIZES
from apply_eval.rows import RunRow, SampleFacts
from apply_eval.statistics import (
    CONFIDENCE_THRESHOLD,
    Interval,
    Judged,
    calibration_figures,
    is_flagged,
    is_silent_error,
    mean,
    mean_interval,
    median,
    median_interval,
    paired_ratios,
    percentile,
    ratio_interval,
    risk_figures,
    share_interval,
    share_of,
)
from apply_service.errors import DeadlineExceeded

PLAIN = "plain"
UNDRAFTED_PEER = "hf-plain"
"""Another undrafted run of the same target: where it takes part, `plain` is the faster of the two, sample by sample."""


@dataclass(frozen=True, slots=True)
class SummaryOptions:
    """What a summary depends on beside the rows."""

    seed: int = 0
    confidence_threshold: float = CONFIDENCE_THRESHOLD
    price_per_hour: float | None = None


def summarise(
    rows: Sequence[RunRow],
    facts: Sequence[SampleFacts],
    names: Sequence[str],
    options: SummaryOptions,
) -> dict[str, dict[str, Any]]:
    """`summary`: every contestant's figures by name."""
    cells = {name: {row.id: row for row in sorted(rows, key=lambda row: row.id) if row.name == name} for name in names}
    plain, peer = dict(cells.get(PLAIN, {})), cells.get(UNDRAFTED_PEER, {})
    for name, row in plain.items():
        if name in peer and (peer[name].tok_s or 0.0) > (row.tok_s or 0.0):
            plain[name] = peer[name]
    if PLAIN in cells:
        cells[PLAIN] = plain
    return {
        name: _figures(found, plain, options) | _counts(found, len(facts)) | _groups(found, plain, facts, options)
        for name, found in cells.items()
    }


def _counts(cells: Mapping[str, RunRow], n_total: int) -> dict[str, Any]:
    rows = cells.values()
    outcomes, n_scored = Counter(row.outcome for row in rows), sum(row.is_scored for row in rows)
    return {
        "n_total": n_total,
        "n_scored": n_scored,
        "n_failed": n_total - n_scored,
        "n_answered": outcomes["answered"],
        "n_refused": outcomes["refused"],
        "n_late": sum(row.is_scored and row.error == DeadlineExceeded.code for row in rows),
        "n_crashed": outcomes["crashed"],
        "errors": dict(Counter(row.error for row in rows if row.error is not None).most_common()),
        "strategies": dict(Counter(row.strategy for row in rows if row.strategy is not None).most_common()),
    }


def _figures(cells: Mapping[str, RunRow], plain: Mapping[str, RunRow], options: SummaryOptions) -> dict[str, Any]:
    answered = [row for row in cells.values() if row.outcome == "answered"]
    main, intervals = _main_figures(cells, plain, options)
    passes, more = _pass_figures([row for row in answered if row.is_decoded], options.seed)
    latency_s = _known(answered, "latency_s")
    throughput = share_of(sum(_known(answered, "n_tokens")), sum(latency_s)) or None
    scores = ("same_but_blanks", "same_but_misquotes", "same_tree", "equivalent", "edit_similarity", "syntax_kept")
    return {
        **main,
        # Where a scorer could not tell, the answer is left out of the mean.
        **{name: mean(_known(answered, name)) for name in scores},
        "touched_outside": mean([float(n > 0) for n in _known(answered, "lines_outside")]),
        **_trust_figures(cells, answered, options),
        **passes,
        "throughput_tok_s": throughput,
        "cost_per_million_tokens": cost_per_million(throughput, options.price_per_hour),
        "latency_p95_s": percentile(latency_s, 0.95),
        "latency_p99_s": percentile(latency_s, 0.99),
        "ttft_p50_s": median(_known(answered, "ttft_s")),
        "intervals": _as_lists(intervals | more),
    }


def _main_figures(
    cells: Mapping[str, RunRow], plain: Mapping[str, RunRow], options: SummaryOptions
) -> tuple[dict[str, Any], dict[str, Interval | None]]:
    """The fields that are also given by group, and their intervals."""
    scored = [row for row in cells.values() if row.is_scored]
    answered = [row for row in scored if row.outcome == "answered"]
    threshold = options.confidence_threshold
    shares = {
        "exact_match": [row.exact for row in scored],
        "right_unseen": [row.exact and not is_flagged(row.findings, row.confidence, threshold) for row in scored],
        "silent_errors": [is_silent(row, threshold) for row in scored],
    }
    medians = {
        "tok_s": _known(answered, "tok_s"),
        "chars_s": [row.n_chars / row.latency_s for row in answered if row.n_chars is not None and row.latency_s],
        "latency_p50_s": _known(answered, "latency_s"),
        "speedup_vs_plain": paired_ratios(_by_id(cells, "tok_s"), _by_id(plain, "tok_s")),
        "speedup_end_to_end": paired_ratios(_by_id(plain, "latency_s"), _by_id(cells, "latency_s")),
    }
    figures: dict[str, Any] = {"n_scored": len(scored)}
    figures |= {name: mean([float(hit) for hit in hits]) for name, hits in shares.items()}
    figures |= {name: median(values) for name, values in medians.items()}
    intervals = {name: share_interval(hits, seed=options.seed) for name, hits in shares.items()}
    intervals |= {name: median_interval(values, seed=options.seed) for name, values in medians.items()}
    return figures, intervals


def _trust_figures(cells: Mapping[str, RunRow], answered: Sequence[RunRow], options: SummaryOptions) -> dict[str, Any]:
    """Flags as an alarm for wrong answers, confidence as a probability, and what may be applied on its word."""
    # An answer without a confidence (a program's, another service's) counts as sure where no check found anything.
    samples = [
        Judged(None, False)
        if row.outcome != "answered"
        else Judged(float(not row.findings) if row.confidence is None else row.confidence, row.exact)
        for row in cells.values()
        if row.is_scored
    ]
    risk = risk_figures(samples, threshold=options.confidence_threshold, seed=options.seed)
    flagged = [(is_flagged(row.findings, row.confidence, options.confidence_threshold), row.exact) for row in answered]
    return {
        "alarm_recall": mean([float(flag) for flag, is_right in flagged if not is_right]),
        "false_alarms": mean([float(flag) for flag, is_right in flagged if is_right]),
        "calibration": calibration_figures([Judged(row.confidence, row.exact) for row in answered]),
        "risk": risk,
        "coverage_at_1pct": risk["coverage_at"]["0.01"]["coverage"] if samples else None,
        "applied": risk["at_threshold"]["coverage"],
        "applied_wrong": risk["at_threshold"]["wrong"],
    }


def is_silent(row: RunRow, threshold: float) -> bool:
    """Whether a row is a silent error; a refusal or a crash is a loud one."""
    if row.outcome != "answered":
        return False
    return is_silent_error(is_exact=row.exact, flagged=is_flagged(row.findings, row.confidence, threshold))


def _pass_figures(decoded: Sequence[RunRow], seed: int) -> tuple[dict[str, Any], dict[str, Interval | None]]:
    passes, rejections = _known(decoded, "passes"), _known(decoded, "rejections")
    tokens = _known(decoded, "n_tokens")
    drafted = [(float(r.n_accepted), float(r.n_drafted)) for r in decoded if r.n_drafted and r.n_accepted is not None]
    timed = [row for row in decoded if row.passes]
    n_passes = sum(row.passes or 0 for row in timed)
    figures = {
        "tokens_per_edit": mean(tokens),
        "passes_per_edit": mean(passes),
        "rejections_per_edit": mean(rejections),
        "tokens_per_pass": share_of(sum(row.n_tokens or 0 for row in timed), n_passes),
        "tokens_per_pass_expected": expected_tokens_per_pass(timed),
        "acceptance_rate": share_of(sum(a for a, _ in drafted), sum(d for _, d in drafted)),
        "origin_shares": share_by_source([row.accepted_by_source for row in decoded], int(sum(tokens))),
    }
    return figures, {
        "passes_per_edit": mean_interval(passes, seed=seed),
        "rejections_per_edit": mean_interval(rejections, seed=seed),
        "acceptance_rate": ratio_interval(drafted, seed=seed),
    }


def expected_tokens_per_pass(rows: Iterable[RunRow]) -> float | None:
    """What Y. Leviathan and others' formula ("Fast inference from transformers via speculative decoding", 2023)
    expects: (1 - a^(k+1)) / (1 - a), where k tokens are drafted a pass and each is accepted with the chance a.

    A rejection ends a pass, so a is counted as accepted over accepted and rejections.  None where rows do not tell.
    """
    names = ("n_accepted", "n_drafted", "rejections", "passes")
    told = [[getattr(row, name) for name in names] for row in rows]
    known = [counts for counts in told if None not in counts]
    if not known:
        return None
    accepted, drafted, rejections, passes = map(sum, zip(*known, strict=True))
    chance, size = share_of(accepted, accepted + rejections) or 0.0, drafted / passes
    return float(size + 1) if chance == 1 else float((1 - chance ** (size + 1)) / (1 - chance))


def cost_per_million(tok_s: float | None, price_per_hour: float | None) -> float | None:
    """What a million tokens cost on a machine of this price that does nothing else."""
    return None if price_per_hour is None or not tok_s else price_per_hour / 3600 / tok_s * 1e6


# -- groups ------------------------------------------------------------------------------------------------------------
KEPT_BY_GROUP = ("exact_match", "right_unseen", "silent_errors", "speedup_vs_plain")
"""Figures whose intervals are given by group."""
WAYS: Mapping[str, Callable[[SampleFacts], Sequence[str]]] = {
    "by_language": lambda fact: (fact.language,),
    "by_size": lambda fact: (fact.size,),
    "by_kind": lambda fact: (fact.kind,),
    "by_tag": lambda fact: fact.tags,
    "by_style": lambda fact: (fact.style,) if fact.style else (),
}


def _groups(
    cells: Mapping[str, RunRow], plain: Mapping[str, RunRow], facts: Sequence[SampleFacts], options: SummaryOptions
) -> dict[str, dict[str, Any]]:
    sizes = [name for name, _ in SIZES]
    found: dict[str, dict[str, Any]] = {}
    for way, keys_of in WAYS.items():
        members: dict[str, list[str]] = {}
        for fact in facts:
            for key in keys_of(fact):
                members.setdefault(key, []).append(fact.id)
        order = sorted(members, key=lambda key: (sizes.index(key) if key in sizes else -len(members[key]), key))
        found[way] = {}
        for key in order:
            figures, intervals = _main_figures({i: cells[i] for i in members[key] if i in cells}, plain, options)
            del figures["speedup_end_to_end"]
            kept = {name: intervals[name] for name in KEPT_BY_GROUP}
            found[way][key] = figures | {"intervals": _as_lists(kept)}
    return found


# -- rows to numbers ---------------------------------------------------------------------------------------------------
def share_by_source(counts: Iterable[Mapping[str, int]], n_tokens: int) -> dict[str, float]:
    """Of all generated tokens, the share that was accepted from each draft source; what is left (`target`) the target
    wrote itself.  Empty where nothing was generated."""
    if not n_tokens:
        return {}
    totals: Counter[str] = Counter()
    for by_source in counts:
        totals.update(by_source)
    return {source: n / n_tokens for source, n in totals.most_common()} | {"target": 1 - totals.total() / n_tokens}


def _known(rows: Iterable[RunRow], name: str) -> list[float]:
    """The field of every row that has it."""
    return [float(value) for row in rows if (value := getattr(row, name)) is not None]


def _by_id(cells: Mapping[str, RunRow], name: str) -> dict[str, float]:
    return {
        at: float(value)
        for at, row in cells.items()
        if row.outcome == "answered" and (value := getattr(row, name)) is not None
    }


def _as_lists(intervals: Mapping[str, Interval | None]) -> dict[str, list[float]]:
    return {name: list(interval) for name, interval in intervals.items() if interval is not None}

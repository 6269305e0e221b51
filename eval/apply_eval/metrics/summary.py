"""From the rows of a run to `summary[NAME]`: one dictionary a contestant, its fields as in `metrics.fields`.

Pure and deterministic: the same rows and seed give the same summary, whenever and in whatever order they were measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from apply_eval.merge_runner import SIZES
from apply_eval.metrics.calibration import alarm_quality
from apply_eval.metrics.intervals import Interval, mean_interval, quantile_interval, ratio_interval, share_interval
from apply_eval.metrics.risk import Judged, calibration_figures, risk_figures
from apply_eval.metrics.speed import cost_per_million, mean, median, paired_ratios, percentile, share_by_source
from apply_eval.running.rows import RunRow, SampleFacts
from apply_eval.running.rows_file import Block
from apply_eval.scorers.trust import CONFIDENCE_THRESHOLD, is_flagged, is_silent_error

PLAIN = "plain"
UNDRAFTED_PEER = "hf-plain"
"""Another undrafted run of the same target: where it takes part, `plain` is the faster of the two, sample by sample."""


@dataclass(frozen=True, slots=True)
class SummaryOptions:
    """What a summary depends on beside the rows."""

    seed: int = 0
    price_per_hour: float | None = None
    confidence_threshold: float = CONFIDENCE_THRESHOLD


def summarise(
    rows: Sequence[RunRow],
    blocks: Sequence[Block],
    facts: Sequence[SampleFacts],
    names: Sequence[str],
    options: SummaryOptions,
) -> dict[str, dict[str, Any]]:
    """`summary`: every contestant's figures by name."""
    cells: dict[str, Mapping[str, RunRow]] = {
        name: collapse([row for row in rows if row.name == name]) for name in names
    }
    plain = _fastest(cells.get(PLAIN, {}), cells.get(UNDRAFTED_PEER, {}))
    if PLAIN in cells:
        cells[PLAIN] = plain
    return {
        name: _figures(found, plain, options)
        | _counts(found, len(facts))
        | _throughput([block for block in blocks if block.name == name], options)
        | _groups(found, plain, facts, options)
        for name, found in cells.items()
    }


def _fastest(ours: Mapping[str, RunRow], theirs: Mapping[str, RunRow]) -> dict[str, RunRow]:
    """Our undrafted run, but for the samples that the other one decoded faster."""
    return {
        name: theirs[name] if name in theirs and (theirs[name].tok_s or 0.0) > (row.tok_s or 0.0) else row
        for name, row in ours.items()
    }


def collapse(rows: Iterable[RunRow]) -> dict[str, RunRow]:
    """One row a sample: the first scored repeat, with the medians of all repeats' times."""
    by_id: dict[str, list[RunRow]] = {}
    for row in sorted(rows, key=lambda row: row.repeat):
        by_id.setdefault(row.id, []).append(row)
    return {name: _collapse_one(found) for name, found in sorted(by_id.items())}


def _collapse_one(rows: Sequence[RunRow]) -> RunRow:
    scored = [row for row in rows if row.is_scored] or rows
    times = {
        name: median([value for row in scored if (value := getattr(row, name)) is not None])
        for name in ("latency_s", "ttft_s", "tok_s")
    }
    return replace(scored[0], **times)  # type: ignore[arg-type]


# -- counts ------------------------------------------------------------------------------------------------------------
def _counts(cells: Mapping[str, RunRow], n_total: int) -> dict[str, Any]:
    outcomes = Counter(row.outcome for row in cells.values())
    n_scored = sum(row.is_scored for row in cells.values())
    return {
        "n_total": n_total,
        "n_scored": n_scored,
        "n_failed": n_total - n_scored,
        "n_answered": outcomes["answered"],
        "n_refused": outcomes["refused"],
        "n_crashed": outcomes["crashed"],
        "errors": dict(Counter(row.error for row in cells.values() if row.error is not None).most_common()),
        "strategies": dict(Counter(row.strategy for row in cells.values() if row.strategy is not None).most_common()),
    }


# -- figures -----------------------------------------------------------------------------------------------------------
def _figures(cells: Mapping[str, RunRow], plain: Mapping[str, RunRow], options: SummaryOptions) -> dict[str, Any]:
    answered = [row for row in cells.values() if row.outcome == "answered"]
    main, intervals = _main_figures(cells, plain, options)
    passes, more = _pass_figures([row for row in answered if row.is_decoded], options.seed)
    return {
        **main,
        **_text_figures(answered),
        **_trust_figures(answered, options),
        **_risk(cells, options),
        **passes,
        "latency_p95_s": percentile(_known(answered, "latency_s"), 0.95),
        "latency_p99_s": percentile(_known(answered, "latency_s"), 0.99),
        "ttft_p50_s": median(_known(answered, "ttft_s")),
        "intervals": _as_lists(intervals | more),
    }


def _main_figures(
    cells: Mapping[str, RunRow], plain: Mapping[str, RunRow], options: SummaryOptions
) -> tuple[dict[str, Any], dict[str, Interval | None]]:
    """The fields that are also given by group, and their intervals."""
    scored = [row for row in cells.values() if row.is_scored]
    answered = [row for row in scored if row.outcome == "answered"]
    exact = [row.exact for row in scored]
    silent = [is_silent(row, options.confidence_threshold) for row in scored]
    tok_s, latency_s = _known(answered, "tok_s"), _known(answered, "latency_s")
    chars_s = [row.n_chars / row.latency_s for row in answered if row.n_chars is not None and row.latency_s]
    speedups = paired_ratios(_by_id(cells, "tok_s"), _by_id(plain, "tok_s"))
    end_to_end = paired_ratios(_by_id(plain, "latency_s"), _by_id(cells, "latency_s"))
    seed = options.seed
    figures = {
        "n_scored": len(scored),
        "exact_match": mean([float(hit) for hit in exact]),
        "silent_errors": mean([float(hit) for hit in silent]),
        "tok_s": median(tok_s),
        "chars_s": median(chars_s),
        "latency_p50_s": median(latency_s),
        "speedup_vs_plain": median(speedups),
        "speedup_end_to_end": median(end_to_end),
    }
    return figures, {
        "exact_match": share_interval(exact, seed=seed),
        "silent_errors": share_interval(silent, seed=seed),
        "tok_s": quantile_interval(tok_s, 0.5, seed=seed),
        "chars_s": quantile_interval(chars_s, 0.5, seed=seed),
        "latency_p50_s": quantile_interval(latency_s, 0.5, seed=seed),
        "speedup_vs_plain": quantile_interval(speedups, 0.5, seed=seed),
        "speedup_end_to_end": quantile_interval(end_to_end, 0.5, seed=seed),
    }


def _risk(cells: Mapping[str, RunRow], options: SummaryOptions) -> dict[str, Any]:
    samples = [_judged(row) for row in cells.values() if row.is_scored]
    risk = risk_figures(samples, threshold=options.confidence_threshold, seed=options.seed)
    return {
        "risk": risk,
        "coverage_at_1pct": risk["coverage_at"]["0.01"]["coverage"] if samples else None,
        "applied": risk["at_threshold"]["coverage"],
        "applied_wrong": risk["at_threshold"]["wrong"],
    }


def _judged(row: RunRow) -> Judged:
    """An answer without a confidence (a program's, another service's) is doubted where a check found something, and
    else by nobody."""
    if row.outcome != "answered":
        return Judged(None, False)
    return Judged(float(not row.findings) if row.confidence is None else row.confidence, row.exact)


def is_silent(row: RunRow, threshold: float) -> bool:
    """Whether a row is a silent error; a refusal or a crash is a loud one."""
    if row.outcome != "answered":
        return False
    return is_silent_error(is_exact=row.exact, flagged=is_flagged(row.findings, row.confidence, threshold))


def _text_figures(answered: Sequence[RunRow]) -> dict[str, float | None]:
    """Means over answers; where a scorer could not tell, the answer is left out."""
    names = (
        "same_but_blanks",
        "same_but_misquotes",
        "same_tree",
        "edit_similarity",
        "change_similarity",
        "syntax_kept",
        "lines_outside",
    )
    outside = [float(n > 0) for n in _known(answered, "lines_outside")]
    return {name: mean(_known(answered, name)) for name in names} | {"touched_outside": mean(outside)}


def _trust_figures(answered: Sequence[RunRow], options: SummaryOptions) -> dict[str, Any]:
    flags = [is_flagged(row.findings, row.confidence, options.confidence_threshold) for row in answered]
    quality = alarm_quality(flags, [row.exact for row in answered])
    return {
        "alarm_recall": quality.recall,
        "alarm_precision": quality.precision,
        "false_alarms": quality.false_alarms,
        "calibration": calibration_figures([Judged(row.confidence, row.exact) for row in answered]),
    }


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
        "tokens_per_pass": sum(row.n_tokens or 0 for row in timed) / n_passes if n_passes else None,
        "acceptance_rate": sum(a for a, _ in drafted) / sum(d for _, d in drafted) if drafted else None,
        "origin_shares": share_by_source([row.accepted_by_source for row in decoded], int(sum(tokens))),
    }
    return figures, {
        "passes_per_edit": mean_interval(passes, seed=seed),
        "rejections_per_edit": mean_interval(rejections, seed=seed),
        "acceptance_rate": ratio_interval(drafted, seed=seed),
    }


def _throughput(blocks: Sequence[Block], options: SummaryOptions) -> dict[str, float | None]:
    """Over the blocks in which every request came back."""
    whole = [block for block in blocks if block.wall_s > 0 and all(row.is_scored for row in block.rows)]
    wall_s = sum(block.wall_s for block in whole)
    rows = [row for block in whole for row in block.rows if row.outcome == "answered"]
    tok_s = sum(row.n_tokens or 0 for row in rows) / wall_s if wall_s else 0.0
    chars_s = sum(row.n_chars or 0 for row in rows) / wall_s if wall_s else 0.0
    price, edits_s = options.price_per_hour, len(rows) / wall_s if wall_s else 0.0
    return {
        "throughput_tok_s": tok_s or None,
        "throughput_chars_s": chars_s or None,
        "cost_per_1m_tokens": cost_per_million(price, tok_s) if price is not None and tok_s else None,
        "cost_per_1k_edits": cost_per_million(price, edits_s) / 1000 if price is not None and edits_s else None,
    }


# -- groups ------------------------------------------------------------------------------------------------------------
def _groups(
    cells: Mapping[str, RunRow], plain: Mapping[str, RunRow], facts: Sequence[SampleFacts], options: SummaryOptions
) -> dict[str, dict[str, Any]]:
    ways: dict[str, Callable[[SampleFacts], Sequence[str]]] = {
        "by_language": lambda fact: (fact.language,),
        "by_size": lambda fact: (fact.size,),
        "by_kind": lambda fact: (fact.kind,),
        "by_tag": lambda fact: fact.tags,
        "by_style": lambda fact: (fact.style,) if fact.style else (),
    }
    return {way: _by(keys_of, cells, plain, facts, options) for way, keys_of in ways.items()}


def _by(
    keys_of: Callable[[SampleFacts], Sequence[str]],
    cells: Mapping[str, RunRow],
    plain: Mapping[str, RunRow],
    facts: Sequence[SampleFacts],
    options: SummaryOptions,
) -> dict[str, Any]:
    members: dict[str, list[str]] = {}
    for fact in facts:
        for key in keys_of(fact):
            members.setdefault(key, []).append(fact.id)
    sizes = [name for name, _ in SIZES]
    order = sorted(members, key=lambda key: (sizes.index(key) if key in sizes else -len(members[key]), key))
    return {key: _group({i: cells[i] for i in members[key] if i in cells}, plain, options) for key in order}


def _group(cells: Mapping[str, RunRow], plain: Mapping[str, RunRow], options: SummaryOptions) -> dict[str, Any]:
    figures, intervals = _main_figures(cells, plain, options)
    del figures["speedup_end_to_end"]
    kept = {name: intervals[name] for name in ("exact_match", "silent_errors", "speedup_vs_plain")}
    return figures | {"intervals": _as_lists(kept)}


# -- rows to numbers ---------------------------------------------------------------------------------------------------
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

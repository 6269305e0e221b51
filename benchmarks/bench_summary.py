"""Samples -> figures by target, batch and contender: medians of speeds and times, means of counts, and paired ratios
with intervals.

`plain` is a contender of its own here: of every group of edits the faster of the undrafted candidates that ran in the
same batch.  Every speed-up divides by it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from apply_eval.metrics.intervals import quantile_interval
from benchmarks.bench_sample import Sample

PLAIN = "plain"
PLAIN_CANDIDATES = ("plain_engine", "hf_plain")
PEER = "hf_prompt_lookup"
BASELINES = (PLAIN, PEER)
"""What ratios are given against; the library's prompt lookup knows a single edit at a time."""

Key = tuple[str, int, str]
"""Target, batch, contender."""


def with_plain(samples: Sequence[Sample]) -> list[Sample]:
    """The samples, and for every group its `plain`: the candidate that decoded faster."""
    best: dict[tuple[str, int, str], Sample] = {}
    for sample in samples:
        if sample.contender in PLAIN_CANDIDATES:
            key = (sample.target, sample.batch, sample.group)
            best[key] = max(best.get(key, sample), sample, key=lambda s: s.tok_s)
    return [*(replace(sample, contender=PLAIN) for sample in best.values()), *samples]


def summarise(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """One row for every target, batch and contender, in the order in which they came, `plain` first."""
    by_key: dict[Key, list[Sample]] = {}
    for sample in sorted(with_plain(samples), key=lambda s: (s.batch, s.contender != PLAIN)):
        by_key.setdefault((sample.target, sample.batch, sample.contender), []).append(sample)
    targets = list(dict.fromkeys(sample.target for sample in samples))
    keys = sorted(by_key, key=lambda key: targets.index(key[0]))
    return [_row(key, by_key) for key in keys]


def _row(key: Key, by_key: Mapping[Key, list[Sample]]) -> dict[str, Any]:
    target, batch, contender = key
    samples = by_key[key]
    row: dict[str, Any] = {"target": target, "batch": batch, "contender": contender, "n": len(samples)}
    row |= {name: _median(of(sample) for sample in samples) for name, of in MEDIANS.items()}
    row |= _shares(samples)
    row["n_exact"] = sum(sample.n_exact for sample in samples)
    row["n_edits"] = batch * len(samples)
    if contender == PLAIN:
        row["won_by"] = _winners(
            samples, [s for name in PLAIN_CANDIDATES for s in by_key.get((target, batch, name), [])]
        )
    for baseline in BASELINES:
        ratio = _ratio(samples, by_key.get((target, batch, baseline), []))
        if ratio is not None and contender != baseline:
            row[f"vs_{baseline}"] = ratio
    return row


MEDIANS: Mapping[str, Callable[[Sample], float | None]] = {
    "tok_s": lambda s: s.tok_s,
    "decode_chars_s": lambda s: s.decode_chars_s,
    "chars_s": lambda s: s.chars_s,
    "first_token_s": lambda s: s.first_token_s,
    "end_to_end_s": lambda s: s.end_to_end_s,
}


def _shares(samples: Sequence[Sample]) -> dict[str, float | None]:
    """Counts of all samples over counts of all samples; by edit only where outputs are whole."""
    drafted = sum(s.drafted for s in samples)
    n_edits = 0 if any(s.is_capped for s in samples) else sum(s.batch for s in samples)
    is_timed = all(s.draft_s is not None for s in samples)
    return {
        "tokens_per_pass": _share(sum(s.n_tokens for s in samples), sum(s.passes for s in samples)),
        "passes_per_edit": _share(sum(s.passes for s in samples), n_edits),
        "rejections_per_edit": _share(sum(s.rejections for s in samples), n_edits),
        "acceptance": _share(sum(s.accepted for s in samples), drafted),
        "draft_us_per_token": _share(1e6 * sum(s.draft_s or 0.0 for s in samples), drafted) if is_timed else None,
    }


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 6) if whole else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 6) if known else None


def _ratio(samples: Sequence[Sample], baseline: Sequence[Sample]) -> dict[str, Any] | None:
    """Of the decoding speeds, over the groups that both ran: median, its interval (None below two), and how many."""
    speeds = {sample.group: sample.tok_s for sample in baseline}
    ratios = [sample.tok_s / speeds[sample.group] for sample in samples if sample.group in speeds]
    if not ratios:
        return None
    interval = quantile_interval(ratios, 0.5, seed=0)
    bounds = (None, None) if interval is None else (round(interval.low, 4), round(interval.high, 4))
    return {"median": round(statistics.median(ratios), 4), "low": bounds[0], "high": bounds[1], "n": len(ratios)}


def _winners(plain: Sequence[Sample], candidates: Sequence[Sample]) -> dict[str, int]:
    """How often each candidate was the faster one."""
    won = {replace(sample, contender="") for sample in plain}
    names = [sample.contender for sample in candidates if replace(sample, contender="") in won]
    return {name: names.count(name) for name in dict.fromkeys(names)}

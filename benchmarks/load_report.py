"""Samples of a load -> what ended how, the tables of latencies and stages, and whether the promises were kept."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.load_clients import CUT, Sample
from benchmarks.server_process import Gauges

PERCENTILES = (50, 90, 95, 99)
WARM_SHARE = 0.2
"""Of the run: memory is compared after it only, when caches and allocators are warm."""

WAITED = "queue and HTTP"
MAX_GROWTH = 0.1
"""Share of memory gained between the first and the last fifth of the warm part of the run: more is not flat."""


def summarise(samples: Sequence[Sample], gauges: Sequence[Gauges]) -> dict[str, Any]:
    """Everything that one phase of a load measured."""
    seconds = max((sample.ended_s for sample in samples), default=0.0)
    answered = [sample for sample in samples if sample.status == 200 and not sample.code]
    return {
        "n_requests": len(samples),
        "ended": dict(sorted(Counter(_ending(sample) for sample in samples).items())),
        "seconds": round(seconds, 1),
        "answers_per_s": round(len(answered) / seconds, 3) if seconds else 0.0,
        "latency_s": {kind: _latencies(answered, kind) for kind in ("whole", "stream", "deadline", "gone")},
        "first_event_s": _percentiles(s.first_s for s in answered if s.kind == "stream" and s.first_s is not None),
        "late_by_s": _percentiles(
            sample.seconds - sample.deadline_s
            for sample in samples
            if sample.code == "deadline_exceeded" and sample.deadline_s is not None
        ),
        "stages_s": _stages(answered),
        "n_refused": sum(sample.status == 429 for sample in samples),
        "memory_mb": memory(gauges),
        "max_queue_length": max((gauge.queue_length for gauge in gauges), default=0),
        "max_active": max((gauge.n_active for gauge in gauges), default=0),
        "max_open_files": max((gauge.n_files for gauge in gauges), default=0),
        "gauges": [list(gauge) for gauge in gauges],
    }


def faults(samples: Iterable[Sample]) -> list[str]:
    """What must not happen, one entry a time it did."""
    return [fault for sample in samples if (fault := _fault(sample))]


def _fault(sample: Sample) -> str:
    """A 5xx that is no asked-for deadline, an unreadable answer, a connection that broke, a refusal without
    `Retry-After`; empty where all is well."""
    if sample.code == "deadline_exceeded" and sample.deadline_s is not None:
        return ""
    if sample.status == CUT:
        return _ending(sample) if sample.code or sample.kind != "gone" else ""
    if sample.status == 429 and not sample.has_retry_after:
        return "429 without Retry-After"
    return _ending(sample) if sample.status >= 500 or sample.code in ("unreadable", "engine_failure") else ""


def memory(gauges: Sequence[Gauges]) -> dict[str, float] | None:
    """Resident memory in the first and the last fifth of the warm part, in MiB; None where the run was too short."""
    warm = gauges[int(len(gauges) * WARM_SHARE) :]
    n_fifth = len(warm) // 5
    if n_fifth < 2:
        return None
    first = statistics.median(gauge.memory_mb for gauge in warm[:n_fifth])
    last = statistics.median(gauge.memory_mb for gauge in warm[-n_fifth:])
    return {"first": first, "last": last, "growth": round(last - first, 1), "max": max(g.memory_mb for g in gauges)}


def latency_table(summary: Mapping[str, Any]) -> str:
    """Latencies of the answered requests as Markdown."""
    first = {"first event of a stream": summary["first_event_s"], "late by": summary["late_by_s"]}
    return _table("request", {**summary["latency_s"], **first})


def stage_table(summary: Mapping[str, Any]) -> str:
    """Where the time of the answered requests went, as Markdown."""
    return _table("stage", summary["stages_s"])


def _table(head: str, rows: Mapping[str, Mapping[str, float] | None]) -> str:
    lines = [
        f"| {head} | n | {' | '.join(f'p{p} s' for p in PERCENTILES)} | max s |",
        "| --- " * (3 + len(PERCENTILES)) + "|",
    ]
    for name, numbers in rows.items():
        if numbers is not None:
            cells = [numbers["n"], *(numbers[f"p{p}"] for p in PERCENTILES), numbers["max"]]
            lines.append(f"| {name} | {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join(lines)


def _stages(answered: Sequence[Sample]) -> dict[str, Any]:
    """By stage as the answers state them, and what the client waited besides: in the queue, and for HTTP."""
    found: dict[str, list[float]] = {}
    for sample in answered:
        if "total_s" in sample.stages:
            found.setdefault(WAITED, []).append(sample.seconds - sample.stages["total_s"])
        for stage, seconds in sample.stages.items():
            found.setdefault(stage.removesuffix("_s"), []).append(seconds)
    return {stage: _percentiles(values) for stage, values in found.items()}


def _ending(sample: Sample) -> str:
    if sample.status == CUT:
        return f"cut {sample.code or 'by the client'}"
    return f"{sample.status} {sample.code}".strip()


def _latencies(samples: Iterable[Sample], kind: str) -> dict[str, float] | None:
    return _percentiles(sample.seconds for sample in samples if sample.kind == kind)


def _percentiles(values: Iterable[float]) -> dict[str, float] | None:
    """By nearest rank; None of no values."""
    ordered = sorted(values)
    if not ordered:
        return None
    numbers = {f"p{p}": round(ordered[-(-len(ordered) * p // 100) - 1], 4) for p in PERCENTILES}
    return {"n": len(ordered), **numbers, "max": round(ordered[-1], 4)}

"""The section of each sample: who answered what, where the drafts came from, and what a wrong answer got wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from apply_eval.metrics.summary import is_silent
from apply_eval.report.numbers import count, rate, seconds, share
from apply_eval.report.strips import strip
from apply_eval.running.results import RunResults
from apply_eval.running.rows import RunRow, SampleFacts

MAX_WITH_STRIPS = 250
"""Samples beyond this many show strips of the last contestant alone: the page stays small enough to open."""


class DiffLine(NamedTuple):
    """`kind`: minus, plus, at, or same."""

    kind: str
    text: str


class WrongAnswer(NamedTuple):
    """One wrong answer, and all who gave it."""

    names: str
    lines: tuple[DiffLine, ...]


class Line(NamedTuple):
    """A contestant's line in a sample's table; `verdict` is also its class."""

    name: str
    verdict: str
    detail: str
    cells: tuple[str, ...]
    strip: str


class Sample(NamedTuple):
    """A section."""

    anchor: str
    facts: SampleFacts
    verdict: str
    """The worst of its answers: silent, wrong, refused, missing, or exact."""
    lines: tuple[Line, ...]
    wrong: tuple[WrongAnswer, ...]


ORDER = ("silent", "wrong", "crashed", "refused", "missing", "exact")
HEADINGS = ("latency", "tok/s", "passes", "rejections", "confidence")


def samples(results: RunResults) -> list[Sample]:
    """Every sample, the worst first, then in order of the data."""
    threshold = results.values["summary_options"]["confidence_threshold"]
    by_id: dict[str, list[RunRow]] = {}
    for row in results.rows:
        if row.repeat == 0:
            by_id.setdefault(row.id, []).append(row)
    many = len(by_id) > MAX_WITH_STRIPS
    found = [_sample(i, results, by_id[i], threshold, last_strip_only=many) for i in results.facts if i in by_id]
    return sorted(found, key=lambda sample: ORDER.index(sample.verdict))


def _sample(at: str, results: RunResults, rows: Sequence[RunRow], threshold: float, *, last_strip_only: bool) -> Sample:
    verdicts = [verdict_of(row, threshold) for row in rows]
    with_strip = [row.name for row in rows if any(c.n_drafted for c in row.pass_counts)]
    drawn = with_strip[-1:] if last_strip_only else with_strip
    return Sample(
        anchor=f"sample-{list(results.facts).index(at)}",
        facts=results.facts[at],
        verdict=min(verdicts, key=ORDER.index),
        lines=tuple(_line(row, v, has_strip=row.name in drawn) for row, v in zip(rows, verdicts, strict=True)),
        wrong=tuple(_wrong(at, results, rows)),
    )


def verdict_of(row: RunRow, threshold: float) -> str:
    """What to call a row."""
    if row.outcome != "answered":
        return row.outcome
    if row.exact:
        return "exact"
    return "silent" if is_silent(row, threshold) else "wrong"


def _line(row: RunRow, verdict: str, *, has_strip: bool) -> Line:
    detail = ", ".join((row.strategy or "", *row.findings)).strip(", ")
    if row.error is not None:
        detail = f"{row.error}: {row.message}"
    cells = (seconds(row.latency_s), rate(row.tok_s), count(row.passes), count(row.rejections), share(row.confidence))
    drawn = strip(row.pass_counts, label=f"acceptance of {row.name}") if has_strip else ""
    return Line(row.name, verdict, detail, cells, drawn)


def _wrong(at: str, results: RunResults, rows: Sequence[RunRow]) -> list[WrongAnswer]:
    names: dict[str, list[str]] = {}
    for row in rows:
        if (diff := results.diffs.get((at, row.name))) is not None:
            names.setdefault(diff, []).append(row.name)
    return [WrongAnswer(", ".join(who), diff_lines_of(diff)) for diff, who in names.items()]


def diff_lines_of(diff: str) -> tuple[DiffLine, ...]:
    """A diff's lines with what they are."""
    kinds = {"-": "minus", "+": "plus", "@": "at"}
    return tuple(DiffLine(kinds.get(line[:1], "same"), line.replace("\r", "␍")) for line in diff.split("\n"))

"""Which plots a report has, made from results; a plot that would show nothing is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from apply_eval.metrics.summary import PLAIN
from apply_eval.report.charts import Bar, Dot, bars, colour, dots, lines, reliability_plot, risk_plot, scatter
from apply_eval.report.numbers import rate, share, times
from apply_eval.report.strips import ORIGINS, TARGET, overview
from apply_eval.running.results import RunResults
from apply_eval.running.rows import RunRow

MAX_GROUPS = 16
MAX_OVERVIEWS = 6


class Key(NamedTuple):
    """An entry of a legend: a colour class and what it stands for."""

    class_: str
    label: str


class Figure(NamedTuple):
    """A plot with its title, how to read it, and its legend."""

    title: str
    note: str
    svg: str
    legend: tuple[Key, ...] = ()


def figures(results: RunResults, others: Sequence[RunResults] = ()) -> list[Figure]:
    """All plots, in the order of the page.  `others`: runs at other concurrencies, for the throughput curve."""
    return [
        *_speedups(results),
        *_latency(results),
        *_throughput([results, *others]),
        *_exact(results, "by_language", "language"),
        *_exact(results, "by_size", "lines before the edit"),
        *_exact(results, "by_kind", "kind of edit"),
        *_exact(results, "by_tag", "tag"),
        *_exact(results, "by_style", "style of the snippet"),
        *_reliability(results),
        *_risk(results),
        *_overviews(results),
    ]


def _numbers(results: RunResults) -> dict[str, int]:
    """Every contestant's colour."""
    return {name: i for i, name in enumerate(results.names)}


def _legend(names: Mapping[str, int]) -> tuple[Key, ...]:
    return tuple(Key(colour(i), name) for name, i in names.items())


def _speedups(results: RunResults) -> Iterator[Figure]:
    summary, numbers = results.summary, _numbers(results)
    for field, title, note in (
        ("speedup_vs_plain", "Speed-up of decoding", "tok/s over plain on the same sample, median and 95% interval"),
        ("speedup_end_to_end", "Speed-up end to end", "latency of plain over this one's, prefill and checks included"),
    ):
        rows = [
            Bar(name, i, summary[name][field], summary[name]["intervals"].get(field))
            for name, i in numbers.items()
            if summary[name][field] is not None
        ]
        if len(rows) > 1:
            yield Figure(title, note, bars(rows, show=times, label=title, mark=1.0))
    rates = [Bar(n, i, summary[n]["tok_s"], summary[n]["intervals"].get("tok_s")) for n, i in numbers.items()]
    if any(bar.value is not None for bar in rates):
        title = "Generated tokens a second"
        yield Figure(title, "median over samples and 95% interval", bars(rows=rates, show=rate, label=title))


def _latency(results: RunResults) -> Iterator[Figure]:
    numbers = _numbers(results)
    series: dict[int, list[tuple[float, float]]] = {}
    for row in results.rows:
        if row.outcome == "answered" and row.latency_s:
            point = (float(max(1, results.facts[row.id].n_lines)), row.latency_s)
            series.setdefault(numbers[row.name], []).append(point)
    if series:
        title = "Latency against file size"
        note = "request to last byte; lines join the medians of slices of equally many files"
        svg = scatter(dict(sorted(series.items())), label=title, x_title="lines before the edit")
        yield Figure(title, note, svg, _legend(numbers))


def _throughput(runs: Sequence[RunResults]) -> Iterator[Figure]:
    """A curve where there are several concurrencies, else nothing: one point is in the table."""
    names = list(dict.fromkeys(name for run in runs for name in run.names))
    numbers = {name: i for i, name in enumerate(names)}
    series: dict[int, list[tuple[float, float]]] = {}
    for run in runs:
        for name, found in run.summary.items():
            if found["throughput_tok_s"] is not None:
                point = (float(run.values["plan"]["concurrency"]), found["throughput_tok_s"])
                series.setdefault(numbers[name], []).append(point)
    if len({x for found in series.values() for x, _ in found}) > 1:
        title = "Throughput against concurrency"
        svg = lines(series, label=title, x_title="requests at a time", y_title="generated tok/s, all stages")
        yield Figure(title, "generated tokens over seconds on the wall", svg, _legend(numbers))


def _exact(results: RunResults, way: str, what: str) -> Iterator[Figure]:
    """Contestants with the same answers share a dot: drafters never change an answer."""
    numbers, distinct = _numbers(results), _distinct(results)
    groups: dict[str, list[Dot]] = {}
    for name in distinct:
        for key, found in list(results.summary[name].get(way, {}).items())[:MAX_GROUPS]:
            if found["exact_match"] is not None:
                dot = Dot(numbers[name], found["exact_match"], found["intervals"].get("exact_match"))
                groups.setdefault(f"{key} ({found['n_scored']})", []).append(dot)
    if len(groups) > 1:
        title = f"Exact match by {what}"
        legend = tuple(_key_of_all(name, same, numbers) for name, same in distinct.items())
        yield Figure(title, "share right to the last byte, 95% interval (samples)", dots(groups, label=title), legend)


def _key_of_all(name: str, same: Sequence[str], numbers: Mapping[str, int]) -> Key:
    everyone = len(same) == len(numbers) > 1
    return Key(colour(numbers[name]), "all contestants" if everyone else ", ".join(same))


def _distinct(results: RunResults) -> dict[str, list[str]]:
    """First of every set of contestants whose answers are right on the same samples, with the whole set."""
    found: dict[tuple[tuple[str, bool], ...], list[str]] = {}
    for name in results.names:
        mark = tuple(sorted((row.id, row.exact) for row in results.rows if row.name == name and row.is_scored))
        found.setdefault(mark, []).append(name)
    return {same[0]: same for same in found.values()}


def _reliability(results: RunResults) -> Iterator[Figure]:
    numbers, distinct = _numbers(results), _distinct(results)
    found: dict[str, Any] = {
        name: results.summary[name]["calibration"]["bins"]
        for name in distinct
        if results.summary[name]["calibration"]["bins"]
    }
    if found:
        title = "Confidence and truth"
        svg = reliability_plot({numbers[name]: bins for name, bins in found.items()}, label=title)
        note = "exact match of answers by their confidence; on the diagonal the confidence is honest; area: answers"
        yield Figure(title, note, svg, tuple(_key_of_all(name, distinct[name], numbers) for name in found))


def _risk(results: RunResults) -> Iterator[Figure]:
    """Of contestants whose answers have a confidence; results of older runs have no curve."""
    numbers, distinct = _numbers(results), _distinct(results)
    curves = {name: results.summary[name].get("risk", {}).get("curve", []) for name in distinct}
    found = {name: curve for name, curve in curves.items() if len(curve) > 1}
    if found:
        title = "Wrong answers among those applied"
        svg = risk_plot({numbers[name]: curve for name, curve in found.items()}, label=title)
        note = "a point for each threshold of confidence; low on the right is good"
        yield Figure(title, note, svg, tuple(_key_of_all(name, distinct[name], numbers) for name in found))


def _overviews(results: RunResults) -> Iterator[Figure]:
    drafted = [
        name for name in results.names if name != PLAIN and any(_has_strip(r) for r in results.rows if r.name == name)
    ]
    for name in drafted[-MAX_OVERVIEWS:]:
        rows = sorted(
            (row for row in results.rows if row.name == name and _has_strip(row) and row.repeat == 0),
            key=lambda row: results.facts[row.id].n_lines,
        )
        found = results.summary[name]
        note = (
            "one row an edit, from the first token to the last, short files on top; "
            f"{share(found['acceptance_rate'])} of drafted tokens accepted, "
            f"{found['rejections_per_edit'] or 0:.2f} rejections an edit"
        )
        title = f"Acceptance along the file: {name}"
        svg = overview([row.pass_counts for row in rows], label=title)
        yield Figure(title, note, svg, origin_legend(rows))


def _has_strip(row: RunRow) -> bool:
    return any(count.n_drafted for count in row.pass_counts)


def origin_legend(rows: Sequence[RunRow]) -> tuple[Key, ...]:
    """The origins that occur, the target's own tokens, and what a tick is."""
    used = {source for row in rows for source in row.accepted_by_source}
    known = [origin for origin in ORIGINS if origin in used]
    if used - set(ORIGINS):
        known.append("other")
    labels = {"predicted": "predicted merge", "update": "update snippet", "output": "output so far"}
    keys = [Key(f"o-{origin}", labels.get(origin, origin)) for origin in dict.fromkeys(known)]
    return (*keys, Key(f"o-{TARGET}", "written by the target"), Key("reject", "a rejection"))

"""The HTML report of a run: one file, no script, no font, no picture from elsewhere; light and dark, phone and desk."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from apply_eval.chats import MODEL_TAG, tell_counts
from apply_eval.numbers import (
    COLUMNS,
    DASH,
    GROUPS,
    MORE_COLUMNS,
    Column,
    count,
    notes,
    rate,
    seconds,
    share,
    used_columns,
    verdict_sentence,
)
from apply_eval.provenance import shown_command
from apply_eval.results import RunResults, write_whole
from apply_eval.rows import RunRow, SampleFacts
from apply_eval.summary import is_silent

REPORT = "report.html"
CHAT_COLUMNS = {"exact_match": "same file", "right_unseen": "same, unseen", "silent_errors": "another, unseen"}
"""Figures of a model's replies: field of the summary, heading."""
Cell = tuple[str, str]
"""A figure and its interval (empty where it has none), as text."""


class Table(NamedTuple):
    """A table with its title and how to read it; a row is a name and its cells."""

    title: str
    note: str
    headings: list[str]
    rows: list[tuple[str, list[Cell]]]


def write_report(results: RunResults, folder: Path) -> Path:
    """Write `report.html` into `folder`; its path."""
    return write_whole(folder / REPORT, render_report(results))


def render_report(results: RunResults) -> str:
    """The page's text."""
    values = results.values
    model, server, start = values["plan"]["model"], values["plan"]["server"], values["provenance"] or {}
    return render_page(
        "page.html.jinja",
        title=f"apply-eval: {model['name'] if model else server['url'] if server else 'no model'}",
        notes=notes(values),
        values=values,
        plan=values["plan"],
        start=start,
        model=model or {},
        command=shown_command(start["command"]) if "command" in start else "",
        verdicts=list(dict.fromkeys(verdict_sentence(found) for found in results.summary.values())),
        main=_columns(results, COLUMNS),
        more=_measures(results),
        meanings={one.heading: one.meaning for one in MORE_COLUMNS.values()},
        words=VERDICTS | {one.heading: one.meaning for one in used_columns(COLUMNS, results.summary).values()},
        chats=_chats(results),
        chat_notes=tell_counts(values["chats"]) if values.get("chats") else [],
        tables=list(tables(results)),
        threshold=values["summary_options"]["confidence_threshold"],
        samples=samples(results),
        headings=HEADINGS,
    )


def render_page(template: str, **values: Any) -> str:
    """The text of a page: a template with its values and our style."""
    loader = PackageLoader("apply_eval", "templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style = Markup((Path(__file__).parent / "templates" / "style.css").read_text(encoding="utf-8"))
    return environment.get_template(template).render(style=style, **values) + "\n"


# -- tables ------------------------------------------------------------------------------------------------------------
def _columns(results: RunResults, columns: Mapping[str, Column]) -> Table:
    """A row a contestant; columns that nobody fills are left out."""
    used = used_columns(columns, results.summary)
    rows = [
        (name, [_cell(found, field, column.show) for field, column in used.items()])
        for name, found in results.summary.items()
    ]
    return Table("", "", [column.heading for column in used.values()], rows)


def _measures(results: RunResults) -> Table:
    """A row a measure: there are too many for columns."""
    used, found = used_columns(MORE_COLUMNS, results.summary), results.summary
    rows = [(one.heading, [_cell(f, field, one.show) for f in found.values()]) for field, one in used.items()]
    return Table("", "", list(found), rows)


def _cell(found: Mapping[str, Any], field: str, show: Callable[[Any], str]) -> Cell:
    value, interval = found.get(field), found["intervals"].get(field)
    return show(value), "" if value is None or interval is None else f"{show(interval[0])}–{show(interval[1])}"


def _chats(results: RunResults) -> Table | None:
    """A row a model that wrote replies; None where the samples are of no chat."""
    if not results.values.get("chats"):
        return None
    found = next(iter(results.summary.values()))
    by_model = {tag.removeprefix(MODEL_TAG): of for tag, of in found["by_tag"].items() if tag.startswith(MODEL_TAG)}
    rows = [
        (f"{name} ({of['n_scored']})", [_cell(of, field, share) for field in CHAT_COLUMNS])
        for name, of in {**by_model, "all": found}.items()
    ]
    return Table("", "", list(CHAT_COLUMNS.values()), rows)


def tables(results: RunResults) -> Iterator[Table]:
    """Exact match by group, latency by size, and confidence beside truth."""
    names, summary = _distinct(results), results.summary
    heads = list(names.values())
    for way, what in GROUPS.items():
        groups = list(dict.fromkeys(group for name in names for group in summary[name].get(way, {})))
        if len(groups) > 1:
            found = {g: [summary[name][way].get(g, {"n_scored": 0, "intervals": {}}) for name in names] for g in groups}
            rows = [
                (f"{g} ({max(f['n_scored'] for f in found[g])})", [_cell(f, "exact_match", share) for f in found[g]])
                for g in groups
            ]
            yield Table(f"Exact match by {what}", "share right to the last byte (samples)", heads, rows)
    if sizes := list(dict.fromkeys(size for found in summary.values() for size in found["by_size"])):
        by_size = [figures["by_size"] for figures in summary.values()]
        rows = [
            (size, [(seconds(found.get(size, {}).get("latency_p50_s")), "") for found in by_size]) for size in sizes
        ]
        yield Table("Latency by lines before the edit", "median, request to last byte", results.names, rows)
    bins = {name: {found[0]: found for found in summary[name]["calibration"]["bins"]} for name in names}
    if lows := sorted({low for found in bins.values() for low in found}):
        shown = {(n, low): f"{f[3]:.2f}: {f[4]:.2f} ({f[2]:.0f})" for n in names for low, f in bins[n].items()}
        rows = [(f"{low:.1f}–{low + 0.1:.1f}", [(shown.get((n, low), DASH), "") for n in names]) for low in lows]
        yield Table("Confidence and truth", "mean confidence: share right (answers), by confidence", heads, rows)


def _distinct(results: RunResults) -> dict[str, str]:
    """The first of every set of contestants whose answers are right on the same samples, and a name for the set:
    drafters never change an answer."""
    found: dict[tuple[tuple[str, bool], ...], list[str]] = defaultdict(list)
    for name in results.names:
        found[tuple(sorted((r.id, r.exact) for r in results.rows if r.name == name and r.is_scored))].append(name)
    is_one = len(found) == 1 < len(results.names)
    return {same[0]: "all contestants" if is_one else ", ".join(same) for same in found.values()}


# -- samples -----------------------------------------------------------------------------------------------------------
class Line(NamedTuple):
    """A contestant's line in a sample's table; `verdict` is also its class."""

    name: str
    verdict: str
    detail: str
    cells: tuple[str, ...]


Diff = list[tuple[str, str]]
"""(kind, text) of each line; kinds are minus, plus, at, same."""


class Sample(NamedTuple):
    """A section.  `verdict`: the worst of its answers.  `update` and `change`: the snippet and what it is to do; empty
    where the run kept no texts.  `wrong`: each wrong answer with the names of all who gave it."""

    anchor: str
    facts: SampleFacts
    verdict: str
    lines: list[Line]
    update: Diff
    change: Diff
    wrong: list[tuple[str, Diff]]


VERDICTS = {
    "silent": "wrong, and nothing says so: no check found anything, and no confidence is below the threshold",
    "wrong": "wrong, and flagged by a finding or by its confidence",
    "crashed": "the contestant broke down",
    "refused": "a typed error in place of an answer",
    "missing": "no answer came, by no fault of the contestant; not scored",
    "exact": "right to the last byte",
}
"""Of an answer, the worst first."""
ORDER = list(VERDICTS)
HEADINGS = ("latency", "tok/s", "passes", "rejections", "confidence")


def samples(results: RunResults) -> list[Sample]:
    """Every sample, the worst first, then in order of the data."""
    threshold = results.values["summary_options"]["confidence_threshold"]
    by_id: dict[str, list[RunRow]] = defaultdict(list)
    for row in results.rows:
        by_id[row.id].append(row)
    found: list[Sample] = []
    for number, (at, facts) in enumerate(results.facts.items()):
        if at in by_id:
            lines = [_line(row, threshold) for row in by_id[at]]
            worst = min((line.verdict for line in lines), key=ORDER.index)
            update, change = _diff(by_id[at][0].update), _diff(by_id[at][0].change)
            update = [("same", text) for _, text in update]
            found.append(Sample(f"sample-{number}", facts, worst, lines, update, change, _wrong(by_id[at])))
    return sorted(found, key=lambda sample: ORDER.index(sample.verdict))


def _line(row: RunRow, threshold: float) -> Line:
    verdict: str = row.outcome
    if row.outcome == "answered":
        verdict = "exact" if row.exact else "silent" if is_silent(row, threshold) else "wrong"
    detail = ", ".join((row.strategy or "", *row.findings)).strip(", ")
    if row.error is not None:
        detail = f"{row.error}: {row.message}"
    shown = (seconds(row.latency_s), rate(row.tok_s), count(row.passes), count(row.rejections), share(row.confidence))
    return Line(row.name, verdict, detail, shown)


def _wrong(rows: Sequence[RunRow]) -> list[tuple[str, Diff]]:
    names: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.diff is not None:
            names[row.diff].append(row.name)
    return [(", ".join(who), _diff(diff)) for diff, who in names.items()]


def _diff(text: str | None) -> Diff:
    kinds = {"-": "minus", "+": "plus", "@": "at"}
    return [
        (kinds.get(line[:1], "same"), line.replace("\r", "␍")) for line in (text or "").rstrip("\n").split("\n") if text
    ]

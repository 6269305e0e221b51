"""Figures as people read them, and the table of a run on the terminal.  None is a dash: not measured is not zero."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

DASH = "–"


def share(value: float | None) -> str:
    return DASH if value is None else f"{value:.1%}"


def rate(value: float | None) -> str:
    """Units a second: three significant digits below a thousand."""
    if value is None:
        return DASH
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def times(value: float | None) -> str:
    """A speed-up."""
    return DASH if value is None else f"{value:.2f}×" if value < 10 else f"{value:.1f}×"


def seconds(value: float | None) -> str:
    if value is None:
        return DASH
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:,.1f} s" if value < 100 else f"{value:,.0f} s"


def count(value: float | None) -> str:
    """A mean of counts."""
    if value is None:
        return DASH
    return f"{value:,.0f}" if value >= 100 or float(value).is_integer() else f"{value:.2f}"


def with_interval(show: Callable[[float | None], str], value: float | None, interval: Sequence[float] | None) -> str:
    """`94.0% (91.1%-96.2%)`; without the brackets where there is no interval."""
    if value is None or interval is None:
        return show(value)
    return f"{show(value)} ({show(interval[0])}–{show(interval[1])})"


COLUMNS: Mapping[str, tuple[str, Callable[[float | None], str]]] = {
    "n_scored": ("scored", count),
    "n_failed": ("missing", count),
    "exact_match": ("exact", share),
    "silent_errors": ("silent errors", share),
    "tok_s": ("tok/s", rate),
    "chars_s": ("chars/s", rate),
    "latency_p50_s": ("latency p50", seconds),
    "passes_per_edit": ("passes", count),
    "rejections_per_edit": ("rejections", count),
    "acceptance_rate": ("acceptance", share),
    "speedup_vs_plain": ("speed-up", times),
}
"""The main table: field, heading, how it is written."""

ONLY_IF_ANY = frozenset({"n_failed", "n_refused", "n_crashed"})
"""Counts of what should not be: left out where all are zero."""

MORE_COLUMNS: Mapping[str, tuple[str, Callable[[float | None], str]]] = {
    "n_refused": ("refused", count),
    "n_crashed": ("crashed", count),
    "same_but_blanks": ("but for blanks", share),
    "same_tree": ("same tree", share),
    "edit_similarity": ("edit similarity", share),
    "syntax_kept": ("syntax kept", share),
    "touched_outside": ("touched outside", share),
    "same_but_misquotes": ("but for misquotes", share),
    "coverage_at_1pct": ("coverage at 1% wrong", share),
    "applied": ("applied", share),
    "applied_wrong": ("applied wrong", share),
    "alarm_recall": ("wrong flagged", share),
    "false_alarms": ("right flagged", share),
    "latency_p95_s": ("p95", seconds),
    "latency_p99_s": ("p99", seconds),
    "ttft_p50_s": ("first text", seconds),
    "tokens_per_pass": ("tokens a pass", count),
    "speedup_end_to_end": ("end to end", times),
    "throughput_tok_s": ("tok/s in all", rate),
}
"""The second table."""


GROUPS: Mapping[str, str] = {
    "by_language": "language",
    "by_size": "lines",
    "by_kind": "kind",
    "by_tag": "tag",
    "by_style": "style",
}
"""Ways of grouping the samples: field of the summary, heading."""

MIN_WIDTH = 116
"""Of the table; a narrower terminal breaks its lines, which is better than lost digits."""


def empty_table(*columns: str, title: str = "") -> Table:
    """A table for the terminal: names on the left, figures on the right."""
    table = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for at, name in enumerate(columns):
        table.add_column(name, justify="right" if at else "left", no_wrap=True)
    return table


def print_results(results: Mapping[str, Any], console: Console | None = None) -> None:
    """The main table, and what a reader must know beside it."""
    console = console or Console()
    console.width = max(MIN_WIDTH, console.width)
    columns = used_columns(COLUMNS, results["summary"])
    table = empty_table("", *(heading.replace(" ", "\n") for heading, _ in columns.values()))
    for name, figures in results["summary"].items():
        table.add_row(name, *(show(figures.get(field)) for field, (_, show) in columns.items()))
    console.print(table)
    for note in notes(results):
        console.print(note, highlight=False)


def used_columns(columns: Mapping[str, Any], summary: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The columns that say something of this run; results of older runs lack some fields."""
    values = {field: [found.get(field) for found in summary.values()] for field in columns}
    return {
        field: column
        for field, column in columns.items()
        if any(value is not None and (value or field not in ONLY_IF_ANY) for value in values[field])
    }


def notes(results: Mapping[str, Any]) -> list[str]:
    """What the figures do not say: what `plain` is, whether the target is a replay, whether the run is whole."""
    found: list[str] = []
    if plain := results["plain"]:
        speeds = ", ".join(f"{name} {tok_s:,.0f} tok/s" for name, tok_s in plain["tok_s"].items() if tok_s)
        found.append(f"plain is {plain['is']}: {plain['note']}" + (f" ({speeds})" if speeds else ""))
    model = results["plan"]["model"]
    if model is not None and model.get("kind") == "replay":
        found.append(
            "replay target: random weights of a real shape whose choices are the known right answer; speeds are real, "
            "exact match says nothing"
        )
    if not results["complete"]:
        found.append("stopped before its end: samples not reached count as missing")
    if len({session["commit"] for session in results["sessions"]}) > 1:
        found.append("measured with more than one commit: see sessions")
    if any(session["dirty"] for session in results["sessions"]):
        found.append("measured with uncommitted changes in the working tree")
    return found


@contextmanager
def progress(what: str, total: int | None, done: int = 0) -> Iterator[Callable[[], None]]:
    """A bar on standard error while the block runs; call what it gives for each thing that is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, completed=done)
        yield lambda: bar.advance(task)

"""A run on the terminal: one line a contestant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from apply_eval.report.numbers import COLUMNS, ONLY_IF_ANY

MIN_WIDTH = 116
"""Of the table; a narrower terminal breaks its lines, which is better than lost digits."""


def print_results(results: Mapping[str, Any], console: Console | None = None) -> None:
    """The main table, and what a reader must know beside it."""
    console = console or Console()
    console.width = max(MIN_WIDTH, console.width)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    columns = used_columns(COLUMNS, results["summary"])
    for heading, _ in columns.values():
        table.add_column(heading.replace(" ", "\n"), justify="right", no_wrap=True)
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

"""A merge run on the terminal: the tables, and the diff of every answer that is wrong without saying so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from apply_eval.datasets import EditRecord
from apply_eval.merge_runner import MergeRow
from apply_eval.render import unified_diff

MAX_DIFF_LINES = 60
_COLOURS = {"-": "red", "+": "green", "@": "cyan"}


def print_summary(console: Console, summary: Mapping[str, Any]) -> None:
    """Totals, and a table for each way of grouping."""
    for title, key in (
        ("certainty", "by_certainty"),
        ("language", "by_language"),
        ("size", "by_size"),
        ("tag", "by_tag"),
    ):
        if summary[key]:
            console.print(_table(title, summary[key]))
    n_total, n_exact = summary["n_total"], summary["n_exact"]
    console.print(
        f"[bold]{n_exact} of {n_total} exact ({n_exact / n_total:.1%})[/], "
        f"{summary['n_wrong_certain']} wrong but certain, {summary['n_refused']} refused; "
        f"median {summary['median_ms']:.1f} ms an edit, at most {summary['max_ms']:.0f} ms"
    )


def _table(title: str, groups: Mapping[str, Mapping[str, int]]) -> Table:
    table = Table(title=f"by {title}", title_justify="left")
    table.add_column(title)
    for name in ("samples", "exact", "share", "wrong but certain", "refused"):
        table.add_column(name, justify="right")
    for key, counts in groups.items():
        share = counts["n_exact"] / counts["n_total"]
        numbers = (counts["n_total"], counts["n_exact"], f"{share:.1%}", counts["n_wrong_certain"], counts["n_refused"])
        table.add_row(key, *map(str, numbers))
    return table


def print_wrong_certain(console: Console, rows: Sequence[MergeRow], records: Sequence[EditRecord]) -> None:
    """What the certain answers got wrong: `-` is the wanted text, `+` the answer."""
    for row, record in zip(rows, records, strict=True):
        if row.is_wrong_certain and row.answer is not None:
            console.print(f"\n[bold red]wrong but certain:[/] {row.id}", highlight=False)
            console.print(coloured_diff(record.after, row.answer, path=record.path or "file"))


def coloured_diff(wanted: str, answer: str, *, path: str) -> Text:
    """The diff from the wanted text to the answer, cut where it is long."""
    lines = unified_diff(wanted, answer, path=path).split("\n")[3:]
    text = Text()
    for line in lines[:MAX_DIFF_LINES]:
        text.append(line.replace("\r", "\\r") + "\n", style=_COLOURS.get(line[:1], ""))
    if len(lines) > MAX_DIFF_LINES:
        text.append(f"... {len(lines) - MAX_DIFF_LINES} more lines\n", style="dim")
    return text

"""A merge run on the terminal: the tables, and the diff of every answer that is wrong without saying so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from apply_eval.datasets import EditRecord
from apply_eval.merge_runner import MergeRow
from apply_eval.render import unified_diff
from apply_eval.report.numbers import DASH, share

MAX_DIFF_LINES = 60
_COLOURS = {"-": "red", "+": "green", "@": "cyan"}


def print_summary(console: Console, summary: Mapping[str, Any]) -> None:
    """Totals, what the answers' own word is worth, and a table for each way of grouping."""
    for title, key in (
        ("certainty", "by_certainty"),
        ("language", "by_language"),
        ("size", "by_size"),
        ("tag", "by_tag"),
    ):
        if summary[key]:
            console.print(_table(title, summary[key]))
    console.print(_styles(summary["by_style"]))
    for line in trust_lines(summary):
        console.print(line, highlight=False)
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
        exact = share(counts["n_exact"] / counts["n_total"])
        numbers = (counts["n_total"], counts["n_exact"], exact, counts["n_wrong_certain"], counts["n_refused"])
        table.add_row(key, *map(str, numbers))
    return table


def _styles(groups: Mapping[str, Mapping[str, Any]]) -> Table:
    """Coverage stands beside errors: who applies nothing has none wrong."""
    table = Table(title="by style", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("style", no_wrap=True)
    for name in ("samples", "exact", "95%", "applied", "of these wrong", "right below"):
        table.add_column(name, justify="right", no_wrap=True)
    for style, found in groups.items():
        exact, unseen = found["exact"], found["at_threshold"]
        low, high = exact["interval"]
        shown = (f"{exact['n']} ({share(exact['share'])})", f"{100 * low:.0f}–{100 * high:.0f}")
        table.add_row(
            style,
            str(found["n_total"]),
            *shown,
            str(unseen["n_applied"]),
            str(unseen["n_wrong"]),
            str(unseen["n_right_below"]),
        )
    return table


def trust_lines(summary: Mapping[str, Any]) -> list[str]:
    """What may be applied unseen, calibration, near misses and the oracle, in words."""
    risk, unseen, tenths = summary["risk"], summary["risk"]["at_threshold"], summary["calibration"]["deciles"]
    lines = [
        f"from {unseen['threshold']:.3f} on: {share(unseen['coverage'])} {_interval(unseen['coverage_interval'])} "
        f"applied, {unseen['n_wrong']} of {unseen['n_applied']} wrong {_interval(unseen['wrong_interval'])}; "
        f"{unseen['n_right_below']} right answers below it ({share(unseen['right_below'])})"
    ]
    for limit, found in risk["coverage_at"].items():
        lines.append(
            f"coverage at {float(limit):.0%} wrong, threshold chosen afterwards: {share(found['coverage'])} "
            f"{_interval(found['interval'])}"
        )
    if tenths:
        told = "  ".join(f"{mean:.2f}: {right:.2f}" for _, _, _, mean, right in tenths)
        lines.append(f"mean probability and share right, by tenths of the answers: {told}")
    near = (("same_but_blanks", "blank lines"), ("same_but_misquotes", "misquoted context"))
    lines.append("match but for " + ", ".join(f"{what}: {_hits(summary[key])}" for key, what in near))
    lines.append("right among the first " + ", ".join(f"{k}: {_hits(found)}" for k, found in summary["oracle"].items()))
    return lines


def _hits(found: Mapping[str, Any]) -> str:
    return f"{share(found['share'])} {_interval(found['interval'])}"


def _interval(interval: Sequence[float] | None) -> str:
    return DASH if interval is None else f"({share(interval[0])}–{share(interval[1])})"


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

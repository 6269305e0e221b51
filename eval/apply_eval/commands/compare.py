"""`apply-eval compare A B`: what changed from run A to run B; fails where something got worse beyond doubt."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from apply_eval.errors import DataError
from apply_eval.metrics.compare import Difference, Limits, compare_rows, exact_in_one, refuse_other_samples
from apply_eval.report.numbers import DASH, count

if TYPE_CHECKING:
    from apply_eval.running.results import RunResults

REGRESSION = 1
MAX_IDS = 10
MIN_WIDTH = 100
_DEFAULTS = Limits()


def add_compare(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("a", type=Path, metavar="A", help="the run before: its --out, or its results.json")
    parser.add_argument("b", type=Path, metavar="B", help="the run after")
    parser.add_argument(
        "--pair", action="append", default=[], metavar="A=B", help="compare contestant A with B (default: equal names)"
    )
    parser.add_argument(
        "--exact-drop",
        type=float,
        default=_DEFAULTS.exact_drop,
        help="exact match may fall by that (default: %(default)s)",
    )
    parser.add_argument(
        "--silent-rise",
        type=float,
        metavar="X",
        default=_DEFAULTS.silent_rise,
        help="silent errors may rise by that (%(default)s)",
    )
    parser.add_argument(
        "--slowdown",
        type=float,
        default=_DEFAULTS.slowdown,
        help="share of speed that may be lost (default: %(default)s)",
    )
    parser.add_argument(
        "--more-passes",
        type=float,
        default=_DEFAULTS.more_passes,
        help="share of passes that may be added (%(default)s)",
    )
    parser.set_defaults(command=compare)


def compare(arguments: argparse.Namespace) -> int:
    """Print the differences of every pair; 1 where one of them is a regression."""
    from apply_eval.running.results import read_results

    a, b = read_results(arguments.a), read_results(arguments.b)
    refuse_other_samples(a.facts, b.facts)
    is_same_machine = _conditions(a) == _conditions(b)
    limits = Limits(
        arguments.exact_drop, arguments.silent_rise, arguments.slowdown, arguments.more_passes, is_same_machine
    )
    console, worse = Console(), []
    console.width = max(MIN_WIDTH, console.width)
    for name_a, name_b in _pairs(arguments.pair, a, b):
        rows_a = [row for row in a.rows if row.name == name_a]
        rows_b = [row for row in b.rows if row.name == name_b]
        found = compare_rows(
            rows_a,
            rows_b,
            limits=limits,
            threshold=b.values["summary_options"]["confidence_threshold"],
        )
        title = name_a if name_a == name_b else f"{name_a} -> {name_b}"
        console.print(_table(title, found))
        for run, ids in zip("AB", exact_in_one(rows_a, rows_b), strict=True):
            if ids:
                print(f"right in {run} alone: {', '.join(ids[:MAX_IDS])}" + (" ..." if len(ids) > MAX_IDS else ""))
        worse += [f"{title}: {difference.field}" for difference in found if difference.is_regression]
    if not is_same_machine:
        print("machine, device or concurrency differ: speeds are shown, not judged")
    print("no regression" if not worse else "regressions: " + ", ".join(worse))
    return REGRESSION if worse else 0


def _conditions(results: RunResults) -> object:
    """What speeds depend on beside the code."""
    start = results.values["provenance"] or {}
    model = results.values["plan"]["model"] or {}
    return start.get("hardware"), model.get("device"), results.values["plan"]["concurrency"]


def _pairs(named: list[str], a: RunResults, b: RunResults) -> Iterator[tuple[str, str]]:
    """The contestants to compare.  Raises DataError where there are none, or no such one."""
    pairs = [tuple(pair.partition("=")[::2]) for pair in named] or [(name, name) for name in a.names if name in b.names]
    if not pairs:
        raise DataError("the runs have no contestant in common", value=a.names, limit=b.names, remedy="name a --pair")
    for left, right in pairs:
        if left not in a.names or right not in b.names:
            raise DataError(f"no such pair: {left}={right}", value=[left, right], limit=[a.names, b.names])
        yield left, right


def _table(title: str, found: list[Difference]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for heading in ("", "pairs", "A", "B", "change", "95% interval", ""):
        table.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
    for difference in found:
        interval = difference.interval
        shown = (
            DASH if interval is None else f"{_change(difference, interval.low)} to {_change(difference, interval.high)}"
        )
        table.add_row(
            difference.field,
            str(difference.n_pairs),
            _value(difference, difference.a),
            _value(difference, difference.b),
            DASH if difference.change is None else _change(difference, difference.change),
            shown,
            "[bold red]regression[/]" if difference.is_regression else "",
        )
    return table


def _value(difference: Difference, value: float | None) -> str:
    if value is None:
        return DASH
    if difference.kind == "share":
        return f"{value:.1%}"
    return f"{value:.3f}" if value < 10 else count(value)


def _change(difference: Difference, value: float) -> str:
    return f"{value * 100:+.1f} points" if difference.kind == "share" else f"×{value:.3f}"

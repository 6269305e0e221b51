"""A fuzz run on the terminal: each failure with the seed that draws it again, then the counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from apply_eval.fuzz import FuzzFailure, FuzzFormat, FuzzReport, FuzzSource, draw_case
from apply_eval.merge_report import coloured_diff

MAX_SHOWN = 20


def print_report(console: Console, report: FuzzReport) -> None:
    """Failures first, wrong answers before contradictions; the counts last."""
    for failure in sorted(report.failures, key=lambda failure: failure.kind, reverse=True)[:MAX_SHOWN]:
        _print_failure(console, failure)
    for kind, count in Counter(failure.kind for failure in report.failures).items():
        console.print(f"{count:7d}  failed: {kind}", highlight=False)
    for name, count in sorted(report.outcomes.items()):
        console.print(f"{count:7d}  {name}", highlight=False)
    console.print(
        f"{report.n_cases} cases, {len(report.failures)} failures, "
        f"{report.n_wrong_outside} answers not called certain that lost a line outside the edit"
    )


def _print_failure(console: Console, failure: FuzzFailure) -> None:
    seed, _, number = failure.case.name.rpartition("-")
    console.print(
        f"\n[bold red]{failure.kind}[/] ({failure.what}): again with --seed {seed} --only {number}", highlight=False
    )
    if failure.answer is not None:
        console.print(coloured_diff(failure.case.after, failure.answer, path=failure.case.path or "file"))


def print_case(
    console: Console, sources: Sequence[FuzzSource], *, seed: int, number: int, formats: Sequence[FuzzFormat]
) -> None:
    """One case in full: the wanted change, and the update that shows it."""
    case = draw_case(sources, seed=seed, number=number, formats=formats)
    if case is None:
        console.print("no edit that can be shown was drawn")
        return
    console.rule(f"{case.format}, {case.language}, {case.path}")
    console.print(coloured_diff(case.before, case.after, path=case.path or "file"))
    console.rule("update")
    console.print(case.update, markup=False, highlight=False)
    console.rule()

"""The generated part of the page on engines: which drafter is named how, and which lines were run here."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping

from apply_service.commands.engine import LINES, Line
from docs.tables import table


def engine_lines() -> str:
    """Write what each engine is told for each drafter."""
    rows = (
        (f"`{engine}`", f"`{drafter}`", f"`{_words(line)}`", "yes" if line.is_run else "no")
        for engine, lines in LINES.items()
        for drafter, line in lines.items()
    )
    return table(("engine", "drafter", "what it is told", "run here"), rows)


def _words(line: Line) -> str:
    if line.file:
        return "; ".join(one.strip() for one in line.file.strip().split("\n")[1:])
    return " ".join([*([line.variables] if line.variables else []), shlex.join(line.options)])


ENGINE_PARTS: Mapping[str, Callable[[], str]] = {"engine-lines": engine_lines}

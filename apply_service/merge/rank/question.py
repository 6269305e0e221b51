"""Words the question that a doubtful edit asks: which of its readings is meant?

Agents (`mcp.tool`) and people at a terminal (`commands.apply`) see the same readings, as short diffs.  This module
imports only `types`, so that a command that asks a server starts fast.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from apply_service.types import OtherReading

MAX_SHOWN, MAX_EQUAL = 3, 5
"""At most this many readings are shown.  If readings are about as likely as the first one, the second number holds."""
NEARLY = 0.9
"""A reading is about as likely as the first if its chance is at least this share of the first reading's chance."""
MAX_LINES, MAX_COLUMNS = 24, 200
"""At most this many lines of a reading's diff are shown, and at most this many characters of a line."""
MAX_SCOPE = 60
"""At most this many characters are shown of the line that opens a scope."""
_HUNK = re.compile(r"^@@ -(\d+)[^\n]*\n", re.MULTILINE)


def in_words(chance: float) -> str:
    """Return the chance in words, such as `93% sure`; never 0%.  The chance is rounded down, so that a chance below a
    threshold stays below it in words too."""
    return f"{min(99, max(1, int(100 * chance + 1e-9)))}% sure"


def shown_readings(readings: Sequence[OtherReading]) -> Sequence[OtherReading]:
    """Return the readings that a question shows.  `readings`: all readings, the answer's own first."""
    n_equal = sum(one.probability >= NEARLY * readings[0].probability for one in readings)
    return readings[: max(MAX_SHOWN, min(n_equal, MAX_EQUAL))]


def short_diff(diff: str, original: str = "") -> list[str]:
    """Return the lines of a file's unified diff, without the names of the files.

    Each hunk has one unchanged line on each side of its changes.  It names the line of `original` that opens the scope
    around it, because equal places differ in nothing else.  Long lines are cut.  The last lines of a long diff are left
    out and counted.
    """
    shown: list[str] = []
    file = original.splitlines()
    _, *parts = _HUNK.split(diff)
    for at, body in zip(parts[::2], parts[1::2], strict=True):
        lines = [line.removesuffix("\r") for line in body.removesuffix("\n").split("\n")]
        changed = [i for i, line in enumerate(lines) if line[:1] in ("+", "-")]
        start = max(0, changed[0] - 1)
        number = max(1, int(at)) + start
        scope = _scope_above(file, number - 1)
        shown += [f"@@ line {number}{f', in {scope}' if scope else ''} @@", *lines[start : changed[-1] + 2]]
    cut = [line if len(line) <= MAX_COLUMNS else f"{line[:MAX_COLUMNS]}..." for line in shown[:MAX_LINES]]
    more = len(shown) - MAX_LINES
    return cut if more <= 0 else [*cut, f"... {more} more {'line' if more == 1 else 'lines'} ..."]


def _scope_above(lines: Sequence[str], at: int) -> str:
    """Return the nearest line above line `at` that is indented less; empty if there is none."""

    def margin(line: str) -> int:
        return len(line) - len(line.lstrip())

    own = next((margin(line) for line in lines[at : at + 2] if line.strip()), 0)
    above = (line for line in reversed(lines[:at]) if line.strip() and margin(line) < own and line.strip()[0].isalnum())
    return next(above, "").strip()[:MAX_SCOPE]

"""Whether new lines repeat a run of lines that the snippet hides and the merge keeps.

Who writes such a run has more likely meant those lines, laid elsewhere, than a copy of what is not shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from apply_service.edits.candidates import substance
from apply_service.edits.laid_blocks import Laid

MIN_SAID = 2.5
"""What the lines of a run must say together."""


def repeats_hidden_run(laid: Laid) -> bool:
    """Whether consecutive new lines are consecutive hidden ones, indentation included."""
    lines = [line.rstrip() for line in laid.reading.original]
    shown = set(laid.columns.values())
    rows = [j for j, line in enumerate(lines) if line]
    places: defaultdict[str, list[int]] = defaultdict(list)
    for row, j in enumerate(rows):
        if j not in shown and j not in laid.dropped:
            places[lines[j]].append(row)
    for run in _new_runs(laid):
        said: dict[int, float] = {}
        for text in run:
            said = {row: said.get(row - 1, 0.0) + substance(text.strip()) for row in places.get(text, ())}
            if any(total >= MIN_SAID for total in said.values()):
                return True
    return False


def _new_runs(laid: Laid) -> Iterator[list[str]]:
    for _, taken in laid.changes:
        yield [op.text.rstrip() for op in taken]

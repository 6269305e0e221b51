"""Whether new lines repeat a run of lines that the snippet hides and the merge keeps.

Who writes such a run has more likely meant those lines, laid elsewhere, than a copy of what is not shown.
"""

from __future__ import annotations

from collections import defaultdict

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
    for _, taken in laid.changes:
        said: dict[int, float] = {}
        for op in taken:
            here = places.get(op.text.rstrip(), ())
            said = {row: said.get(row - 1, 0.0) + substance(op.text.strip()) for row in here}
            if any(total >= MIN_SAID for total in said.values()):
                return True
    return False

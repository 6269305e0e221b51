"""The best alignment of a reading with the file, as long as it keeps brackets in pairs."""

from __future__ import annotations

from collections.abc import Sequence

from apply_service.edits.lazy.align import Match, align
from apply_service.edits.lazy.brackets import find_even, keeps_pairs
from apply_service.edits.lazy.reading import Reading
from apply_service.edits.lazy.rows import Rows
from apply_service.edits.lazy.write import Writer
from apply_service.types import LineOp


def aligned_matches(reading: Reading, rows: Rows, *, groups: bool = False) -> Sequence[Match]:
    """The best alignment, or the one next to it that keeps brackets in pairs where it does not."""
    chosen = align(rows.rows(), rows.terrain(), rows.groups if groups else ())

    def write(columns: Sequence[Match]) -> Sequence[LineOp]:
        return Writer(reading, rows.candidates, columns).write()

    if keeps_pairs(write(chosen)):
        return chosen
    even = find_even(reading, rows, chosen, write, rows.groups if groups else ())
    if even is None:
        return chosen
    reading.doubts.likely("brackets read in pairs")
    return even

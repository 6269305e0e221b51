"""The predicted merge: a lazy snippet laid on its original by a program alone, and how sure that is.

The page to read first of the merger: the snippet is read (`reading`), its lines' places are sought (`rows`), aligned
(`alignment`), written as operations (`writing`), and each block is asked whether it could stand elsewhere (`clarity`).
Texts have LF line ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from apply_service.edits.brackets import find_even, keeps_pairs
from apply_service.edits.lazy.align import Match, align
from apply_service.edits.lazy.rows import Rows
from apply_service.edits.lazy.write import Writer
from apply_service.edits.markers import Role, classify
from apply_service.edits.questions import question
from apply_service.edits.reading import Reading
from apply_service.types import Certainty, LineOp, Prediction


def merge(original: str, update: str, *, language: str | None = None, path: str | None = None) -> Prediction:
    """The original with the snippet merged in, as far as a program can tell."""
    lines, update_lines = original.split("\n"), update.split("\n")
    if not original.strip():
        return _new_file(lines, update_lines, language, path)
    ends_with_newline = len(lines) > 1 and lines[-1] == ""
    reading = Reading(lines[:-1] if ends_with_newline else lines, update_lines, language, path)
    ops, writer = _merge_lines(reading)
    writer.doubts.take_over(reading.doubts)
    question(reading, ops, writer.doubts)
    if ends_with_newline:
        ops.append(LineOp("keep", len(lines) - 1, None, ""))
    return Prediction(tuple(ops), tuple(writer.texts), writer.doubts.certainty, tuple(writer.doubts.reasons))


def _new_file(lines: list[str], update_lines: list[str], language: str | None, path: str | None) -> Prediction:
    """An empty original: the snippet is the file."""
    roles = classify(update_lines, (), language=language, path=path)
    outside = {Role.FENCE, Role.CHAT, Role.FILE_NAME}
    ops = [LineOp("drop", j, None, line) for j, line in enumerate(lines)]
    ops += [LineOp("take", None, i, update_lines[i]) for i, role in enumerate(roles) if role not in outside]
    leaves_out = any(role in (Role.MARKER, Role.DELETION) for role in roles)
    reasons = ("the original is empty but the snippet leaves something out",) if leaves_out else ()
    certainty = Certainty.LIKELY if leaves_out else Certainty.CERTAIN
    return Prediction(tuple(ops), tuple(update_lines), certainty, reasons, determined=not leaves_out)


def _merge_lines(reading: Reading) -> tuple[list[LineOp], Writer]:
    """The operations of the best alignment.  Where they change nothing, small differences were meant after all."""
    rows = Rows(reading)
    chosen = _aligned(reading, rows)
    writer = Writer(reading, rows.candidates, chosen)
    ops = writer.write()
    if _changes(ops):
        return ops, writer
    trusting = Writer(reading, rows.candidates, chosen, trusts_all=True)
    ops = trusting.write()
    if not _changes(ops):
        trusting.doubts.guess("the snippet changes nothing")
    return ops, trusting


def _aligned(reading: Reading, rows: Rows, *, groups: bool = False) -> Sequence[Match]:
    """The best alignment, or the one next to it that keeps brackets in pairs where it does not."""
    chosen = align(rows.rows(), rows.terrain(), rows.groups() if groups else ())

    def write(columns: Sequence[Match]) -> Sequence[LineOp]:
        return Writer(reading, rows.candidates, columns).write()

    if keeps_pairs(write(chosen)):
        return chosen
    even = find_even(reading, rows, chosen, write, rows.groups() if groups else ())
    if even is None:
        return chosen
    reading.doubts.likely("brackets read in pairs")
    return even


def _changes(ops: Sequence[LineOp]) -> bool:
    """Whether more than blank lines change, or stand in another order."""
    before = [op.text for op in ops if op.kind != "take" and op.text.strip()]
    after = [op.text for op in ops if op.kind != "drop" and op.text.strip()]
    return before != after

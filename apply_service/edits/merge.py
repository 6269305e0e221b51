"""The predicted merge: a lazy snippet laid on its original by a program alone, and how sure that is.

The page to read first of the merger: the snippet is read (`reading`), its lines' places are sought (`rows`), aligned
(`alignment`), written as operations (`writing`), and each block is asked whether it could stand elsewhere (`clarity`).
Texts have LF line ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from apply_service.edits.candidates import substance
from apply_service.edits.clarity import Places, find_ends
from apply_service.edits.doubts import Doubts
from apply_service.edits.indentation import indent_of
from apply_service.edits.markers import Role, classify
from apply_service.edits.pinning import align
from apply_service.edits.reading import Reading
from apply_service.edits.rows import MIN_SAYING, Rows
from apply_service.edits.writing import Writer
from apply_service.types import Certainty, LineOp, Prediction

MIN_TWINS = 2
FEW_LINES = 4
NEAR = 6
"""Hidden lines beside a block among which a line that the block shows as new may be the one meant."""


def merge(original: str, update: str, *, language: str | None = None, path: str | None = None) -> Prediction:
    """The original with the snippet merged in, as far as a program can tell."""
    lines, update_lines = original.split("\n"), update.split("\n")
    if not original.strip():
        return _new_file(lines, update_lines, language, path)
    ends_with_newline = len(lines) > 1 and lines[-1] == ""
    reading = Reading(lines[:-1] if ends_with_newline else lines, update_lines, language, path)
    ops, writer = _merge_lines(reading)
    _question(reading, ops, writer.doubts)
    if _repeats(reading, ops):
        writer.doubts.likely("a new line stands elsewhere, too")
    if _is_reindented(ops):
        writer.doubts.likely("a line is changed in nothing but its indentation")
    writer.doubts.take_over(reading.doubts)
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
    chosen = align(rows.rows(), rows.terrain())
    writer = Writer(reading, rows.candidates, chosen)
    ops = writer.write()
    if _changes(ops):
        return ops, writer
    trusting = Writer(reading, rows.candidates, chosen, trusts_all=True)
    ops = trusting.write()
    if not _changes(ops):
        trusting.doubts.guess("the snippet changes nothing")
    return ops, trusting


def _changes(ops: Sequence[LineOp]) -> bool:
    """Whether more than blank lines change."""
    dropped = [op.text for op in ops if op.kind == "drop" and op.text.strip()]
    taken = [op.text for op in ops if op.kind == "take" and op.text.strip()]
    return dropped != taken


def _question(reading: Reading, ops: Sequence[LineOp], doubts: Doubts) -> None:
    """Whether every changed block can only stand where it was put."""
    places = Places(reading.index)
    column = {op.update_line: op.original_line for op in ops if op.kind == "both" and op.update_line is not None}
    floor = 0
    for b, block in enumerate(reading.snippet.blocks):
        columns = [column.get(i) for i in block.lines]
        known = [c for c in columns if c is not None]
        if not known:
            continue
        texts = reading.block_texts(b)
        if _is_changed(texts, columns, known):
            low, high = _range(reading, b, column, floor, known[-1])
            ends = find_ends(texts, columns, reading.original)
            if not (places.is_clear(ends, low, high) and places.is_smallest(texts, known[0], known[-1], low, high)):
                doubts.likely("anchor not unique")
        floor = known[-1] + 1


def _repeats(reading: Reading, ops: Sequence[LineOp]) -> bool:
    """Whether a line is new in one place and stays in another, though the file had it once, or right beside what the
    snippet shows: moved, or misplaced."""
    taken = {op.text for op in ops if op.kind == "take" and substance(op.text.strip()) >= MIN_SAYING}
    twins = [op for op in ops if op.kind == "keep" and op.text in taken and reading.index.count(op.text) == 1]
    if len(twins) >= MIN_TWINS or (
        twins and sum(op.kind == "take" and bool(op.text.strip()) for op in ops) <= FEW_LINES
    ):
        return True
    shown = {op.original_line for op in ops if op.kind in ("both", "drop")}
    kept = ((op.original_line, op.text) for op in ops if op.kind == "keep")
    places = [j for j, text in kept if j is not None and text in taken]
    return any(shown.intersection(range(j - NEAR, j + NEAR + 1)) for j in places)


def _is_reindented(ops: Sequence[LineOp]) -> bool:
    """Whether a lone line replaces one that differs in white space only: meant, or a slip of the pen."""
    for is_change, run in groupby(ops, key=lambda op: op.kind in ("drop", "take")):
        changed = list(run)
        dropped = {op.text.strip() for op in changed if op.kind == "drop" and op.text.strip()}
        taken = [op.text.strip() for op in changed if op.kind == "take" and op.text.strip()]
        if is_change and taken and dropped.issuperset(taken):
            return True
    return False


def _is_changed(texts: Sequence[str], columns: Sequence[int | None], known: Sequence[int]) -> bool:
    new = any(column is None and text.strip() for column, text in zip(columns, texts, strict=True))
    return new or known[-1] - known[0] >= len(texts)


def _range(reading: Reading, b: int, column: dict[int, int | None], floor: int, last: int) -> tuple[int, int]:
    """Where block b may lie: behind the block before, inside the shown scopes whose headers are unique."""
    high = len(reading.original)
    indent = min(indent_of(text) for text in reading.block_texts(b) if text.strip())
    for _, i in reversed([(c, i) for c, i in reading.visible if c < b]):
        text, j = reading.texts[i], column.get(i)
        if indent_of(text) >= indent:
            continue
        indent = indent_of(text)
        if j is not None and reading.index.count(text) == 1 and reading.close_of(j) >= last:
            high = min(high, reading.close_of(j) + 1)
    return floor, high

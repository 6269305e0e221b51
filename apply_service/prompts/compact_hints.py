"""What the compact prompt says about a predicted merge: a tag for every line, and where the merge jumps.

The rule behind all of it: every line that the prediction uses is followed by the tag of the prediction's next
operation, either because the next line of the same text carries it or as a bare tag.  So "write what followed this line
before" carries the prediction out, and the target's work is to know better.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from apply_service.prompts.compact_lines import LineVocabulary
from apply_service.types import LineOp, Prediction


@dataclass(frozen=True, slots=True)
class Hints:
    """Tags of the prompt's lines.  `first` and `after_*[i]` are bare tags, None where the next line's own tag says
    it."""

    first: int | None
    original: tuple[int, ...]
    after_original: tuple[int | None, ...]
    update: tuple[int, ...]
    after_update: tuple[int | None, ...]


def with_added_lines(prediction: Prediction) -> Prediction:
    """The prediction with every line that it takes among the lines of the update: the merger adds blank lines of its
    own, each of which is listed before the update's line that follows it in the merge."""
    wanted, following = [], len(prediction.update_lines)
    for op in reversed(prediction.ops):
        if op.kind == "take" and op.update_line is None:
            wanted.append(following)
        elif op.update_line is not None:
            following = op.update_line
    if not wanted:
        return prediction
    wanted.sort()
    lines, ops = list(prediction.update_lines), []
    for at in reversed(wanted):
        lines.insert(at, "")
    following = len(lines)
    for op in reversed(prediction.ops):
        if op.kind == "take" and op.update_line is None:
            following -= 1
            lines[following] = op.text
            ops.append(op._replace(update_line=following))
            continue
        if op.update_line is not None:
            following = op.update_line + bisect_right(wanted, op.update_line)
            op = op._replace(update_line=following)
        ops.append(op)
    return replace(prediction, ops=tuple(reversed(ops)), update_lines=tuple(lines))


def op_tag(vocabulary: LineVocabulary, op: LineOp) -> int:
    """The tag with which the output names an operation."""
    line = op.update_line if op.original_line is None else op.original_line
    assert line is not None, "an operation names a line"
    return vocabulary.tag(op.kind, line)


def hints_of(vocabulary: LineVocabulary, ops: Sequence[LineOp], n_original: int, n_update: int) -> Hints:
    """Hints that tell the prediction `ops`."""
    original, update = [vocabulary.pad] * n_original, [vocabulary.skip] * n_update
    after_original: list[int | None] = [None] * n_original
    after_update: list[int | None] = [None] * n_update
    tags = [*(op_tag(vocabulary, op) for op in ops), vocabulary.end]
    for at, op in enumerate(ops):
        following = ops[at + 1] if at + 1 < len(ops) else None
        if op.original_line is not None:
            original[op.original_line] = tags[at]
            is_next = following is not None and following.original_line is not None
            after_original[op.original_line] = None if is_next else tags[at + 1]
        if op.update_line is not None:
            update[op.update_line] = tags[at]
            is_next = following is not None and following.update_line == op.update_line + 1
            after_update[op.update_line] = None if is_next else tags[at + 1]
    first = tags[0] if ops and ops[0].original_line is None else None
    return Hints(first, tuple(original), tuple(after_original), tuple(update), tuple(after_update))


def no_hints(vocabulary: LineVocabulary, n_original: int, n_update: int) -> Hints:
    """Nothing but the lines' numbers."""
    return Hints(
        None,
        tuple(vocabulary.tag("keep", i) for i in range(n_original)),
        (None,) * n_original,
        tuple(vocabulary.tag("take", i) for i in range(n_update)),
        (None,) * n_update,
    )

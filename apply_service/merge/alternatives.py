"""Other readings of a merge that is not certain, each a small change of its operations.

What a merger most often gets wrong where it doubts: whether new lines stand for the hidden ones beside them, whose
wording a line has that both sides show, and whether a blank line belongs to it.  Not every reading, a few that a target
may choose among.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

from apply_service.merge.misquotes import may_be_misquoted
from apply_service.merge.quotes import Merge
from apply_service.types import LineOp, Prediction

MAX_ALTERNATIVES = 8
REACH = 60
"""Lines beside new ones that these may stand for."""


class Alternative(NamedTuple):
    """`ops` in the place of the prediction's operations `start..stop` (half open)."""

    start: int
    stop: int
    ops: tuple[LineOp, ...]

    def of(self, ops: Sequence[LineOp]) -> tuple[LineOp, ...]:
        """The whole merge as this one reads it."""
        return (*ops[: self.start], *self.ops, *ops[self.stop :])


def find_alternatives(prediction: Prediction) -> list[Alternative]:
    """At most MAX_ALTERNATIVES readings with other texts than the prediction's, the likeliest kinds first; they may
    overlap.  The rules of `LineOp` hold for each."""
    found: list[Alternative] = []
    texts = {prediction.text}
    changes = Merge(prediction.ops).changed
    other_blanks = partial(_other_blanks, unplaced=frozenset(prediction.unplaced))
    kinds = (_kept, _replaced, _other_wording, other_blanks)
    readings = chain.from_iterable(find(prediction, *change) for find in kinds for change in changes)
    for one in chain(readings, _shown_wording(prediction)):
        text = replace(prediction, ops=one.of(prediction.ops)).text
        if text not in texts:
            texts.add(text)
            found.append(one)
        if len(found) == MAX_ALTERNATIVES:
            break
    return found


def _split(ops: Sequence[LineOp]) -> tuple[list[LineOp], list[LineOp]]:
    """What goes and what comes."""
    return [op for op in ops if op.kind == "drop"], [op for op in ops if op.kind == "take"]


def _kept(prediction: Prediction, start: int, stop: int) -> Iterator[Alternative]:
    """Lines that would go stay, below the new ones or above: all of them, or from a gap between them on."""
    drops, takes = _split(prediction.ops[start:stop])
    if not drops:
        return
    keeps = [op._replace(kind="keep") for op in drops]
    blank = [not op.text.strip() for op in drops]
    last = max((i for i, is_blank in enumerate(blank) if not is_blank), default=0)
    gaps = [i for i in range(1, last) if blank[i] and not blank[i - 1]]
    for gap in (0, *gaps):
        yield Alternative(start, stop, (*drops[:gap], *takes, *keeps[gap:]))
    for gap in (*gaps, len(drops)):
        yield Alternative(start, stop, (*keeps[:gap], *drops[gap:], *takes))


def _replaced(prediction: Prediction, start: int, stop: int) -> Iterator[Alternative]:
    """The new lines stand for those that stay beside them too, as far as the next one like their last, or their
    first."""
    takes = [op for op in prediction.ops[start:stop] if op.kind == "take" and op.text.strip()]
    if not takes:
        return
    ops = prediction.ops
    below = next((i for i in range(stop, min(len(ops), stop + REACH)) if ops[i].text == takes[-1].text), None)
    if below is not None and (gone := _dropped(ops[stop : below + 1])):
        drops, rest = _split(ops[start:stop])
        yield Alternative(start, below + 1, (*drops, *gone, *rest))
    above = next((i for i in range(start - 1, max(-1, start - 1 - REACH), -1) if ops[i].text == takes[0].text), None)
    if above is not None and (gone := _dropped(ops[above:start])):
        yield Alternative(above, stop, (*gone, *ops[start:stop]))


def _dropped(ops: Sequence[LineOp]) -> list[LineOp]:
    """These lines gone; none where they are not all the original's, untouched and not shown."""
    return [op._replace(kind="drop") for op in ops] if all(op.kind == "keep" for op in ops) else []


def _other_wording(prediction: Prediction, start: int, stop: int) -> Iterator[Alternative]:
    """Lines replaced by lines much like them were only misquoted."""
    drops, takes = _split(prediction.ops[start:stop])
    pairs = list(zip(drops, takes, strict=False))
    if len(drops) != len(takes) or not all(may_be_misquoted(new.text, old.text) for old, new in pairs):
        return
    both = tuple(LineOp("both", old.original_line, new.update_line, old.text) for old, new in pairs)
    yield Alternative(start, stop, both)


def _shown_wording(prediction: Prediction) -> Iterator[Alternative]:
    """A line that was taken as misquoted is meant as it is shown, but for white space at its end, which nobody sees."""
    for at, op in enumerate(prediction.ops):
        if op.kind != "both" or op.update_line is None:
            continue
        shown = prediction.update_lines[op.update_line]
        if shown.rstrip() != op.text.rstrip():
            drop, take = LineOp("drop", op.original_line, None, op.text), LineOp("take", None, op.update_line, shown)
            yield Alternative(at, at + 1, (drop, take))


def _other_blanks(prediction: Prediction, start: int, stop: int, *, unplaced: Collection[int]) -> Iterator[Alternative]:
    """A blank line less at an end of the new lines, or one more that the update has there."""
    drops, takes = _split(prediction.ops[start:stop])
    if not takes:
        return
    if len(takes) > 1 and not takes[0].text.strip():
        yield Alternative(start, stop, (*drops, *takes[1:]))
    if len(takes) > 1 and not takes[-1].text.strip():
        yield Alternative(start, stop, (*drops, *takes[:-1]))
    for take, step in ((takes[0], -1), (takes[-1], 1)):
        line = -1 if take.update_line is None else take.update_line + step
        # A blank line of the update that is no part of the merge.
        if line in unplaced and not prediction.update_lines[line].strip():
            blank = LineOp("take", None, line, prediction.update_lines[line])
            yield Alternative(start, stop, (*drops, blank, *takes) if step < 0 else (*drops, *takes, blank))

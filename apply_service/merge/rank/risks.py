"""Finds risks: reasons why a reading is less sure than its features say.

Risks concern kinds of edits of which the chooser has seen too few, and facts that it does not see.  Each risk is a
feature, and a reason in words.  This module knows finished merges, and what words say about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from apply_service.merge.rank.features import replaced_neighbour, says_something
from apply_service.merge.reading import ReadSnippet
from apply_service.merge.variants import same_hidden
from apply_service.text.lines import header_name, is_attached, is_branch, new_definitions, quote_lines
from apply_service.types import Merge

NOWHERE = 0.25
"""The highest probability of two kinds of readings.

In the first, the snippet has no line and no definition of the file, no marker, and no words about its place.  In the
second, the prose above the snippet orders something that can't be done, or that the reading does not do.
"""
NOT_TOLD = "the file has no line of the snippet, and nothing says where the code goes"
ORDER_IGNORED = "what the prose says to do could not be carried out"
ORDER_DONE = "words, not code, say a part of the edit: where code goes or what is removed"
UNSURE = 0.95
"""The highest probability of a reading with a risk in SELDOM, and of a reading whose prose orders more than a place."""
RISKS = ("nowhere", "ordered", "replaces_beside", "loses_branch", "same_body", "may_leave", "ignored_note")
"""All risks.  Each is a feature."""
SELDOM = frozenset(RISKS) - {"nowhere", "ordered"}
"""Risks whose edits the chooser has seen too seldom, or of whose edits more than one in a hundred was wrong."""
BESIDE = "which the snippet does not show, and may be meant to stand beside it"


class Said(NamedTuple):
    """What words beside the snippet say about a reading."""

    orders: bool = False
    """Whether the words say what to do with the code."""
    only_places: bool = True
    """Whether the words say no more than where the code goes."""
    is_ignored: bool = False
    """Whether the reading does not do what the words order, or nothing can do it."""
    leaves: str | None = None
    """The name of something that the words allow to remove, but that stays."""
    ignored_note: str | None = None
    """A comment that announces a removal, although the reading removes nothing there."""


def find_risks(
    reading: ReadSnippet, ops: Merge, features: Mapping[str, float], said: Said, *, may_be_placed: bool
) -> dict[str, str]:
    """Return which of RISKS a reading has, each in words.

    `may_be_placed`: words say where the code goes, for this reading or another.
    """
    found = dict[str, str]()
    if _is_nowhere(features, ops) and not may_be_placed:
        found["nowhere"] = NOT_TOLD
    if said.orders:
        found["ordered"] = ORDER_IGNORED if said.is_ignored else ORDER_DONE
    if (replaced := replaced_neighbour(ops)) is not None:
        old, new = (quote_lines([line]) for line in replaced)
        found["replaces_beside"] = f"{new} takes the place of {old}, {BESIDE}"
    elif (branch := _lost_branch(ops)) is not None:
        told = f"{quote_lines([branch])} is removed, and may be meant to stay: a marker stands below it"
        found["loses_branch"] = told
    if (renamed := _same_body(reading, ops)) is not None:
        old, new = (quote_lines([line]) for line in renamed)
        found["same_body"] = f"{new} has the lines of {old}, and may be its new name"
    if said.leaves is not None:
        found["may_leave"] = f"the prose says that {quote_lines([said.leaves])} may be removed, and it stays"
    if said.ignored_note is not None:
        found["ignored_note"] = f"nothing was removed where the edit has the comment {quote_lines([said.ignored_note])}"
    return found


def most_likely(risks: Iterable[str], said: Said) -> float:
    """Return the highest probability that a reading with these risks may have."""
    if "nowhere" in risks or said.is_ignored:
        return NOWHERE
    return UNSURE if SELDOM.intersection(risks) or not said.only_places else 1.0


def _is_nowhere(known: Mapping[str, float], ops: Merge) -> bool:
    shown = [ops[k] for k in ops.shown]
    gone, new = ({_head(op.text) for op in shown if op.kind == kind} - {""} for kind in ("drop", "take"))
    return known["loose_share"] == 1.0 and not known["markers"] and not known["by_signed"] and not gone & new


def _head(line: str) -> str:
    """Return what the line defines; empty if it opens no definition."""
    return header_name(line) or (line.partition("{")[0].strip() if "{" in line else "")


def _same_body(reading: ReadSnippet, ops: Merge) -> tuple[str, str] | None:
    """Return the header of a hidden definition that stays, and the header of a new one with the same body."""
    for start, stop in ops.changed:
        new = [op.text for op in ops[start:stop] if op.kind == "take"]
        for span in new_definitions(new, ()):
            old = same_hidden(reading, ops, new[span.start : span.stop], 1.0)
            if old is not None:
                both = [op.text for op in ops[old.start : old.stop]], new[span.start : span.stop]
                kept, own = (next(text.strip() for text in side if not is_attached(text)) for side in both)
                if kept != own:
                    return kept, own
    return None


def _lost_branch(ops: Merge) -> str | None:
    """Return the first branch (`else if`, `elif`, `when`) that is removed without a replacement, right above hidden
    lines."""
    for start, stop in ops.changed:
        gone, new = (
            [op.text for op in ops[start:stop] if op.kind == kind and is_branch(op.text)] for kind in ("drop", "take")
        )
        below = (ops[k].kind for k in range(stop, len(ops)) if says_something(ops[k]))
        if len(gone) > len(new) and next(below, "") == "keep":
            return gone[len(new)].strip()
    return None

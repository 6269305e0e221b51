"""An edit of an earlier text carried over to what the file has become since: a three-way merge, never likeness.

Changes that touch each other are put together where their lines, words or list entries differ, with a doubt.  What
remains is a conflict: an error with both sides, or markers in the file, as the caller asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from apply_service.errors import EditConflict
from apply_service.formats.hunks import Trust
from apply_service.text.fidelity import normalise
from apply_service.text.lines import indent_of, is_import
from apply_service.text.three_way import MergePiece, merge_words, three_way
from apply_service.types import Certainty, Failure, LikePlace, Prediction

MAX_WORDS = 20
"""Lines of a conflict that are merged word by word."""
MAX_TOLD = 200
"""Characters of a side that an error tells."""
OURS, BASE, DIVIDER, THEIRS = "<<<<<<< file", "||||||| base", "=======", ">>>>>>> edit"


def carry_over(base: str, edited: Prediction, newer: str, *, with_markers: bool = False) -> Prediction:
    """Return the merge of `newer` with what the edit made of `base`.  All texts have LF line ends.

    Raises EditConflict: both changed the same lines; with `with_markers` these are written between conflict markers.
    """
    old, ours, theirs = (text.split("\n") for text in (base, newer, normalise(edited.text)))
    lines: list[str] = []
    reasons: list[str] = []
    failures: list[Failure] = []
    for piece in three_way(old, ours, theirs):
        if piece.merged is not None:
            lines += piece.merged
            continue
        sides = [[text[row] for row in rows] for text, rows in zip((old, ours, theirs), piece[1:], strict=True)]
        settled = _settle(*sides)
        if settled is not None:
            reasons.append(f"the file and the edit both changed {_name(_place(piece))}")
        else:
            failures.append(_failure(len(failures) + 1, piece, *sides[1:]))
            settled = [OURS, *sides[1], BASE, *sides[0], DIVIDER, *sides[2], THEIRS]
        lines += settled
    if failures and not with_markers:
        raise _conflict(failures)
    if failures:
        reasons.append(f"{len(failures)} conflicts are written with markers: settle them by hand")
    merged = Trust().prediction_of(newer, "\n".join(lines), edited.update_lines)
    certainty = Certainty.LIKELY if reasons and edited.certainty is Certainty.CERTAIN else edited.certainty
    return replace(
        merged,
        certainty=certainty,
        reasons=(*reasons, *edited.reasons),
        determined=edited.determined and not reasons,
        probability=None if reasons else edited.probability,
        failures=(*edited.failures, *failures),
        is_made=edited.is_made or newer == "\n".join(lines),
    )


def _place(piece: MergePiece) -> LikePlace:
    """Return the lines of the file that a piece is about, or the one above which it stands."""
    first = piece.ours.start + 1
    return LikePlace(first, max(first, piece.ours.stop), 1.0)


def _name(place: LikePlace) -> str:
    return f"line {place.first}" if place.first == place.last else f"lines {place.first} to {place.last}"


def _settle(old: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str] | None:
    """Return both sides' changes of one stretch put together; None where they exclude each other."""
    pieces = list(three_way(old, ours, theirs, touching=False))
    if all(piece.merged is not None for piece in pieces):
        return [line for piece in pieces for line in piece.merged or ()]
    if not old and _are_entries([*ours, *theirs]):
        return [*ours, *(line for line in theirs if line not in ours)]
    if old and max(len(old), len(ours), len(theirs)) <= MAX_WORDS:
        words = merge_words("\n".join(old), "\n".join(ours), "\n".join(theirs))
        return None if words is None else words.split("\n")
    return None


def _are_entries(lines: Sequence[str]) -> bool:
    """Tell whether the lines are entries of one list, whose order says little: imports, or lines with a comma at the
    end."""
    is_list = all(is_import(line) for line in lines) or all(line.rstrip().endswith(",") for line in lines)
    return is_list and len({indent_of(line) for line in lines}) == 1


def _failure(number: int, piece: MergePiece, ours: Sequence[str], theirs: Sequence[str]) -> Failure:
    """Return a conflict: what the edit has (`quoted`) and the file has (`found`)."""
    place = _place(piece)
    return Failure(f"conflict {number}", (place,), "\n".join(theirs), "\n".join(ours), place.first)


def _conflict(failures: Sequence[Failure]) -> EditConflict:
    first = failures[0]
    more = f" and {len(failures) - 1} more places" if len(failures) > 1 else ""
    error = EditConflict(
        f"the file has changed since its base where the edit changes it too: {_name(first.candidates[0])}{more}",
        value=(first.quoted or "")[:MAX_TOLD],
        limit=(first.found or "")[:MAX_TOLD],
        remedy='read the file again and make a new edit, or send "conflicts": "markers" to have both sides written',
    )
    error.failures = [one.as_dict() for one in failures]
    return error

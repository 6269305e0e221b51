"""Carries an edit of an older text over to the present file, by a three-way merge.  Nothing is placed by similarity.

If changes of the two sides touch each other, they are combined if they concern different lines, words or list entries.
The result is then in doubt.  All other touching changes are conflicts.  The caller chooses whether a conflict becomes
an error with both sides, or is written into the file with markers.
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
"""A conflict is merged word by word only if it has at most this many lines."""
MAX_TOLD = 200
"""An error shows at most this many characters of a side."""
OURS, BASE, DIVIDER, THEIRS = "<<<<<<< file", "||||||| base", "=======", ">>>>>>> edit"


def carry_over(base: str, edited: Prediction, newer: str, *, with_markers: bool = False) -> Prediction:
    """Return the merge of `newer` with the changes that the edit made to `base`.  All texts have LF line ends.

    Raises EditConflict if the edit and `newer` changed the same lines.  With `with_markers`, both sides are written
    between conflict markers instead.
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
            place, found, quoted = _place(piece), *("\n".join(side) for side in sides[1:])
            failures.append(Failure(f"conflict {len(failures) + 1}", (place,), quoted, found, place.first))
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
    """Return the lines of the file that a piece is about.  If there are none, return the line below the piece."""
    first = piece.ours.start + 1
    return LikePlace(first, max(first, piece.ours.stop), 1.0)


def _name(place: LikePlace) -> str:
    return f"line {place.first}" if place.first == place.last else f"lines {place.first} to {place.last}"


def _settle(old: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str] | None:
    """Return the combined changes of both sides in one stretch; None if the changes exclude each other."""
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
    """Tell whether the lines are entries of one list: imports, or lines that end with a comma.

    The order of such entries says little.
    """
    is_list = all(is_import(line) for line in lines) or all(line.rstrip().endswith(",") for line in lines)
    return is_list and len({indent_of(line) for line in lines}) == 1


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

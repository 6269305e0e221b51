"""Predicts the merge of a lazy snippet: the chooser ranks all its readings.

Read this module first.  `makers` apply the snippet to the file in several ways.  `readings` collects their proposals
and computes their features.  The chooser (`rank.chooser`, fitted by `training.fit_chooser`) puts the likeliest reading
first and says how likely it is right.  Texts have LF line ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from apply_service.merge.proposal import Proposal, texts_of
from apply_service.merge.rank.alarms import find_alarms
from apply_service.merge.rank.chooser import Chooser, load
from apply_service.merge.rank.risks import UNSURE
from apply_service.merge.readings import readings
from apply_service.merge.twins import Twin, few_twins, find_twins, tell_twins
from apply_service.syntax.trees import breaks_syntax
from apply_service.text.lines import quote_lines
from apply_service.text.markers import Role, classify
from apply_service.types import Certainty, LineOp, Merge, Prediction, Reading, Way

MAX_PARSED = 3
"""How many of the likeliest readings are parsed, to see whether the file is still valid."""
SURE_SIGNS = 0.99
"""The chance that a diff without headers is right, if each of its lines is found in one place.  On the fit sets, 124 of
124 were right."""
BROKEN = 0.3
"""The chance of a reading that breaks the file is multiplied by this, and so is the chance of a reading that takes its
place."""
NO_SYNTAX = "the file would no longer parse"
MAX_TOLD = 3
"""A refusal names at most this many changes."""
MAX_READINGS = 8
"""A prediction has at most this many readings, the likeliest first."""
MAX_COMBINED, MIN_COMBINED = 5, 0.02
"""How many of the likeliest readings may be combined, and the minimum chance of each."""
SIGNED, TWIN = Way("signed", 0), Way("twin")
"""Two ways: the first reading of a snippet with diff signs, and a reading with a block at another place that it
fits."""


def merge(
    original: str, update: str, *, language: str | None = None, path: str | None = None, instruction: str = ""
) -> Prediction:
    """Merge the snippet into the original, as far as a program can tell."""
    if not original.strip():
        return _new_file(original.split("\n"), update.split("\n"), language, path)
    found = readings(original, update, language=language, path=path, instruction=instruction)
    model = load(frozenset(found[0].features))
    order, chances = _rank(found, model)
    parsing = (n for n in order[:MAX_PARSED] if not breaks_syntax(original, found[n].text, language))
    order, chance, parses = _put_first(next(parsing, None), order, chances)
    first = found[order[0]]
    chance = min(chance, first.limit)
    causes = [*first.risks.values(), *([] if parses else [NO_SYNTAX])]
    ranked = [Reading(tuple(found[n].ops), found[n].features, min(chances[n], chance), found[n].way) for n in order]
    ranked[0] = ranked[0]._replace(probability=chance)
    is_signed = first.way.maker == SIGNED.maker
    is_told = first.features["by_placed"] > 0  # words say where the blocks go
    twins = [] if is_told else find_twins(first.snippet, first.ops, instruction, shows_old=is_signed)
    if len(twins) == 1 and twins[0].is_named and twins[0].ops is not None:
        ranked[0] = ranked[0]._replace(ops=tuple(twins[0].ops))
    elif twins:
        chance /= 1 + len(twins)
        causes.insert(0, tell_twins(twins))
        ranked = _with_twins(ranked, twins, chance)
    if chance > UNSURE and (alarms := find_alarms(original.split("\n"), ranked[0].text.split("\n"))):
        causes, chance = [*alarms, *causes], UNSURE
        ranked[0] = ranked[0]._replace(probability=UNSURE)
    ranked = [*ranked[:MAX_READINGS], *_combinations(ranked)]
    certainty = Certainty.CERTAIN if chance >= model.thresholds.apply else Certainty.LIKELY
    if chance < model.thresholds.refuse:
        certainty = Certainty.GUESS
        causes += _unheld(ranked[0].ops)
    return Prediction(
        ranked[0].ops,
        texts_of(ranked[0].ops, first.texts),
        certainty,
        () if certainty is Certainty.CERTAIN else (*causes, *first.reasons),
        probability=chance,
        readings=tuple(ranked),
    )


def _rank(found: Sequence[Proposal], model: Chooser) -> tuple[list[int], list[float]]:
    """Return the numbers of the likeliest readings, the likeliest first, and the chances of all readings."""
    features = [one.features for one in found]
    scores = model.rank(features)
    chances = model.probabilities(features, scores)
    order = sorted(range(len(found)), key=lambda n: -scores[n])
    first = order[0]
    if not found[first].way.is_whole_file:
        # A marker says that lines are left out, so readings that take the snippet for the whole file don't count.
        whole_file = {n for n in order[1:] if found[n].way.is_whole_file and features[n]["markers"]}
        left = 1.0 - sum(chances[n] for n in whole_file)
        chances = [0.0 if n in whole_file else chance for n, chance in enumerate(chances)]
        chances[first] /= left
        order.sort(key=whole_file.__contains__)
    if found[first].way == SIGNED and not found[first].reasons:
        chances[first] = max(chances[first], SURE_SIGNS)
    return order[:MAX_READINGS], chances


def _put_first(parsing: int | None, order: list[int], chances: Sequence[float]) -> tuple[list[int], float, bool]:
    """Return the order with the parsing reading first, its chance, and whether there is such a reading.

    `parsing`: the likeliest reading after which the file still parses.
    """
    if parsing is None:
        return order, chances[order[0]] * BROKEN, False
    if parsing == order[0]:
        return order, chances[parsing], True
    chance = max(chances[parsing], BROKEN * chances[order[0]])
    return [parsing, *(n for n in order if n != parsing)], chance, True


def _with_twins(ranked: Sequence[Reading], twins: Sequence[Twin], chance: float) -> list[Reading]:
    """Return the readings.  If few other places fit, their readings come second and are as likely as the first."""
    first = ranked[0]._replace(probability=chance)
    moved = [Reading(tuple(ops), first.features, chance, TWIN) for ops in few_twins(twins)]
    told = {first.text, *(one.text for one in moved)}
    others = [one._replace(probability=min(one.probability, chance)) for one in ranked[1:] if one.text not in told]
    return [first, *moved, *others]


def _combinations(ranked: Sequence[Reading]) -> list[Reading]:
    """Return readings that combine the changes of two others, if these differ from the first reading at separate
    places.

    The chance of such a reading is the chance of both changes together.
    """
    first, others = ranked[0], [one for one in ranked[1:MAX_COMBINED] if one.probability >= MIN_COMBINED]
    known = {one.text for one in ranked}
    found = []
    for one, other in combinations(others, 2):
        ops = _both(first.ops, one.ops, other.ops)
        if ops is not None:
            chance = one.probability * other.probability / first.probability
            both = Reading(ops, first.features, chance, one.way._replace(other=other.way))
            found += [both] if both.text not in known else []
    return found


def _both(first: Sequence[LineOp], one: Sequence[LineOp], other: Sequence[LineOp]) -> tuple[LineOp, ...] | None:
    """Return the merge that differs from `first` as `one` and as `other` do; None if they change the same or adjacent
    lines."""
    by_line = [_by_line(ops) for ops in (first, one, other)]
    if len({len(groups) for groups in by_line}) > 1:
        return None
    changes = [
        {j for j, group in enumerate(groups) if _effect(group) != _effect(by_line[0][j])} for groups in by_line[1:]
    ]
    if not all(changes) or any(abs(a - b) < 2 for a in changes[0] for b in changes[1]):
        return None
    chosen = (by_line[1 if j in changes[0] else 2 if j in changes[1] else 0][j] for j in range(len(by_line[0])))
    return tuple(op for group in chosen for op in group)


def _by_line(ops: Sequence[LineOp]) -> list[list[LineOp]]:
    """Return the operations on each line of the original, together with the new lines below it.  The first list has the
    new lines above all lines."""
    found: list[list[LineOp]] = [[]]
    for op in ops:
        if op.original_line is not None:
            found.append([])
        found[-1].append(op)
    return found


def _effect(group: Sequence[LineOp]) -> list[str]:
    return [op.text for op in group if op.kind != "drop"]


def _unheld(ops: Sequence[LineOp]) -> list[str]:
    """Return, in words, the changes that have no shown line of the file beside them; all changes if every change has
    such a line."""
    free, held = list[str](), list[str]()
    for start, stop in Merge(ops).changed:
        new = [op for op in ops[start:stop] if op.kind == "take" and op.text.strip()]
        gone = [op.original_line for op in ops[start:stop] if op.original_line is not None and op.text.strip()]
        beside = [ops[k].kind for k in (start - 1, stop) if 0 <= k < len(ops)]
        if not (new or gone):
            continue
        what = quote_lines([op.text for op in new]) if new else ""
        lines = f"line {gone[0] + 1}" if len(gone) == 1 else f"lines {gone[0] + 1} to {gone[-1] + 1}" if gone else ""
        above = next((ops[k].original_line for k in range(start - 1, -1, -1) if ops[k].kind != "take"), None)
        place = "at the start of the file" if above is None else f"below line {above + 1}"
        said = f"{what} would replace {lines}" if new and gone else f"{lines} would be removed" if gone else ""
        said = said or f"{what} would be added {place}"
        if "both" in beside:
            held.append(said)
        else:
            free.append(f"{said}, but the snippet shows no line of the file beside it")
    return (free or held)[:MAX_TOLD]


def _new_file(lines: list[str], update_lines: list[str], language: str | None, path: str | None) -> Prediction:
    """Return the prediction for an empty original: the snippet is the whole file."""
    roles = classify(update_lines, (), language=language, path=path)
    outside = {Role.FENCE, Role.ELSEWHERE, Role.FILE_NAME}
    ops = [LineOp("drop", j, None, line) for j, line in enumerate(lines)]
    ops += [LineOp("take", None, i, update_lines[i]) for i, role in enumerate(roles) if role not in outside]
    leaves_out = any(role in (Role.MARKER, Role.DELETION) for role in roles)
    reasons = ("the file is empty, but the snippet has a marker for code of the file",) if leaves_out else ()
    certainty = Certainty.LIKELY if leaves_out else Certainty.CERTAIN
    return Prediction(tuple(ops), tuple(update_lines), certainty, reasons, determined=not leaves_out)

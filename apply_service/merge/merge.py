"""The predicted merge of a lazy snippet: all its readings, ranked by the chooser.

The page to read first of the merger.  `readings` makes the readings; each is a finished merge with features; the
chooser (`chooser`, fitted by `training.fit_chooser`) puts the likeliest first and says how likely it is right.  Texts
have LF line ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from apply_service.merge.quotes import Merge
from apply_service.merge.rank.alarms import find_alarms
from apply_service.merge.rank.chooser import load
from apply_service.merge.rank.features import replaced_neighbour, says_something
from apply_service.merge.rank.twins import AS_LIKE, Twin, find_twins, how_like
from apply_service.merge.readings import Ways, find_readings, texts_of
from apply_service.merge.retouch import same_hidden
from apply_service.syntax.trees import breaks_syntax
from apply_service.text.lines import (
    header_name,
    is_attached,
    is_branch,
    new_definitions,
    quote_lines,
)
from apply_service.text.markers import Role, classify
from apply_service.types import Certainty, LineOp, Prediction, Reading

MAX_PARSED = 3
"""Readings, from the likeliest on, that are asked whether the file still parses."""
SURE_SIGNS = 0.99
"""A diff without its headers whose every line is found, in one place: 124 of 124 right on the fit sets."""
BROKEN = 0.3
"""What is left of the chance of a reading after which the file does not parse, or that stands in such a one's place."""
NOWHERE = 0.25
"""At most, for a snippet of which the file has no line and no definition, without a marker and without a word about
where it goes; and where the prose above it orders what can't be done."""
NOT_TOLD = "the file has no line of the snippet, and nothing says where the code goes"
NO_SYNTAX = "the file would no longer parse"
ORDER_IGNORED = "what the prose says to do could not be carried out"
ORDER_DONE = "words, not code, say a part of the edit: where code goes or what is removed"
UNSURE = 0.95
"""At most, for a reading with one of SELDOM, and where prose orders more than a place."""
RISKS = ("nowhere", "ordered", "replaces_beside", "loses_branch", "same_body", "may_leave", "ignored_note")
"""What makes a reading less sure than its other features say; each is a feature."""
SELDOM = frozenset(RISKS) - {"nowhere", "ordered"}
"""Risks that the chooser has seen too few edits with, or more than one in a hundred of them wrong."""
BESIDE = "which the snippet does not show, and may be meant to stand beside it"
WHOLE_FILE = "+cut"
"""The end of the name of a reading that takes the snippet for the whole file (`retouch.cut`)."""
MAX_TOLD = 3
"""Changes that a refusal names."""
MAX_READINGS = 8
"""Readings of a prediction, the likeliest first."""
MAX_PLACES = 5
"""Equal places that are readings; of more only the lines are told."""
MAX_TWINS = 12
"""Lines of equal places that are told."""
MAX_COMBINED, MIN_COMBINED = 5, 0.02
"""Readings that are combined: how many of the likeliest, and their least chance."""
TWIN = "twin"
"""The name of a reading that puts a block at another place that it fits as well."""


def merge(
    original: str, update: str, *, language: str | None = None, path: str | None = None, instruction: str = ""
) -> Prediction:
    """The original with the snippet merged in, as far as a program can tell."""
    if not original.strip():
        return _new_file(original.split("\n"), update.split("\n"), language, path)
    found = readings(original, update, language=language, path=path, instruction=instruction)
    features = [reading.features for reading, _ in found]
    model = load(frozenset(features[0]))
    scores = model.rank(features)
    chances = model.probabilities(features, scores)
    order = sorted(range(len(found)), key=lambda n: -scores[n])
    chance = chances[order[0]]
    # A marker says that lines are left out: then readings that take the snippet for the whole file don't count.
    whole_file = {n for n in order[1:] if found[n][0].name.endswith(WHOLE_FILE) and features[n]["markers"]}
    if not found[order[0]][0].name.endswith(WHOLE_FILE):
        chance /= 1.0 - sum(chances[n] for n in whole_file)
        chances = [0.0 if n in whole_file else x for n, x in enumerate(chances)]
        order.sort(key=whole_file.__contains__)
    order = order[:MAX_READINGS]
    if found[order[0]][1].draft.name == "signed0" and not found[order[0]][1].draft.reasons:
        chance = max(chance, SURE_SIGNS)
    whole = next((n for n in order[:MAX_PARSED] if not breaks_syntax(original, found[n][0].text, language)), None)
    if whole is None:
        chance *= BROKEN
    elif whole != order[0]:
        chance = max(chances[whole], BROKEN * chance)
        order = [whole, *(n for n in order if n != whole)]
    ways = found[order[0]][1]
    chance = min(chance, most_likely(ways))
    causes = [*ways.risks.values(), *([NO_SYNTAX] if whole is None else [])]
    ranked = [found[n][0]._replace(probability=min(chances[n], chance)) for n in order]
    ranked[0] = ranked[0]._replace(probability=chance)
    if twins := _twins(ranked[0], ways, instruction):
        if len(twins) == 1 and twins[0].is_named and twins[0].ops is not None:
            ranked[0] = ranked[0]._replace(ops=tuple(twins[0].ops))
        else:
            chance /= 1 + len(twins)
            causes.insert(0, _tell_twins(twins))
            ranked = _with_twins(ranked, twins, chance)
    if chance > UNSURE and (alarms := find_alarms(original.split("\n"), ranked[0].text.split("\n"))):
        causes, chance = [*alarms, *causes], UNSURE
        ranked[0] = ranked[0]._replace(probability=UNSURE)
    ranked = [*ranked[:MAX_READINGS], *_combinations(ranked)]
    reasons = (*causes, *ways.draft.reasons)
    certainty = Certainty.CERTAIN if chance >= model.thresholds.apply else Certainty.LIKELY
    if chance < model.thresholds.refuse:
        certainty = Certainty.GUESS
        reasons = (*causes, *_unheld(ranked[0].ops), *ways.draft.reasons)
    return Prediction(
        ranked[0].ops,
        texts_of(ranked[0].ops, ways.draft.texts),
        certainty,
        reasons if certainty is not Certainty.CERTAIN else (),
        probability=chance,
        readings=tuple(ranked),
    )


def _twins(reading: Reading, ways: Ways, instruction: str) -> list[Twin]:
    """The other places that the reading's blocks fit as well; none where words say where they go."""
    if ways.draft.reading is None or ways.features["by_placed"]:
        return []
    shows_old = ways.draft.name.startswith("signed")
    return find_twins(ways.draft.reading, Merge(reading.ops), instruction, shows_old=shows_old)


def _tell_twins(twins: Sequence[Twin]) -> str:
    lines = sorted({twin.line + 1 for twin in twins})
    more = f" and {len(lines) - MAX_TWINS} more" if len(lines) > MAX_TWINS else ""
    told = ", ".join(map(str, lines[:MAX_TWINS]))
    return f"the shown lines fit line{'s' if len(lines) > 1 else ''} {told}{more} as well: show one more line"


def _with_twins(ranked: Sequence[Reading], twins: Sequence[Twin], chance: float) -> list[Reading]:
    """The readings with those of the other places behind the first, all as likely as it, where they are few."""
    first = ranked[0]._replace(probability=chance)
    known = sorted((twin.ops for twin in twins if twin.ops is not None), key=how_like, reverse=True)
    few = known if len(twins) < MAX_PLACES else [ops for ops in known if how_like(ops) > how_like(known[0]) - AS_LIKE]
    moved = [Reading(tuple(ops), first.features, chance, TWIN) for ops in few if len(few) < MAX_PLACES]
    told = {first.text, *(one.text for one in moved)}
    others = [one._replace(probability=min(one.probability, chance)) for one in ranked[1:] if one.text not in told]
    return [first, *moved, *others]


def _combinations(ranked: Sequence[Reading]) -> list[Reading]:
    """The readings that differ from the first as two others do, at places of their own: as likely as both together."""
    first, others = ranked[0], [one for one in ranked[1:MAX_COMBINED] if one.probability >= MIN_COMBINED]
    known = {one.text for one in ranked}
    found = []
    for one, other in combinations(others, 2):
        ops = _both(first.ops, one.ops, other.ops)
        if ops is not None:
            chance = one.probability * other.probability / first.probability
            both = Reading(ops, first.features, chance, f"{one.name}&{other.name}")
            found += [both] if both.text not in known else []
    return found


def _both(first: Sequence[LineOp], one: Sequence[LineOp], other: Sequence[LineOp]) -> tuple[LineOp, ...] | None:
    """The merge that does what both others do and the first does not; None where they touch the same lines."""
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
    """The operations of each line of the original, with the new lines below it; those above all lines come first."""
    found: list[list[LineOp]] = [[]]
    for op in ops:
        if op.original_line is not None:
            found.append([])
        found[-1].append(op)
    return found


def _effect(group: Sequence[LineOp]) -> list[str]:
    return [op.text for op in group if op.kind != "drop"]


def most_likely(ways: Ways) -> float:
    """The most that the probability of a reading may be, where the chooser has seen too little."""
    if "nowhere" in ways.risks or ways.ignores_order:
        return NOWHERE
    return UNSURE if SELDOM.intersection(ways.risks) or not ways.only_placed else 1.0


def _risks(ways: Ways, ops: Merge) -> dict[str, str]:
    """Which of RISKS a reading has, each in words."""
    found = dict[str, str]()
    if _is_nowhere(ways.features, ops) and not ways.may_be_placed:
        found["nowhere"] = NOT_TOLD
    if ways.has_order:
        found["ordered"] = ORDER_IGNORED if ways.ignores_order else ORDER_DONE
    if (replaced := replaced_neighbour(ops)) is not None:
        old, new = (quote_lines([line]) for line in replaced)
        found["replaces_beside"] = f"{new} takes the place of {old}, {BESIDE}"
    elif (branch := _lost_branch(ops)) is not None:
        said = f"{quote_lines([branch])} is removed, and may be meant to stay: a marker stands below it"
        found["loses_branch"] = said
    if (renamed := _same_body(ways, ops)) is not None:
        old, new = (quote_lines([line]) for line in renamed)
        found["same_body"] = f"{new} has the lines of {old}, and may be its new name"
    if ways.leave is not None:
        found["may_leave"] = f"the prose says that {quote_lines([ways.leave])} may be removed, and it stays"
    if ways.ignored_note is not None:
        found["ignored_note"] = f"nothing was removed where the edit has the comment {quote_lines([ways.ignored_note])}"
    return found


def _same_body(ways: Ways, ops: Merge) -> tuple[str, str] | None:
    """The header of a definition that stays without being shown, and that of a new one with the same body."""
    reading = ways.draft.reading
    if reading is None:
        return None
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
    """The first branch (`else if`, `elif`, `when`) that goes without a new one in its place, right above hidden
    lines."""
    for start, stop in ops.changed:
        gone, new = (
            [op.text for op in ops[start:stop] if op.kind == kind and is_branch(op.text)] for kind in ("drop", "take")
        )
        below = (ops[k].kind for k in range(stop, len(ops)) if says_something(ops[k]))
        if len(gone) > len(new) and next(below, "") == "keep":
            return gone[len(new)].strip()
    return None


def readings(
    original: str, update: str, *, language: str | None = None, path: str | None = None, instruction: str = ""
) -> list[tuple[Reading, Ways]]:
    """All readings with their features, the default one first, unranked: what the chooser is fitted to."""
    lines = original.split("\n")
    ends_with_newline = len(lines) > 1 and lines[-1] == ""
    shown = lines[:-1] if ends_with_newline else lines
    found = []
    for ways in find_readings(shown, update.split("\n"), language=language, path=path, instruction=instruction):
        # Drops stand before takes in every run of both, as the contract of `LineOp` has it.
        ops = list(ways.draft.ops)
        for start, stop in ways.draft.ops.changed:
            ops[start:stop] = sorted(ops[start:stop], key=lambda op: op.kind == "take")
        # A snippet that shows the last line does not say whether a file without a final newline gets one.
        open_end = float(not ends_with_newline and ops[-1].kind != "keep")
        if ends_with_newline:
            ops.append(LineOp("keep", len(lines) - 1, None, ""))
        ways.risks = _risks(ways, Merge(ops))
        features = ways.features | {name: float(name in ways.risks) for name in RISKS} | {"open_end": open_end}
        found.append((Reading(tuple(ops), features, 0.0, ways.draft.name), ways))
    return found


def _unheld(ops: Sequence[LineOp]) -> list[str]:
    """What each change does beside which the snippet shows no line of the file; what all do if there is none."""
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


def _is_nowhere(known: Mapping[str, float], ops: Merge) -> bool:
    shown = [ops[k] for k in ops.shown]
    gone, new = ({_head(op.text) for op in shown if op.kind == kind} - {""} for kind in ("drop", "take"))
    return known["loose_share"] == 1.0 and not known["markers"] and not known["by_signed"] and not gone & new


def _head(line: str) -> str:
    """What the line defines; "" if it opens no definition."""
    return header_name(line) or (line.partition("{")[0].strip() if "{" in line else "")


def _new_file(lines: list[str], update_lines: list[str], language: str | None, path: str | None) -> Prediction:
    """An empty original: the snippet is the file."""
    roles = classify(update_lines, (), language=language, path=path)
    outside = {Role.FENCE, Role.ELSEWHERE, Role.FILE_NAME}
    ops = [LineOp("drop", j, None, line) for j, line in enumerate(lines)]
    ops += [LineOp("take", None, i, update_lines[i]) for i, role in enumerate(roles) if role not in outside]
    leaves_out = any(role in (Role.MARKER, Role.DELETION) for role in roles)
    reasons = ("the file is empty, but the snippet has a marker for code of the file",) if leaves_out else ()
    certainty = Certainty.LIKELY if leaves_out else Certainty.CERTAIN
    return Prediction(tuple(ops), tuple(update_lines), certainty, reasons, determined=not leaves_out)

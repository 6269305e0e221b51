"""Decides what happens to an answer that may be wrong.  All code that returns or writes an answer uses this policy.

The chooser of readings estimates how often a merge like this one is right.  From the threshold `apply` on, the answer
has no doubt.  Below it, the verdict `doubt` says how sure the merge is, why it is not surer, and what the next reading
would do instead.  This is a warning, and `--in-place` does not write such an answer unless the user asks for it.  Below
`refuse` the answer is more likely wrong than right.  In that case the verdict is an error, and a client that can't show
verdicts gets it instead of a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from apply_service.errors import UnknownReading
from apply_service.merge.proposal import texts_of
from apply_service.merge.rank.chooser import UNSEEN, load
from apply_service.merge.rank.question import in_words
from apply_service.merge.rank.risks import RISKS
from apply_service.protocols import EditJob
from apply_service.text.diff import unified_diff_text
from apply_service.text.lines import quote_lines
from apply_service.types import DOUBT, Certainty, LineOp, Merge, OtherReading, Prediction, Severity, Verdict, keep_all

MAX_RANGES = 3
"""A verdict names at most this many places of another reading, and at most this many reasons."""
MAX_READINGS = 5
"""An answer lists at most this many other readings."""
LEAST_TOLD = 0.01
"""Another reading is listed only if its chance is at least this."""


def chance_of(prediction: Prediction, merged: str) -> float | None:
    """Return the probability that `merged` is right, as the merger estimated it.

    The result is None if no probability was measured, or if a target (a model that writes the answer) wrote a text that
    is not a reading of the edit.
    """
    if prediction.probability is None:
        return None
    if merged == prediction.text:
        return prediction.probability
    return next((other.probability for other in prediction.readings if other.text == merged), None)


def chances_of_hunks(prediction: Prediction, merged: str, hunks: Sequence[tuple[int, int, int, int]]) -> list[float]:
    """Return, for each hunk, the probability of all readings that change these lines in the same way.

    A hunk is (a0, a1, b0, b1): lines [a0, a1) of the original become lines [b0, b1) of `merged`, which must be a
    reading.
    """
    lines = merged.split("\n")
    chances = [chance_of(prediction, merged) or 0.0] * len(hunks)
    for other in prediction.readings:
        if other.probability < LEAST_TOLD or other.text == merged:
            continue
        place = {op.original_line: at for at, op in enumerate(other.ops) if op.kind == "keep"}
        n_lines = 1 + max((op.original_line for op in other.ops if op.original_line is not None), default=-1)
        for n, (a0, a1, b0, b1) in enumerate(hunks):
            # A reading agrees if it keeps the lines around the hunk and has the same lines between them.
            start = -1 if a0 == 0 else place.get(a0 - 1)
            stop = len(other.ops) if a1 >= n_lines else place.get(a1)
            if start is not None and stop is not None:
                between = [op.text for op in other.ops[start + 1 : stop] if op.kind != "drop"]
                chances[n] += other.probability * (between == lines[b0:b1])
    return [min(1.0, chance) for chance in chances]


def chance_but_for_blanks(prediction: Prediction, merged: str) -> float:
    """Return the probability that the lines of `merged` are right except for blank lines.  `merged` must be a reading.

    The probability of a reading with a risk is limited.  Readings that differ from such a reading only in blank lines
    don't raise this limit.
    """
    chance = chance_of(prediction, merged) or 0.0
    this = next((one for one in prediction.readings if one.text == merged), None)
    if this is None or any(this.features.get(name) for name in (*RISKS, UNSEEN)):
        return chance
    code = _without_blanks(merged)
    others = (one for one in prediction.readings if one.text != merged and _without_blanks(one.text) == code)
    return min(1.0, chance + sum(one.probability for one in others))


def _without_blanks(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def find_doubt(
    job: EditJob, merged: str, *, is_by_model: bool = False, confidence: float | None = None
) -> Verdict | None:
    """Return the verdict on an answer that may be wrong; None if the answer is sure.

    The verdict is a `pass` if only blank lines may be wrong.  `is_by_model`: a target decided the text.  `confidence`:
    the answer's own probability, if it was measured.
    """
    prediction = job.prediction
    if not job.update.strip():
        return _doubt_of_instruction(job.original, merged) if job.instruction.strip() else None
    known = (prediction.text, *(one.text for one in prediction.readings))
    if merged not in known:  # also if the format determined the text
        message = f"the model read the edit in another way than this program can; {_own_lines(prediction, merged)}"
        return Verdict(DOUBT, "warning", message)
    if prediction.determined:
        return None
    if prediction.probability is None:  # the edit's format gives reasons, but no probability
        if prediction.certainty is Certainty.CERTAIN:
            return None
        reasons = "; ".join(prediction.reasons) or "it shows no line of the file"
        if prediction.certainty is Certainty.LIKELY:
            return Verdict(DOUBT, "warning", f"the place of the edit is likely, but not certain: {reasons}")
        severity: Severity = "warning" if is_by_model else "error"
        return Verdict(DOUBT, severity, f"the place of the edit is a guess: {reasons}")
    chance, thresholds = chance_of(prediction, merged) or 0.0, load().thresholds
    if chance >= thresholds.apply:
        return None
    this = next((one.ops for one in prediction.readings if one.text == merged), prediction.ops)
    # Without a reason, the verdict can only say what the answer does.
    does = f"this one would {tell_difference(keep_all(job.original), this) or 'change nothing'}"
    sure = in_words(chance if confidence is None else confidence)
    if is_by_model and confidence is None:
        sure = "how often this model is right was not measured"
    if chance_but_for_blanks(prediction, merged) >= thresholds.apply and not is_by_model:
        return Verdict(DOUBT, "pass", f"blank lines may differ; {sure}")
    others = other_readings(prediction, merged)[:1]
    said = [*(prediction.reasons[:MAX_RANGES] or [does])]
    said += [*(f"another reading would {other.difference}" for other in others), *what_to_show(this), sure]
    is_refused = chance < thresholds.refuse and not is_by_model  # a reading that a model wrote too is likelier
    question = f"Did you mean to {others[0].difference}?" if others else "Is this what you meant?"
    return Verdict(DOUBT, "error" if is_refused else "warning", "; ".join(said), question=question)


def _doubt_of_instruction(original: str, merged: str) -> Verdict:
    """Return the verdict on a text that a model wrote by itself: nothing tells how often such a text is right."""
    if merged == original:
        return Verdict(DOUBT, "warning", "the model changed nothing; say what is to change in other words")
    own = _own_lines(Prediction(keep_all(original), (), Certainty.GUESS), merged)
    return Verdict(DOUBT, "warning", f"a model wrote this from the instruction alone; {own}")


def _own_lines(prediction: Prediction, merged: str) -> str:
    """Tell which lines of a model's text stand neither in the original nor in the edit."""
    known = {op.text.strip() for op in prediction.ops} | {line.strip() for line in prediction.update_lines}
    lines = merged.split("\n")
    own = [n for n, line in enumerate(lines) if line.strip() not in known]
    if not own:
        return "all lines of its text are in the file or the edit, but look where it put them"
    return f"found in neither the file nor the edit: {_name_lines(own, dict(enumerate(lines)))}"


def what_to_show(ops: Sequence[LineOp]) -> list[str]:
    """Return what a clearer snippet would show: the hidden line beside the first new lines that stand beside one."""
    for start, stop in Merge(ops).changed:
        new = [op.text for op in ops[start:stop] if op.kind == "take" and op.text.strip()]
        for side, beside in (("below", ops[stop:]), ("above", ops[:start][::-1])):
            hidden = next((op for op in beside if op.text.strip()), None)
            if new and hidden is not None and hidden.kind == "keep" and hidden.original_line is not None:
                line = f"line {hidden.original_line + 1} ({quote_lines([hidden.text])})"
                shown = quote_lines([new[-1 if side == "below" else 0]])
                return [f"to be sure of this one, show {line} {side} {shown}"]
    return []


def reading_id(text: str) -> str:
    """Return the id of the reading that gives this text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def other_readings(prediction: Prediction, merged: str, *, path: str | None = None) -> tuple[OtherReading, ...]:
    """Return the readings whose text is not `merged`, the likeliest first.

    The result is empty if `merged` is not a reading, or if no other reading is likely enough.  With a `path`, each
    reading has its diff.
    """
    this = next((one.ops for one in prediction.readings if one.text == merged), None)
    if this is None:
        return ()
    original = "\n".join(op.text for op in this if op.original_line is not None)
    likely = (one for one in prediction.readings if one.probability >= LEAST_TOLD and one.text != merged)
    told: dict[str, OtherReading] = {}  # readings with the same description are listed once
    for one in sorted(likely, key=lambda one: -one.probability):
        difference = tell_difference(this, one.ops)
        if difference and one.way.is_whole_file:
            difference = f"take the snippet for the whole file and {difference}"
        diff = None if path is None else unified_diff_text(original, one.text, path)
        told.setdefault(difference, OtherReading(reading_id(one.text), one.probability, difference, diff))
    told.pop("", None)
    return tuple(told.values())[:MAX_READINGS]


def all_readings(prediction: Prediction, original: str, *, path: str | None = None) -> tuple[OtherReading, ...]:
    """Return the readings of an edit that gets no answer, in the order of their numbers, compared with the file.  With
    a `path`, each reading has its diff."""
    stay, first = keep_all(original), prediction.readings[:1]
    ids = [reading_id(one.text) for one in first] + [other.id for other in other_readings(prediction, prediction.text)]
    known = {reading_id(one.text): one for one in reversed(prediction.readings)}
    told = []
    for one in map(known.__getitem__, ids):
        difference = tell_difference(stay, one.ops) or "change nothing"
        diff = None if path is None else unified_diff_text(original, one.text, path)
        told.append(OtherReading(reading_id(one.text), one.probability, difference, diff))
    return tuple(told)


def choose_reading(prediction: Prediction, wanted: str) -> Prediction:
    """Return the prediction whose certain text is the reading with the id or number `wanted`.

    Number 1 is the likeliest reading.  The others follow in the order of `other_readings`.

    Raises:
        UnknownReading: there is no such reading.
    """
    others = other_readings(prediction, prediction.text)
    ids = [reading_id(prediction.text), *(other.id for other in others)]
    by_number = dict(zip(map(str, range(1, len(ids) + 1)), ids, strict=True))
    texts = {reading_id(one.text): one.ops for one in prediction.readings} | {ids[0]: prediction.ops}
    ops = texts.get(by_number.get(wanted, wanted))
    if ops is None:
        message = f"{wanted} is not one of the ways to read this edit"
        message += "; there is one, 1" if len(ids) == 1 else f"; they are 1 to {len(ids)}"
        remedy = "send the edit without `reading`; the answer lists the readings to choose from"
        raise UnknownReading(message, value=wanted, limit=ids, remedy=remedy)
    lines = texts_of(ops, prediction.update_lines)
    return replace(prediction, ops=ops, update_lines=lines, certainty=Certainty.CERTAIN, reasons=(), determined=True)


def how_sure(prediction: Prediction) -> tuple[str, str] | tuple[None, None]:
    """Return, in words, how sure the merge is and how sure it must be so as not to be refused.  Both are None if no
    probability was measured."""
    if prediction.probability is None:
        return None, None
    return in_words(prediction.probability), in_words(load().thresholds.refuse)


def tell_difference(this: Sequence[LineOp], other: Sequence[LineOp]) -> str:
    """Return what another reading does and this one does not: "keep line 3 (`x = 1`) and leave out `x = 2`".

    Lines are counted from 1.  The result is "" if the two do the same.
    """
    lines = {op.original_line: op.text for op in this if op.original_line is not None}
    gone, gone_there = (
        {op.original_line for op in ops if op.kind == "drop" and op.original_line is not None} for ops in (this, other)
    )
    new, new_there = ([op.text.strip() for op in ops if op.kind == "take" and op.text.strip()] for ops in (this, other))
    kept, removed = (
        [j for j in sorted(a - b) if lines[j].strip()] for a, b in ((gone, gone_there), (gone_there, gone))
    )
    added, left_out = ([*(Counter(a) - Counter(b)).elements()] for a, b in ((new_there, new), (new, new_there)))
    said = [f"keep {_name_lines(kept, lines)}"] if kept else []
    if removed and added:
        said.append(f"replace {_name_lines(removed, lines)} by {quote_lines(added)}")
    else:
        said += [f"remove {_name_lines(removed, lines)}"] if removed else []
        said += [f"add {quote_lines(added)}"] if added else []
    said += [f"leave out {quote_lines(left_out)}"] if left_out else []
    if not said and (places := _moved(this, other)):
        text, at = places
        said = [f"put {quote_lines([text])} " + (f"below line {at}" if at else "at the start of the file")]
    if said:
        return " and ".join(said)
    blank = [op.text for op in this if op.kind != "drop"] != [op.text for op in other if op.kind != "drop"]
    return "have other blank lines" if blank else ""


def _moved(this: Sequence[LineOp], other: Sequence[LineOp]) -> tuple[str, int] | None:
    """Return the first new line that the other reading puts below a different line of the original, and the number of
    that line."""
    found: list[list[tuple[str, int]]] = [[], []]
    for places, ops in zip(found, (this, other), strict=True):
        at = 0
        for op in ops:
            at = op.original_line + 1 if op.original_line is not None and op.text.strip() else at
            if op.kind == "take" and op.text.strip():
                places.append((op.text.strip(), at))
    return next((there for here, there in zip(*found, strict=False) if here != there), None)


def _name_lines(numbers: Sequence[int], lines: Mapping[int, str]) -> str:
    """Return lines by number and text: `line 3 (`x = 1`)`, `lines 3-5 and 9 (`x = 1` ...)`."""
    ranges: list[list[int]] = []
    for j in numbers:
        if ranges and all(not lines[k].strip() for k in range(ranges[-1][1] + 1, j)):
            ranges[-1][1] = j
        else:
            ranges.append([j, j])
    shown = [f"{a + 1}" if a == b else f"{a + 1}-{b + 1}" for a, b in ranges[:MAX_RANGES]]
    more = ["more"] if len(ranges) > MAX_RANGES else []
    told = quote_lines([lines[j] for j in numbers])
    return f"line{'s' if len(numbers) > 1 else ''} {', '.join([*shown, *more])} ({told})"

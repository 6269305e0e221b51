"""The edit fuzzer: real files, random edits, random styles, then the deterministic merger, and what must always hold.

A failure is an exception that is not an ApplyError, a prediction whose operations contradict themselves, or a wrong
answer that calls itself certain.  Wrong answers that say they may be wrong, and refusals, are counted.  Every case can
be drawn again from (seed, number) alone.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from apply_eval.mutate import mutate
from apply_eval.render import search_replace, unified_diff
from apply_eval.sketch import draw_style, sketch
from apply_service.edits.fidelity import normalise, restore
from apply_service.errors import ApplyError
from apply_service.registry import EDIT_FORMATS, resolve
from apply_service.types import Certainty, LineOp, Prediction

FuzzFormat = Literal["lazy_snippet", "search_replace", "unified_diff"]
FORMATS: tuple[FuzzFormat, ...] = ("lazy_snippet", "search_replace", "unified_diff")
FORMAT_WEIGHTS = {"lazy_snippet": 8, "search_replace": 1, "unified_diff": 1}
MAX_TRIES = 50


@dataclass(frozen=True, slots=True)
class FuzzSource:
    """A real text, and where it is known a real change of it."""

    before: str
    after: str | None
    language: str | None
    path: str | None


@dataclass(frozen=True, slots=True)
class FuzzCase:
    """One edit to merge.  `before` and `after` have the line ends of the case, `update` has LF."""

    name: str
    """`seed-number`: draws this case again."""
    before: str
    after: str
    update: str
    format: FuzzFormat
    language: str | None
    path: str | None
    style: object = None


@dataclass(frozen=True, slots=True)
class FuzzFailure:
    """A case that broke a promise; `kind` is one of the three, `what` says it in full."""

    case: FuzzCase
    kind: Literal["wrong but certain", "exception", "contradictory operations"]
    what: str
    answer: str | None = None


@dataclass(slots=True)
class FuzzReport:
    """Counts of a run.  `outcomes`: exact, refused, or wrong by certainty, each by format."""

    n_cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    n_wrong_outside: int = 0
    """Wrong answers, none of them certain, that lost a line which the edit does not touch."""
    failures: list[FuzzFailure] = field(default_factory=list)


def draw_case(
    sources: Sequence[FuzzSource], *, seed: int, number: int, formats: Sequence[FuzzFormat] = FORMATS
) -> FuzzCase | None:
    """Case `number` of a run; None where no edit that can be shown was drawn in many tries."""
    name = f"{seed}-{number}"
    rng = random.Random(name)
    for _ in range(MAX_TRIES):
        case = _draw_once(rng.choice(sources), rng, name, formats)
        if case is not None:
            return case
    return None


def _draw_once(source: FuzzSource, rng: random.Random, name: str, formats: Sequence[FuzzFormat]) -> FuzzCase | None:
    before = normalise(source.before)
    is_real = source.after is not None and rng.random() < 0.5
    after = normalise(source.after) if is_real and source.after is not None else mutate(before, rng)
    chosen = rng.choices(formats, [FORMAT_WEIGHTS[name] for name in formats])[0]
    style = draw_style(rng, clean=rng.random() < 0.5)
    if chosen == "lazy_snippet":
        drawn = sketch(before, after, language=source.language, path=source.path, style=style, rng=rng)
        update = drawn.update if drawn else None
    elif chosen == "search_replace":
        update = search_replace(before, after, context=rng.randrange(4))
    else:
        update = unified_diff(before, after, path=source.path or "file", context=rng.randrange(1, 4))
    if not update:
        return None
    if rng.random() < 0.1:
        before, after = before.replace("\n", "\r\n"), after.replace("\n", "\r\n")
    return FuzzCase(name, before, after, update, chosen, source.language, source.path, style)


def fuzz(
    sources: Sequence[FuzzSource],
    *,
    seed: int,
    numbers: Sequence[int],
    formats: Sequence[FuzzFormat] = FORMATS,
    on_case: Callable[[], object] = lambda: None,
) -> FuzzReport:
    """Draw and judge the cases `numbers`."""
    report = FuzzReport()
    for number in numbers:
        case = draw_case(sources, seed=seed, number=number, formats=formats)
        if case is not None:
            report.n_cases += 1
            _judge(case, report)
        on_case()
    return report


def _judge(case: FuzzCase, report: FuzzReport) -> None:
    original = normalise(case.before)
    try:
        edit_format = resolve(EDIT_FORMATS, case.format)()
        prediction: Prediction = edit_format.predict(original, case.update, language=case.language, path=case.path)
        answer = restore(case.before, prediction.ops)
    except ApplyError as refusal:
        report.outcomes[f"{case.format}: refused ({refusal.code})"] += 1
        return
    except Exception as crash:
        report.failures.append(FuzzFailure(case, "exception", f"{type(crash).__name__}: {crash}"))
        return
    faults = list(contradictions(original, prediction))
    if faults:
        report.failures.append(FuzzFailure(case, "contradictory operations", faults[0]))
    _count(case, prediction, answer, report)


def _count(case: FuzzCase, prediction: Prediction, answer: str, report: FuzzReport) -> None:
    is_sure = prediction.certainty is Certainty.CERTAIN or prediction.determined
    outcome = "exact" if answer == case.after else "wrong"
    report.outcomes[f"{case.format}: {outcome}, {prediction.certainty.value}"] += 1
    if outcome == "exact":
        return
    if is_sure:
        report.failures.append(FuzzFailure(case, "wrong but certain", outcome, answer))
    elif lost_lines(case.before, case.after, answer):
        report.n_wrong_outside += 1


def lost_lines(before: str, after: str, answer: str) -> list[str]:
    """Lines that the true edit leaves alone and the answer lacks."""
    kept = Counter(before.split("\n")) & Counter(after.split("\n"))
    return sorted((kept - Counter(answer.split("\n"))).elements())


def contradictions(original: str, prediction: Prediction) -> Iterator[str]:
    """What in a prediction breaks the contract of `LineOp`."""
    lines = original.split("\n")
    from_original = [op for op in prediction.ops if op.kind != "take"]
    if [op.original_line for op in from_original] != list(range(len(lines))):
        yield "keep, both and drop do not cover the original in order"
        return
    for op in from_original:
        if op.original_line is None or op.text != lines[op.original_line]:
            yield f"{op.kind} of line {op.original_line} changes its text"
    yield from _update_contradictions(prediction)


def _update_contradictions(prediction: Prediction) -> Iterator[str]:
    """Only a final newline may come from no line of the update."""
    shown = [op for op in prediction.ops if op.kind in {"both", "take"}]
    for op in shown:
        if op.update_line is None:
            if op.kind == "both" or op.text:
                yield f"{op.kind} names no update line"
        elif not 0 <= op.update_line < len(prediction.update_lines):
            yield f"{op.kind} names update line {op.update_line}"
        elif op.kind == "take" and op.text != prediction.update_lines[op.update_line]:
            yield f"take of update line {op.update_line} differs from it"
    used = [op.update_line for op in shown if op.update_line is not None]
    if len(set(used)) != len(used):
        yield "an update line is used twice"
    yield from _order_contradictions(prediction.ops)


def _order_contradictions(ops: Sequence[LineOp]) -> Iterator[str]:
    """Where lines are replaced, the drops come before the takes."""
    for first, second in pairwise(ops):
        if first.kind == "take" and second.kind == "drop":
            yield f"a take before the drop of line {second.original_line}"
            return

"""The edit fuzzer: real files, random edits, random styles, then the deterministic merger, and what must always hold.

A failure is an exception that is not an ApplyError, a prediction whose operations contradict themselves, or a wrong
answer that calls itself certain.  Wrong answers that say they may be wrong, and refusals, are counted.  Every case can
be drawn again from (seed, number) alone.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Literal

from rich.console import Console

from apply_eval.datasets import read_rows
from apply_eval.errors import DataError
from apply_eval.git_repo import GitRepo
from apply_eval.merge import coloured_diff
from apply_eval.mine import language_name
from apply_eval.render import search_replace
from apply_eval.sketch import draw_style, sketch
from apply_service.edits.diff import unified_diff_text
from apply_service.edits.fidelity import normalise, restore
from apply_service.errors import ApplyError
from apply_service.registry import EDIT_FORMATS, resolve
from apply_service.types import Certainty, Prediction

FuzzFormat = Literal["lazy_snippet", "search_replace", "unified_diff"]
FORMATS: tuple[FuzzFormat, ...] = ("lazy_snippet", "search_replace", "unified_diff")
FORMAT_WEIGHTS = {"lazy_snippet": 8, "search_replace": 1, "unified_diff": 1}
MAX_TRIES = 50
MAX_CHARS = 200_000
MAX_SHOWN = 20


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
        update = unified_diff_text(before, after, source.path or "file")
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
    outcome = "exact" if answer == case.after else "wrong"
    report.outcomes[f"{case.format}: {outcome}, {prediction.certainty.value}"] += 1
    if outcome == "exact":
        return
    if prediction.certainty is Certainty.CERTAIN or prediction.determined:
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
    shown = [op for op in prediction.ops if op.kind in {"both", "take"}]
    for op in shown:
        if op.update_line is None:
            if op.kind == "both" or op.text:  # only a final newline may come from no line of the update
                yield f"{op.kind} names no update line"
        elif not 0 <= op.update_line < len(prediction.update_lines):
            yield f"{op.kind} names update line {op.update_line}"
        elif op.kind == "take" and op.text != prediction.update_lines[op.update_line]:
            yield f"take of update line {op.update_line} differs from it"
    used = [op.update_line for op in shown if op.update_line is not None]
    if len(set(used)) != len(used):
        yield "an update line is used twice"
    for first, second in pairwise(prediction.ops):
        if first.kind == "take" and second.kind == "drop":
            yield f"a take before the drop of line {second.original_line}"
            return


# -- random edits: for where real changes are too few or too tame; what comes out need not compile ---------------------
Lines = list[str]
Mutation = Callable[[Lines, random.Random], Lines]

_WORD = re.compile(r"[A-Za-z_]\w{2,}")
_NUMBER = re.compile(r"\b\d+\b")
_FILLERS = ("value", "count", "result", "item", "config", "handler", "buffer", "state", "offset", "label")


def mutate(text: str, rng: random.Random) -> str:
    """The text after one to four random edits; its final newline, or lack of one, stays."""
    ends = text.endswith("\n")
    lines = text.split("\n")[:-1] if ends else text.split("\n")
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        mutation = rng.choices(MUTATIONS, WEIGHTS)[0]
        lines = mutation(lines, rng)
    return "\n".join([*lines, ""]) if ends and lines else "\n".join(lines)


def _stretch(lines: Sequence[str], rng: random.Random, longest: int) -> tuple[int, int]:
    """A random half-open range of lines, short ones more often."""
    n_lines = min(rng.choice((1, 1, 2, 3, 5, longest)), max(len(lines), 1))
    start = rng.randrange(max(len(lines) - n_lines, 0) + 1)
    return start, min(start + n_lines, len(lines))


def _renamed(line: str, rng: random.Random) -> str:
    """The line with one identifier (or a number) changed."""
    words = [w for w in set(_WORD.findall(line)) if not w.isupper()]
    if words:
        word = rng.choice(sorted(words))
        other = rng.choice((f"{word}_{rng.choice(_FILLERS)}", f"new_{word}", rng.choice(_FILLERS)))
        return re.sub(rf"\b{re.escape(word)}\b", other, line, count=1)
    if _NUMBER.search(line):
        return _NUMBER.sub(str(rng.randrange(1000)), line, count=1)
    return line


def insert_lines(lines: Lines, rng: random.Random) -> Lines:
    """New lines in the likeness of a stretch of the file."""
    start, stop = _stretch(lines, rng, 12)
    new = [_renamed(line, rng) for line in lines[start:stop]]
    at = rng.randrange(len(lines) + 1)
    return [*lines[:at], *new, *lines[at:]]


def delete_lines(lines: Lines, rng: random.Random) -> Lines:
    start, stop = _stretch(lines, rng, 12)
    return [*lines[:start], *lines[stop:]] if stop - start < len(lines) else lines


def change_lines(lines: Lines, rng: random.Random) -> Lines:
    """A stretch with words changed on each line."""
    start, stop = _stretch(lines, rng, 6)
    return [*lines[:start], *(_renamed(line, rng) for line in lines[start:stop]), *lines[stop:]]


def move_lines(lines: Lines, rng: random.Random) -> Lines:
    start, stop = _stretch(lines, rng, 10)
    moved, rest = lines[start:stop], [*lines[:start], *lines[stop:]]
    at = rng.randrange(len(rest) + 1)
    return [*rest[:at], *moved, *rest[at:]]


def rename_word(lines: Lines, rng: random.Random) -> Lines:
    """One identifier renamed everywhere within a region."""
    start = rng.randrange(max(len(lines), 1))
    region = lines[start : start + 40]
    words = sorted({word for line in region for word in _WORD.findall(line)})
    if not words:
        return lines
    word = rng.choice(words)
    pattern, other = re.compile(rf"\b{re.escape(word)}\b"), f"{word}_{rng.choice(_FILLERS)}"
    return [*lines[:start], *(pattern.sub(other, line) for line in region), *lines[start + 40 :]]


def wrap_block(lines: Lines, rng: random.Random) -> Lines:
    """A stretch indented one step deeper under a new line."""
    start, stop = _stretch(lines, rng, 8)
    lead = lines[start][: len(lines[start]) - len(lines[start].lstrip())] if start < len(lines) else ""
    step = "\t" if "\t" in lead else "    "
    body = [step + line if line.strip() else line for line in lines[start:stop]]
    return [*lines[:start], f"{lead}if {rng.choice(_FILLERS)}:", *body, *lines[stop:]]


MUTATIONS: tuple[Mutation, ...] = (insert_lines, delete_lines, change_lines, move_lines, rename_word, wrap_block)
WEIGHTS = (5, 3, 5, 1, 2, 1)


# -- real files --------------------------------------------------------------------------------------------------------
def sources_of_data(path: Path, *, limit: int, seed: int) -> list[FuzzSource]:
    """Changes of a JSONL file with `before` and `after`, at most `limit`, drawn by `seed`.

    Raises:
        DataError: no such file, a line without those fields, or no usable change.
    """
    rows = [row for _, row in read_rows(path)]
    if any(not isinstance(row.get(name), str) for row in rows for name in ("before", "after")):
        raise DataError(f"{path.name} holds rows without `before` or `after`", value=str(path))
    random.Random(seed).shuffle(rows)
    found = (FuzzSource(row["before"], row["after"], row.get("language"), row.get("path")) for row in rows)
    return _usable(found, limit, str(path))


def sources_of_repo(path: Path, *, limit: int, seed: int, max_commits: int = 2000) -> list[FuzzSource]:
    """Changed files of a repository's history, at most `limit`, drawn by `seed`.

    Raises:
        GitError: no repository there.
        DataError: no usable change in its history.
    """
    repo = GitRepo(path)
    changes = [change for change in repo.changes(max_commits=max_commits) if language_name(change.path)]
    random.Random(seed).shuffle(changes)
    texts = ((change.path, repo.text(change.old_blob), repo.text(change.new_blob)) for change in changes)
    found = (FuzzSource(a, b, language_name(p), p) for p, a, b in texts if a is not None and b is not None)
    return _usable(found, limit, str(path))


def sources_of_folder(path: Path, *, limit: int, seed: int) -> list[FuzzSource]:
    """Text files under a folder in a language that is known, at most `limit`, drawn by `seed`; no real changes.

    Raises:
        DataError: no usable file.
    """
    files = sorted(p for p in path.rglob("*") if p.is_file() and language_name(p.name))
    random.Random(seed).shuffle(files)
    texts = ((file, file.read_bytes().decode("utf-8", "replace")) for file in files)
    found = (FuzzSource(x, None, language_name(p.name), p.relative_to(path).as_posix()) for p, x in texts)
    return _usable((source for source in found if "\ufffd" not in source.before), limit, str(path))


def _usable(found: Iterator[FuzzSource], limit: int, place: str) -> list[FuzzSource]:
    texts = (s for s in found if s.before.count("\n") >= 3 and len(s.before) <= MAX_CHARS and "\0" not in s.before)
    sources = list(islice(texts, limit))
    if not sources:
        raise DataError(f"{place} holds no usable file", value=0, limit=1, remedy="give --data, --repo or --folder")
    return sources


# -- on the terminal ---------------------------------------------------------------------------------------------------
def print_report(console: Console, report: FuzzReport) -> None:
    """Failures first, wrong answers before contradictions; the counts last."""
    for failure in sorted(report.failures, key=lambda failure: failure.kind, reverse=True)[:MAX_SHOWN]:
        seed, _, number = failure.case.name.rpartition("-")
        again = f"again with --seed {seed} --only {number}"
        console.print(f"\n[bold red]{failure.kind}[/] ({failure.what}): {again}", highlight=False)
        if failure.answer is not None:
            console.print(coloured_diff(failure.case.after, failure.answer))
    for kind, count in Counter(failure.kind for failure in report.failures).items():
        console.print(f"{count:7d}  failed: {kind}", highlight=False)
    for name, count in sorted(report.outcomes.items()):
        console.print(f"{count:7d}  {name}", highlight=False)
    console.print(
        f"{report.n_cases} cases, {len(report.failures)} failures, "
        f"{report.n_wrong_outside} answers not called certain that lost a line outside the edit"
    )


def print_case(
    console: Console, sources: Sequence[FuzzSource], *, seed: int, number: int, formats: Sequence[FuzzFormat]
) -> None:
    """One case in full: the wanted change, and the update that shows it."""
    case = draw_case(sources, seed=seed, number=number, formats=formats)
    if case is None:
        console.print("no edit that can be shown was drawn")
        return
    console.rule(f"{case.format}, {case.language}, {case.path}")
    console.print(coloured_diff(case.before, case.after))
    console.rule("update")
    console.print(case.update, markup=False, highlight=False)
    console.rule()

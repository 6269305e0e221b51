"""Answers for the checks' benchmarks: real edits with their true merge, and ways to spoil an answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from apply_eval.datasets import read_rows
from apply_eval.sketch import draw_style, sketch
from apply_service.protocols import CheckInput
from apply_service.syntax.imports import find_imports
from apply_service.syntax.languages import detect_language, line_comment
from apply_service.syntax.scopes import find_scopes
from apply_service.types import Certainty, FinishReason, LineOp, Prediction

SKETCH_TRIES = 3


@dataclass(frozen=True, slots=True)
class Case:
    """A real edit of a whole file and a snippet for it, with the snippet's true merge."""

    path: str
    language: str | None
    before: str
    after: str
    update: str
    ops: tuple[LineOp, ...]

    def answer(self, merged: str, certainty: Certainty) -> CheckInput:
        """An answer to the edit, beside a prediction that is right but trusted only so far."""
        lines = self.update.split("\n")
        for op in self.ops:
            if op.kind == "take" and op.update_line is not None:
                lines[op.update_line] = op.text
        prediction = Prediction(self.ops, tuple(lines), certainty)
        return CheckInput(self.before, merged, self.update, prediction, self.language, FinishReason.STOP)


def read_cases(path: Path, *, limit: int, seed: int, min_lines: int = 0) -> Iterator[Case]:
    """Sketched edits of the data set's whole files, in random order."""
    rng = random.Random(seed)
    rows = [row for _, row in read_rows(path) if row.get("whole_file", True)]
    rng.shuffle(rows)
    n_found = 0
    for row in rows:
        before, after = (str(row[name]).replace("\r\n", "\n") for name in ("before", "after"))
        language = detect_language(name=str(row["language"]), path=str(row["path"]))
        for _ in range(SKETCH_TRIES if before.count("\n") >= min_lines else 0):
            style = draw_style(rng, clean=rng.random() < 0.5)
            found = sketch(before, after, language=language, path=str(row["path"]), style=style, rng=rng)
            if found is not None:
                yield Case(str(row["path"]), language, before, after, found.update, found.ops)
                n_found += 1
                break
        if n_found >= limit:
            return


def drop_scope(case: Case, rng: random.Random) -> str | None:
    """A function, class or key that the edit does not touch is gone."""
    lines = case.after.split("\n")
    touched = {op.text.strip() for op in case.ops if op.kind in ("take", "both") and len(op.text.strip()) > 3}
    scopes = [
        scope
        for scope in find_scopes(case.after, case.language)
        if scope.kind != "block"
        and 3 <= scope.end_line - scope.start_line < len(lines) / 2
        and not touched & {line.strip() for line in lines[scope.start_line : scope.end_line]}
    ]
    if not scopes:
        return None
    scope = rng.choice(scopes)
    return "\n".join(lines[: scope.start_line] + lines[scope.end_line :])


def drop_import(case: Case, rng: random.Random) -> str | None:
    lines = case.after.split("\n")
    taken = {op.text for op in case.ops if op.kind == "take"}
    found = [item for item in find_imports(case.after, case.language) if item.end_line - item.start_line == 1]
    found = [item for item in found if lines[item.start_line] not in taken]
    if not found:
        return None
    item = rng.choice(found)
    return "\n".join(lines[: item.start_line] + lines[item.end_line :])


def cut_tail(case: Case, rng: random.Random) -> str | None:
    at = int(len(case.after) * rng.uniform(0.3, 0.95))
    return case.after[:at] if case.after.count("\n") >= 12 and case.after[at:].strip() else None


def leave_marker(case: Case, rng: random.Random) -> str | None:
    lines = case.after.split("\n")
    if len(lines) < 15:
        return None
    at = rng.randrange(2, len(lines) - 8)
    words = rng.choice(("... existing code ...", "... rest of the code ...", "rest of the file remains unchanged"))
    sign = (*line_comment(case.language), "//")[0]
    return "\n".join([*lines[:at], f"{sign} {words}", *lines[at + rng.randint(3, 6) :]])


def break_bracket(case: Case, rng: random.Random) -> str | None:
    places = [place for place, char in enumerate(case.after) if char in "(){}[]"]
    if not places or case.language == "markdown":
        return None
    place = rng.choice(places)
    return case.after[:place] + case.after[place + 1 :]


def double_block(case: Case, rng: random.Random) -> str | None:
    lines = case.after.split("\n")
    if len(lines) < 15:
        return None
    at, size = rng.randrange(len(lines) - 10), rng.randint(4, 9)
    return "\n".join(lines[: at + size] + lines[at : at + size] + lines[at + size :])


def dedent_block(case: Case, rng: random.Random) -> str | None:
    lines = case.after.split("\n")
    inside = [n for n, line in enumerate(lines) if line[:2].isspace() and any(char.isalnum() for char in line)]
    if not inside:
        return None
    at = rng.choice(inside)
    unit = next(unit for unit in ("\t", "    ", "  ", " ") if lines[at].startswith(unit))
    end = min(at + 3, len(lines))
    return "\n".join([*lines[:at], *(line.removeprefix(unit) for line in lines[at:end]), *lines[end:]])


def wrap_in_fence(case: Case, rng: random.Random) -> str | None:
    return f"```{rng.choice(('', case.language or ''))}\n{case.after}```\n"


def wrap_in_tag(case: Case, rng: random.Random) -> str | None:
    tag = rng.choice(("updated-code", "code"))
    return f"<{tag}>{case.after}</{tag}>"


def say_something(case: Case, rng: random.Random) -> str | None:
    return f"{rng.choice(('Here is the updated code:', 'Sure! The merged file:'))}\n\n{case.after}"


def change_nothing(case: Case, _rng: random.Random) -> str | None:
    return case.before


def leave_out_line(case: Case, rng: random.Random) -> str | None:
    """One of the edit's new lines did not arrive."""
    written = [op for op in case.ops if op.kind != "drop"]
    new = [number for number, op in enumerate(written) if op.kind == "take" and op.text.strip()]
    if len(new) < 2:
        return None
    lost = rng.choice(new)
    return "\n".join(op.text for number, op in enumerate(written) if number != lost)


def mistype(case: Case, rng: random.Random) -> str | None:
    lines = case.after.split("\n")
    long = [number for number, line in enumerate(lines) if len(line.strip()) > 10]
    if not long:
        return None
    at = rng.choice(long)
    return "\n".join([*lines[:at], lines[at].replace("e", "3") + "x", *lines[at + 1 :]])


SPOILERS: dict[str, Callable[[Case, random.Random], str | None]] = {
    "drop_scope": drop_scope,
    "drop_import": drop_import,
    "cut_tail": cut_tail,
    "leave_marker": leave_marker,
    "break_bracket": break_bracket,
    "double_block": double_block,
    "dedent_block": dedent_block,
    "wrap_in_fence": wrap_in_fence,
    "wrap_in_tag": wrap_in_tag,
    "say_something": say_something,
    "change_nothing": change_nothing,
    "leave_out_line": leave_out_line,
    "mistype": mistype,
}
"""Each makes a wrong answer of a right one; None where the file has no place for it."""

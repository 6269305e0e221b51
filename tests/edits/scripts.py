"""Edits drawn at random and written in every format, without any code under test.

A script is the edit itself: lines that stay, go and come.  Both texts and every rendering follow from it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from apply_service.formats.patch import FailedChange, PatchedFile, apply_changes
from apply_service.types import LineOp, Prediction

NASTY = (
    "@@ -1 +1 @@",
    "@@",
    "--- a/x",
    "+++ b/x",
    "-- x",
    "++ x",
    "diff --git a/x b/x",
    "*** End Patch",
    "*** Update File: y",
    "*** End of File",
    "\\ No newline at end of file",
    "```",
    "",
    "    ",
    "\treturn",
    "# ... existing code ...",
    "}",
    "trailing  ",
)
"""Content that looks like control, in formats that prefix every line."""


@dataclass(frozen=True, slots=True)
class Script:
    steps: tuple[tuple[str, str], ...]
    """(sign, line); the sign is "=", "-" or "+"."""
    has_newline: bool = True

    @property
    def before(self) -> str:
        return self._text("+")

    @property
    def after(self) -> str:
        return self._text("-")

    def _text(self, absent: str) -> str:
        lines = [line for sign, line in self.steps if sign != absent]
        return "\n".join(lines) + ("\n" if self.has_newline and lines else "")


def draw_script(rng: random.Random, lines: tuple[str, ...] = (), n_lines: int = 40) -> Script:
    """A random edit of a file of lines that occur once, or of `lines` over and over; a line stays at least."""
    steps: list[tuple[str, str]] = []
    for i in range(rng.randrange(2, n_lines)):
        line = rng.choice(lines) if lines and rng.random() < 0.6 else f"{'    ' * rng.randrange(3)}line {i}"
        draw = rng.random()
        if draw < 0.12:
            steps += [("-", line), ("+", f"{line} changed")]
        elif draw < 0.2:
            steps.append(("-", line))
        else:
            steps.append(("=", line))
        if rng.random() < 0.1:
            steps += [("+", rng.choice(lines) if lines else f"    new {i}.{k}") for k in range(rng.randrange(1, 4))]
    if not any(sign == "=" for sign, _ in steps):
        steps.append(("=", "last"))
    if all(sign == "=" for sign, _ in steps):
        steps.append(("+", "new"))
    has_newline = rng.random() < 0.8
    if not has_newline and (steps[-1][0] != "=" or not steps[-1][1]):
        steps.append(("=", "the end"))  # else the last line that stays would change too, by its line end
    return Script(tuple(_drops_first(steps)), has_newline)


def _drops_first(steps: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Runs of changes with what goes before what comes, as diffs write them."""
    run: list[tuple[str, str]] = []
    for step in steps:
        if step[0] == "=":
            yield from sorted(run, key=lambda s: s[0] == "+")
            yield step
            run = []
        else:
            run.append(step)
    yield from sorted(run, key=lambda s: s[0] == "+")


def pieces(script: Script, context: int) -> list[tuple[int, int, list[tuple[str, str]]]]:
    """Hunks as (0-based old start, 0-based new start, steps)."""
    steps = script.steps
    near = [any(s != "=" for s, _ in steps[max(0, i - context) : i + context + 1]) for i in range(len(steps))]
    found: list[tuple[int, int, list[tuple[str, str]]]] = []
    old = new = 0
    for i, (sign, line) in enumerate(steps):
        if near[i]:
            if not (i and near[i - 1]):
                found.append((old, new, []))
            found[-1][2].append((sign, line))
        old += sign != "+"
        new += sign != "-"
    return found


def as_diff(script: Script, context: int = 3, *, path: str = "dir/x.py") -> str:
    """What git would write."""
    out = [f"--- a/{path}", f"+++ b/{path}"]
    n_old, n_new = (sum(s != absent for s, _ in script.steps) for absent in "+-")
    for old, new, steps in pieces(script, context):
        a, b = (sum(s != absent for s, _ in steps) for absent in "+-")
        out.append(f"@@ -{old + (a > 0)},{a} +{new + (b > 0)},{b} @@")
        for k, (sign, line) in enumerate(steps):
            out.append({"=": " "}.get(sign, sign) + line)
            rest = [s for s, _ in steps[k + 1 :]]
            ends_old = sign != "+" and old + a == n_old and not any(s != "+" for s in rest)
            ends_new = sign != "-" and new + b == n_new and not any(s != "-" for s in rest)
            if not script.has_newline and (ends_old or ends_new):
                out.append("\\ No newline at end of file")
    return "\n".join(out) + "\n"


def as_v4a(script: Script, context: int = 3, *, path: str = "dir/x.py") -> str:
    out = ["*** Begin Patch", f"*** Update File: {path}"]
    for _, _, steps in pieces(script, context):
        out += ["@@", *({"=": " "}.get(sign, sign) + line for sign, line in steps)]
    return "\n".join([*out, "*** End Patch"])


FENCES = {
    "aider": ("<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"),
    "cline": ("------- SEARCH", "=======", "+++++++ REPLACE"),
    "void": ("<<<<<<< ORIGINAL", "=======", ">>>>>>> UPDATED"),
}


def as_blocks(script: Script, context: int = 3, *, style: str = "aider") -> str:
    opening, divider, closing = FENCES[style]
    out: list[str] = []
    for _, _, steps in pieces(script, context):
        old = [line for sign, line in steps if sign != "+"]
        new = [line for sign, line in steps if sign != "-"]
        out += [opening, *old, divider, *new, closing, ""]
    return "\n".join(out)


def assert_contract(prediction: Prediction, original: str, update: str) -> None:
    """What types.LineOp and types.Prediction promise."""
    lines = original.split("\n")
    ops = prediction.ops
    assert [op.original_line for op in ops if op.kind != "take"] == list(range(len(lines)))
    assert all(op.text == lines[op.original_line] for op in ops if op.original_line is not None)
    assert len(prediction.update_lines) == len(update.split("\n"))
    for op in ops:
        assert (op.original_line is None) == (op.kind == "take")
        assert (op.update_line is not None) == (op.kind in ("both", "take"))
        if op.kind == "take":
            assert op.update_line is not None
            assert prediction.update_lines[op.update_line] == op.text
    assert not any(_takes_then_drops(a, b) for a, b in pairwise(ops))
    assert prediction.determined == (prediction.certainty == "certain")


def _takes_then_drops(a: LineOp, b: LineOp) -> bool:
    return a.kind == "take" and b.kind == "drop"


def apply_patch(patch_text: str, files: Mapping[str, str]) -> tuple[PatchedFile, ...]:
    """Every file that the patch touches, in its order.  Raises the error of the first that it can't be applied to."""
    patched = []
    for result in apply_changes(patch_text, files):
        if isinstance(result, FailedChange):
            raise result.error
        patched.append(result)
    return tuple(patched)

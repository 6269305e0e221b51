"""What chat models lose or add on the lines of a snippet: remarks, misquotes, trailing space, indentation.

Each keeps the snippet clear: the original's wording of a context line wins, and indentation changes as a whole.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from rapidfuzz import fuzz

from apply_eval.outline import is_definition
from apply_eval.sketch_lines import SketchLine, lead_of
from apply_eval.sketch_styles import CommentSyntax, SketchStyle

MAX_MISQUOTES = 2
MIN_LIKENESS = 75.0
"""How alike (0-100) a misquoted line stays to its original."""
_REMARKS = ("<- changed", "<-- new", "NEW", "<- added", "CHANGED", "<- fixed", "updated", "<-- modified")
_NO_REMARK_AFTER = ("\\", "`", '"""', "'''", "{", "*/")
_IDLE_WORDS = frozenset(
    {
        "the",
        "a",
        "an",
        "that",
        "just",
        "really",
        "also",
        "currently",
        "simply",
        "then",
        "very",
        "already",
        "own",
        "given",
    }
)
_PROSE = frozenset({"markdown", "html"})


def spoil(
    lines: list[SketchLine], style: SketchStyle, syntax: CommentSyntax, language: str, rng: random.Random
) -> list[SketchLine]:
    """The lines as a careless writer gives them; roles and order stay."""
    if style.remark and not syntax.closing and language not in _PROSE:
        lines = [_with_remark(line, style.remark, syntax.opening, rng) for line in lines]
    if style.misquote and not style.whole_file:
        lines = _misquoted(lines, style.misquote, syntax.opening, rng)
    if style.strip_trailing_space and not any(x.role == "new" and x.text != x.text.rstrip() for x in lines):
        lines = [replace(x, text=x.text.rstrip()) if x.role == "context" else x for x in lines]
    if style.indentation == "dedent":
        return _dedented(lines)
    return lines if style.indentation == "same" else _reindented(lines, style.indentation)


def _with_remark(line: SketchLine, share: float, sign: str, rng: random.Random) -> SketchLine:
    text = line.text.rstrip()
    if line.role != "new" or not text or text.endswith(_NO_REMARK_AFTER) or rng.random() > share:
        return line
    return replace(line, text=f"{line.text}  {sign} {rng.choice(_REMARKS)}", has_remark=True)


def _misquoted(lines: Sequence[SketchLine], share: float, sign: str, rng: random.Random) -> list[SketchLine]:
    """A few context lines away from new ones and from each other, as a model remembers them."""
    spoilt = list(lines)
    n_wrong = 0
    at = 1
    while at < len(lines) - 1 and n_wrong < MAX_MISQUOTES:
        is_apart = all(x.role in {"context", "marker"} for x in lines[at - 1 : at + 2])
        if lines[at].role == "context" and is_apart and rng.random() <= share:
            wrong = _misquote(lines[at].text, sign, rng)
            if wrong.strip() and wrong != lines[at].text and fuzz.ratio(wrong, lines[at].text) >= MIN_LIKENESS:
                spoilt[at] = replace(lines[at], text=wrong)
                n_wrong += 1
                at += 1
        at += 1
    return spoilt


def _misquote(text: str, comment: str, rng: random.Random) -> str:
    """A context line as a model remembers it: a comment with an idle word less, a head without its return type or with
    a shortened argument list; others stay."""
    stripped = text.strip()
    if stripped.startswith((comment, "*", "/*")):
        words = text.split(" ")
        idle = [i for i, word in enumerate(words) if word in _IDLE_WORDS]
        if idle:
            del words[rng.choice(idle)]
        return " ".join(words)
    if is_definition(text):
        shorter = re.sub(r"\s*->\s*[^:{]+(?=[:{]\s*$)", " " if stripped.endswith("{") else "", text)
        return shorter if shorter != text else re.sub(r",\s*\w+[^,()]*\)", ", ...)", text, count=1)
    return text


def _dedented(lines: list[SketchLine]) -> list[SketchLine]:
    leads = [lead_of(line.text) for line in lines if line.text.strip() and line.role != "marker"]
    common = _common_start(leads)
    if not common:
        return lines
    return [
        replace(x, text=x.text.removeprefix(common) if x.text.startswith(common) else x.text.lstrip()) for x in lines
    ]


def _reindented(lines: list[SketchLine], wanted: Literal["tab", "two", "four"]) -> list[SketchLine]:
    """The same depth in other units, where all indentation here is whole units of one kind and context shows it."""
    leads = [lead_of(line.text) for line in lines if line.role in {"context", "new"} and line.text.strip()]
    used = [lead for lead in leads if lead]
    unit = _unit(used)
    if (
        unit is None
        or not _is_shown_by_context(lines)
        or any(len(lead) % len(unit) or lead != unit * (len(lead) // len(unit)) for lead in used)
    ):
        return lines
    other = {"tab": "\t", "two": "  ", "four": "    "}[wanted]

    def turn(line: SketchLine) -> SketchLine:
        lead = lead_of(line.text)
        if not line.text.strip() or not lead:
            return line
        return replace(line, text=other * (len(lead) // len(unit)) + line.text.lstrip())

    return [turn(line) for line in lines]


def _is_shown_by_context(lines: Sequence[SketchLine]) -> bool:
    """Whether each stretch with indented new lines has an indented context line: it tells what the units stand for."""
    is_new = is_known = False
    for line in [*lines, SketchLine("", "marker")]:
        if line.role == "marker":
            if is_new and not is_known:
                return False
            is_new = is_known = False
        is_indented = line.text.strip() != "" and lead_of(line.text) != ""
        is_new = is_new or (line.role == "new" and is_indented)
        is_known = is_known or (line.role == "context" and is_indented)
    return True


def _unit(leads: list[str]) -> str | None:
    """A tab, two or four spaces; None for anything else."""
    if leads and all(set(lead) == {"\t"} for lead in leads):
        return "\t"
    if leads and all(set(lead) == {" "} for lead in leads):
        return min((lead for lead in leads), key=len) if min(map(len, leads)) in {2, 4} else None
    return None


def _common_start(texts: list[str]) -> str:
    low, high = min(texts, default=""), max(texts, default="")
    n_same = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:n_same]

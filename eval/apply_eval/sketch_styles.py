"""How a lazy snippet may look: the drawn choices of one sketch, and the spellings of markers by language.

Only choices live here; `sketch.py` carries them out.  Two mixes exist: clean (exact snippets with markers of known
spelling) and sloppy (what chat models write).
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from apply_service.syntax.languages import Language, find_language


class CommentSyntax(NamedTuple):
    """What opens and closes a comment on a line of its own."""

    opening: str
    closing: str


_JSX = CommentSyntax("{/*", "*/}")
_NOT_ONE_LINE = frozenset({"=begin", "--[["})
_JSX_FAMILY = frozenset({"typescript", "javascript", "tsx"})
FENCE_NAMES = {"shell": ("bash", "sh"), "typescript": ("typescript", "ts", "tsx"), "javascript": ("javascript", "js")}

MarkerKind = Literal["any", "start", "end", "imports", "methods", "body", "tests"]

_MARKERS = json.loads((Path(__file__).parent / "fixtures" / "markers.json").read_text(encoding="utf-8"))
COMMON_MARKERS: Mapping[str, int] = _MARKERS["common"]
"""Spellings without the comment signs, and how often each is drawn."""
KIND_MARKERS: Mapping[MarkerKind, Sequence[str]] = _MARKERS["by_kind"]
"""Spellings that speak of what is left out."""


@dataclass(frozen=True, slots=True)
class SketchStyle:
    """Every choice of one sketch.  Where a choice can't be had for an edit (no fence around fences, no re-indentation
    of ragged indentation) the sketch goes without it; `sketch` returns None only where the place would be unclear."""

    is_clean: bool = True
    context_before: int = 2
    context_after: int = 2
    header: Literal["none", "inner", "all"] = "none"
    whole_function: bool = False
    whole_file: bool = False
    marker: str = "... existing code ..."
    """Spelling without the comment signs."""
    comment: int = 0
    """Which of the language's comment syntaxes; wraps around."""
    bare_marker: bool = False
    """No comment signs at all."""
    fitting_markers: bool = False
    """Spellings that speak of what is left out: imports, methods, the rest of the file."""
    mixed_markers: bool = False
    marker_indent: Literal["first", "min", "none", "next"] = "first"
    blank_around: Literal["none", "real", "always"] = "real"
    leading_marker: bool = True
    trailing_marker: bool = True
    double_marker: bool = False
    closers: bool = False
    """Shows the last line of each scope whose header is shown."""
    no_markers: bool = False
    """One stretch without any marker, where the edit fits into one."""
    min_gap: int = 3
    final_newline: bool = True
    fence: bool = False
    file_name: bool = False
    indentation: Literal["same", "dedent", "tab", "two", "four"] = "same"
    strip_trailing_space: bool = False
    misquote: float = 0.0
    """Share of the context lines that are misquoted, where they can be without harm."""
    deletion_comment: bool = False
    hint: bool = False
    remark: float = 0.0
    """Share of the new lines that carry a remark."""


def comment_syntax(language: str | None, choice: int) -> CommentSyntax:
    """The comment signs of a language, the usual ones first; `choice` picks among them and wraps around."""
    known = _known_syntaxes(language)
    return known[choice % len(known)]


@cache
def _known_syntaxes(language: str | None) -> tuple[CommentSyntax, ...]:
    known = find_language(language) or Language("")
    blocks = [CommentSyntax(*pair) for pair in known.block_comment if pair[0] not in _NOT_ONE_LINE]
    lines = [CommentSyntax(sign, "") for sign in known.line_comment if language != "css"]
    family = [_JSX] if language in _JSX_FAMILY else []
    return tuple(dict.fromkeys((*lines, *blocks, *family))) or (CommentSyntax("//", ""),)


def marker_text(spelling: str, syntax: CommentSyntax | None) -> str:
    """A whole marker line, without indentation."""
    if syntax is None:
        return spelling
    return f"{syntax.opening} {spelling} {syntax.closing}".rstrip()


_MARKER_LIKE = re.compile(r"^\s*(?:\{?/\*+|//+|#+|<!--|--+|;+|%+|\*)?\s*(?:\(?\.\.\.(?!\w)|…|\(unchanged)")


def is_marker_like(line: str) -> bool:
    """Whether a reader might take this line for a marker."""
    return ("..." in line or "…" in line or "(unchanged" in line) and _MARKER_LIKE.match(line) is not None


def draw_style(rng: random.Random, *, clean: bool) -> SketchStyle:
    """One style, drawn from the clean mix or from the sloppy one."""
    return _draw_clean(rng) if clean else _draw_sloppy(rng)


def _draw_clean(rng: random.Random) -> SketchStyle:
    context = rng.choice((1, 2, 2, 2, 3, 3))
    return SketchStyle(
        context_before=context,
        context_after=context,
        header=rng.choice(("none", "inner", "all")),
        whole_function=rng.random() < 0.17,
        marker=rng.choices(list(COMMON_MARKERS), list(COMMON_MARKERS.values()))[0],
        mixed_markers=rng.random() < 0.32,
        marker_indent=rng.choice(("first", "first", "min")),
        blank_around=rng.choice(("none", "real", "always")),
        leading_marker=rng.random() < 0.73,
        trailing_marker=rng.random() < 0.68,
        double_marker=rng.random() < 0.14,
        closers=rng.random() < 0.27,
        min_gap=rng.choice((2, 3, 3, 4)),
        final_newline=rng.random() < 0.72,
    )


def _draw_sloppy(rng: random.Random) -> SketchStyle:
    def chance(share: float) -> bool:
        return rng.random() < share

    before, after = rng.choices(
        ((0, 0), (0, 1), (1, 0), (1, 1), (2, 2), (3, 3), (4, 4), (2, 0)), (3, 2, 3, 5, 4, 2, 1, 1)
    )[0]
    misquotes, remarks, hint = chance(0.08), chance(0.12), chance(0.14)
    if hint and chance(0.5):
        before = after = 0
    return SketchStyle(
        is_clean=False,
        context_before=before,
        context_after=after,
        header=rng.choices(("none", "inner", "all"), (2, 3, 4))[0],
        whole_function=chance(0.35),
        whole_file=chance(0.05),
        marker=rng.choices(list(COMMON_MARKERS), list(COMMON_MARKERS.values()))[0],
        comment=rng.choice((0, 0, 0, 0, 1, 2)),
        bare_marker=chance(0.04),
        fitting_markers=chance(0.4),
        mixed_markers=chance(0.25),
        marker_indent=rng.choices(("first", "min", "next", "none"), (5, 2, 2, 1))[0],
        blank_around=rng.choices(("none", "real", "always"), (3, 4, 3))[0],
        leading_marker=chance(0.7),
        trailing_marker=chance(0.65),
        double_marker=chance(0.08),
        closers=chance(0.45),
        no_markers=chance(0.12),
        min_gap=rng.choice((1, 2, 2, 3, 4)),
        final_newline=chance(0.75),
        fence=chance(0.15),
        file_name=chance(0.12),
        indentation=rng.choices(("same", "dedent", "tab", "two", "four"), (34, 8, 1, 1, 1))[0],
        strip_trailing_space=chance(0.4),
        misquote=rng.choice((0.1, 0.3)) if misquotes else 0.0,
        deletion_comment=chance(0.35),
        hint=hint,
        remark=rng.choice((0.05, 0.15, 0.4)) if remarks else 0.0,
    )

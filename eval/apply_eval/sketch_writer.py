"""Writes a layout down as a snippet: the shown lines, the markers between them, and what chat models add or lose.

The layout has settled what is shown and that it is clear; nothing here may make it unclear again.
"""

from __future__ import annotations

import os
import random
import re
from dataclasses import dataclass, replace
from typing import Literal, get_args

from rapidfuzz import fuzz

from apply_eval.outline import indent_of, is_definition
from apply_eval.sketch_layout import Layout
from apply_eval.sketch_styles import (
    FENCE_NAMES,
    KIND_MARKERS,
    CommentSyntax,
    MarkerKind,
    comment_syntax,
    marker_text,
)

Role = Literal["context", "new", "marker", "padding", "fence", "file_name", "hint", "deletion", "end"]
ROLES: tuple[Role, ...] = get_args(Role)

_IMPORT = re.compile(r"^\s*(?:import\b|from\b|#\s*include\b|use\b|using\b|require\b|const .*require\()")
_NAME = re.compile(r"(?:def|class|func|fn|fun|function|struct|interface|enum|const|let|var|type|module)\s+(\w+)")
_WORD = re.compile(r"[A-Za-z_]\w{2,}")
_REMARKS = ("<- changed", "<-- new", "NEW", "<- added", "CHANGED", "<- fixed", "updated", "<-- modified")
_DELETIONS = ("removed {}", "removed: {}", "{} removed", "deleted {}", "(removed {})", "REMOVED: {}")
_HINTS = ("add this after {}", "insert after {}", "new, goes right after {}", "add below {}")


@dataclass(frozen=True, slots=True)
class SketchLine:
    """One line of a snippet.  `original_line` for context, `after_line` for context and new lines.

    Roles: context (the original's line, perhaps misquoted), new, marker, padding (a blank beside a marker, or between
    code and fence), fence, file_name, hint, deletion (a comment that says what is gone), end (the empty last line).
    A remark stands on its line: `has_remark`.
    """

    text: str
    role: Role
    original_line: int | None = None
    after_line: int | None = None
    has_remark: bool = False


class Writer:
    """Writes one sketch."""

    def __init__(self, layout: Layout, *, language: str | None, path: str | None, rng: random.Random) -> None:
        self.layout, self.style, self.rng = layout, layout.style, rng
        self.language, self.path = language or "", path
        self.syntax = comment_syntax(self.language, 0 if self.style.is_clean else self.style.comment)
        self._lines: list[SketchLine] = []

    @property
    def is_python(self) -> bool:
        return self.language == "python"

    def write(self) -> list[SketchLine]:
        """The lines of the snippet."""
        self._write_blocks()
        lines = self._lines
        if not self.style.is_clean:
            lines = self._spoil(lines)
        lines = self._wrap(lines)
        return [*lines, SketchLine("", "end")] if self.style.final_newline else lines

    # -- blocks and markers -------------------------------------------------------------------------------------------
    def _write_blocks(self) -> None:
        blocks = self.layout.blocks
        n_items = len(self.layout.items)
        markers = not (self.style.no_markers and len(blocks) == 1)
        gap_start = 0
        for block in blocks:
            is_wanted = block.start > 0 if gap_start else self._has_leading(markers)
            if is_wanted and gap_start < block.start:
                self._write_gap(gap_start, block.start)
            self._write_block(block.start, block.stop)
            gap_start = block.stop
        if gap_start < n_items and markers and self.style.trailing_marker:
            self._write_gap(gap_start, n_items)

    def _has_leading(self, markers: bool) -> bool:
        return self.layout.needs_leading_marker or (markers and self.style.leading_marker)

    def _write_block(self, start: int, stop: int) -> None:
        layout = self.layout
        for at in range(start, stop):
            item = layout.items[at]
            if item.kind == "drop":
                self._note_deletion(at)
                continue
            if item.kind == "take":
                self._note_hint(at)
                self._lines.append(SketchLine(layout.after[item.after], "new", None, item.after))
            else:
                self._lines.append(SketchLine(layout.before[item.original], "context", item.original, item.after))

    def _write_gap(self, start: int, stop: int) -> None:
        """Markers for the hidden items `start:stop`, with the blank lines around them."""
        hidden = [self.layout.before[item.original] for item in self.layout.items[start:stop]]
        if start > 0 and self._is_padded(start - 1, hidden[0]):
            self._lines.append(SketchLine("", "padding"))
        indents = self._marker_indents(start, stop, hidden)
        for at, indent in enumerate(indents):
            text = indent + self._marker(hidden, is_first=start == 0, is_last=stop == len(self.layout.items))
            if at and self.style.blank_around == "always":
                self._lines.append(SketchLine("", "padding"))
            self._lines.append(SketchLine(text, "marker"))
        if stop < len(self.layout.items) and self._is_padded(stop, hidden[-1]):
            self._lines.append(SketchLine("", "padding"))

    def _is_padded(self, shown: int, hidden: str) -> bool:
        """Whether a blank stands between a marker and the shown item next to it.  Beside new lines only a blank of the
        file, since any other would read as new."""
        if self.style.blank_around == "none":
            return False
        if self.style.blank_around == "real" or self.layout.items[shown].kind != "keep":
            return not hidden.strip()
        return True

    def _marker_indents(self, start: int, stop: int, hidden: list[str]) -> list[str]:
        first = next((_lead(line) for line in hidden if line.strip()), "")
        after = self._lead_of(stop)
        before = self._lead_of(start - 1)
        around = [lead for lead in (before, after) if lead is not None]
        choice = {
            "first": first,
            "next": around[-1] if around else first,
            "min": min(around, key=len) if around else first,
            "none": "",
        }[self.style.marker_indent]
        if self.style.double_marker and start > 0 and stop < len(self.layout.items) and after is not None:
            shallowest = min((_lead(line) for line in hidden if line.strip()), key=len, default=first)
            if len(shallowest) < len(first):
                return [first, shallowest]
        return [choice]

    def _lead_of(self, at: int) -> str | None:
        """The indentation of a shown item's line; None outside the file."""
        if not 0 <= at < len(self.layout.items):
            return None
        item = self.layout.items[at]
        text = self.layout.after[item.after] if item.kind != "drop" else self.layout.before[item.original]
        return _lead(text)

    def _marker(self, hidden: list[str], *, is_first: bool, is_last: bool) -> str:
        spelling = self.style.marker
        fits = 0.85 if self.style.fitting_markers else 0.4 if self.style.mixed_markers else 0.0
        if self.rng.random() < fits:
            spelling = self.rng.choice(KIND_MARKERS[self._kind(hidden, is_first=is_first, is_last=is_last)])
        syntax = self.syntax
        if syntax.opening == "{/*" and not any(line.lstrip()[:1] == "<" for line in (hidden[0], hidden[-1])):
            syntax = CommentSyntax("//", "")
        is_bare = (
            self.style.bare_marker and spelling.startswith("...") and "..." not in map(str.strip, self.layout.after)
        )
        return marker_text(spelling, None if is_bare else syntax)

    def _kind(self, hidden: list[str], *, is_first: bool, is_last: bool) -> MarkerKind:
        lines = [line for line in hidden if line.strip()][:40]
        if lines and all(_IMPORT.match(line) for line in lines[:6]):
            return "imports"
        if is_first:
            return "start"
        definitions = [line for line in lines if is_definition(line)]
        if any("test" in line.lower() for line in definitions):
            return "tests"
        if is_last:
            return "end"
        if definitions and indent_of(definitions[0]) > 0:
            return "methods"
        return "body" if lines and indent_of(lines[0]) > 0 and not definitions else "any"

    # -- comments that models add -------------------------------------------------------------------------------------
    def _note_deletion(self, at: int) -> None:
        """A comment in the place of a stretch of deleted lines."""
        items = self.layout.items
        is_first = at == 0 or items[at - 1].kind == "keep"
        if not self.style.deletion_comment or not is_first or at == 0:
            return
        stop = next((i for i in range(at, len(items)) if items[i].kind != "drop"), len(items))
        if stop == len(items) or items[stop].kind != "keep":
            return
        gone = [self.layout.before[item.original] for item in items[at:stop]]
        lead = next((_lead(line) for line in gone if line.strip()), "")
        text = self.rng.choice(_DELETIONS).format(_name(gone))
        self._lines.append(SketchLine(lead + marker_text(text, self.syntax), "deletion"))

    def _note_hint(self, at: int) -> None:
        """A comment above a stretch of inserted lines that says where they go."""
        items = self.layout.items
        if not self.style.hint or at == 0 or items[at - 1].kind != "keep":
            return
        above = self.layout.before[: items[at].original]
        line = self.layout.after[items[at].after]
        if not line.strip() or not above or not above[-1].strip():
            return
        text = self.rng.choice(_HINTS).format(_name(above[-1:]))
        self._lines.append(SketchLine(_lead(line) + marker_text(text, self.syntax), "hint"))

    # -- sloppiness ---------------------------------------------------------------------------------------------------
    def _spoil(self, lines: list[SketchLine]) -> list[SketchLine]:
        if self.style.remark:
            lines = [self._with_remark(line) for line in lines]
        if self.style.misquote:
            lines = [self._misquoted(line) for line in lines]
        if self.style.strip_trailing_space:
            lines = [replace(x, text=x.text.rstrip()) if x.role == "context" else x for x in lines]
        if self.style.indentation == "dedent":
            return _dedented(lines)
        if self.style.indentation != "same":
            return _reindented(lines, self.style.indentation)
        return lines

    def _with_remark(self, line: SketchLine) -> SketchLine:
        signs = self.syntax
        text = line.text
        is_apt = (
            line.role == "new" and text.strip() and not text.rstrip().endswith(("\\", "`", '"""', "'''", "{", "*/"))
        )
        if (
            not is_apt
            or signs.closing
            or self.language in {"markdown", "html"}
            or self.rng.random() > self.style.remark
        ):
            return line
        return replace(line, text=f"{text}  {signs.opening} {self.rng.choice(_REMARKS)}", has_remark=True)

    def _misquoted(self, line: SketchLine) -> SketchLine:
        if line.role != "context" or self.rng.random() > self.style.misquote:
            return line
        wrong = _misquote(line.text, self.syntax.opening, self.rng)
        is_like = wrong.strip() and fuzz.ratio(wrong, line.text) >= 75
        return replace(line, text=wrong) if is_like else line

    def _wrap(self, lines: list[SketchLine]) -> list[SketchLine]:
        if self.style.file_name and self.path and not self.style.is_clean:
            name = self.path if self.rng.random() < 0.7 else os.path.basename(self.path)
            head = [SketchLine(marker_text(name, self.syntax if self.syntax.opening != "{/*" else None), "file_name")]
            lines = [*head, *([SketchLine("", "padding")] if self.rng.random() < 0.3 else []), *lines]
        if self.style.fence and not any(line.text.lstrip().startswith("```") for line in lines):
            name = self.rng.choice((*FENCE_NAMES.get(self.language, (self.language,)), ""))
            lines = [SketchLine("```" + name, "fence"), *lines, SketchLine("```", "fence")]
        return lines


def _common_start(texts: list[str]) -> str:
    low, high = min(texts, default=""), max(texts, default="")
    n_same = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:n_same]


def _lead(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _name(lines: list[str]) -> str:
    """What a person would call these lines."""
    for line in lines:
        found = _NAME.search(line)
        if found:
            return found.group(1)
    words = [w for line in lines for w in _WORD.findall(line)]
    return max(words[:6], key=len) if words else "these lines"


def _misquote(text: str, comment: str, rng: random.Random) -> str:
    """A context line as a model remembers it: a comment with a word less, a head without its return type, a shortened
    argument list, runs of spaces collapsed."""
    stripped = text.strip()
    if stripped.startswith((comment, "*", "/*")):
        words = text.split(" ")
        inner = [i for i, word in enumerate(words) if i > 1 and word.isalpha()]
        if len(inner) > 2:
            del words[rng.choice(inner[1:])]
        return " ".join(words)
    if is_definition(text):
        shorter = re.sub(r"\s*->\s*[^:{]+(?=[:{]\s*$)", " " if stripped.endswith("{") else "", text)
        return shorter if shorter != text else re.sub(r",\s*\w+[^,()]*\)", ", ...)", text, count=1)
    return _lead(text) + re.sub(r"(?<=\S) {2,}", " ", text.lstrip())


def _dedented(lines: list[SketchLine]) -> list[SketchLine]:
    leads = [_lead(line.text) for line in lines if line.text.strip() and line.role != "marker"]
    common = _common_start(leads)
    if not common:
        return lines
    return [
        replace(x, text=x.text.removeprefix(common) if x.text.startswith(common) else x.text.lstrip()) for x in lines
    ]


def _reindented(lines: list[SketchLine], wanted: Literal["tab", "two", "four"]) -> list[SketchLine]:
    """The same depth in other units, where all indentation here is whole units of one kind."""
    leads = [_lead(line.text) for line in lines if line.role in {"context", "new"} and line.text.strip()]
    used = [lead for lead in leads if lead]
    unit = _unit(used)
    if unit is None or any(len(lead) % len(unit) or lead != unit * (len(lead) // len(unit)) for lead in used):
        return lines
    other = {"tab": "\t", "two": "  ", "four": "    "}[wanted]

    def turn(line: SketchLine) -> SketchLine:
        lead = _lead(line.text)
        if not line.text.strip() or not lead:
            return line
        return replace(line, text=other * (len(lead) // len(unit)) + line.text.lstrip())

    return [turn(line) for line in lines]


def _unit(leads: list[str]) -> str | None:
    """A tab, two or four spaces; None for anything else."""
    if leads and all(set(lead) == {"\t"} for lead in leads):
        return "\t"
    if leads and all(set(lead) == {" "} for lead in leads):
        return min((lead for lead in leads), key=len) if min(map(len, leads)) in {2, 4} else None
    return None

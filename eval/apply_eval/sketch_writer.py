"""Writes a layout down as a snippet: the shown lines, the markers between them, and what chat models add or lose.

The layout has settled what is shown and that it is clear; nothing here may make it unclear again.
"""

from __future__ import annotations

import os
import random
import re

from apply_eval.outline import indent_of, is_definition
from apply_eval.sketch_layout import Layout
from apply_eval.sketch_lines import SketchLine, lead_of
from apply_eval.sketch_spoil import spoil
from apply_eval.sketch_styles import (
    FENCE_NAMES,
    KIND_MARKERS,
    CommentSyntax,
    MarkerKind,
    comment_syntax,
    marker_text,
)

_IMPORT = re.compile(r"^\s*(?:import\b|from\b|#\s*include\b|use\b|using\b|require\b|const .*require\()")
_NAME = re.compile(r"(?:def|class|func|fn|fun|function|struct|interface|enum|const|let|var|type|module)\s+(\w+)")
_ASSIGNED = re.compile(r"^\s*(?:[\w.]+\s+)?([\w.]+)\s*(?::=|=(?!=)|:\s)")
_COMMENT = re.compile(r"^\s*(?://|#|/?\*|<!--|--|\"\"\"|$)")
_WORD = re.compile(r"[A-Za-z_]\w{2,}")
_DELETIONS = ("removed {}", "removed: {}", "{} removed", "deleted {}", "(removed {})", "REMOVED: {}")
_PADDED_BLANKS = ((True, False, True, False), (False, True, False, True))
"""Is blank: the line above a deletion, its first, its last, the line below.  Here blank lines stood on both sides of
what is gone and one of them goes with it, so a note in its place may have both."""
_CLEAR_BLANKS = (
    (False, False, False, False),
    (True, False, False, False),
    (False, False, False, True),
    *_PADDED_BLANKS,
)
_HINTS = ("add this after {}", "insert after {}", "new, goes right after {}", "add below {}")


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
            lines = spoil(lines, self.style, self.syntax, self.language, self.rng)
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
        return self.layout.clarity.needs_leading_marker or (markers and self.style.leading_marker)

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
        first = next((lead_of(line) for line in hidden if line.strip()), "")
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
            shallowest = min((lead_of(line) for line in hidden if line.strip()), key=len, default=first)
            if len(shallowest) < len(first):
                return [first, shallowest]
        return [choice]

    def _lead_of(self, at: int) -> str | None:
        """The indentation of a shown item's line; None outside the file."""
        if not 0 <= at < len(self.layout.items):
            return None
        item = self.layout.items[at]
        text = self.layout.after[item.after] if item.kind != "drop" else self.layout.before[item.original]
        return lead_of(text)

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
        """A comment in the place of a stretch of deleted lines, where the blank lines around it read one way."""
        items = self.layout.items
        if not self.style.deletion_comment or at == 0 or items[at - 1].kind != "keep":
            return
        stop = next((i for i in range(at, len(items)) if items[i].kind != "drop"), len(items))
        if stop == len(items) or items[stop].kind != "keep":
            return
        above, *gone, below = (self.layout.before[item.original] for item in items[at - 1 : stop + 1])
        lead = next((lead_of(line) for line in gone if line.strip()), None)
        if lead is None or all(_COMMENT.match(line) for line in gone):
            return
        blanks = tuple(not line.strip() for line in (above, gone[0], gone[-1], below))
        if blanks in _CLEAR_BLANKS:
            text = self.rng.choice(_DELETIONS).format(_name(gone))
            is_padded = blanks in _PADDED_BLANKS and self.rng.random() < 0.5
            self._lines += [SketchLine("", "padding")] if is_padded and blanks[3] else []
            self._lines.append(SketchLine(lead + marker_text(text, self.syntax), "deletion"))
            self._lines += [SketchLine("", "padding")] if is_padded and blanks[0] else []

    def _note_hint(self, at: int) -> None:
        """A comment above a stretch of inserted lines that says what they go after."""
        items = self.layout.items
        if not self.style.hint or at == 0 or items[at - 1].kind != "keep":
            return
        line = next((x for x in (self.layout.after[item.after] for item in items[at:]) if x.strip()), "")
        name = self.layout.clarity.hints.get(at) or self._name_above(at)
        if name is not None:
            text = self.rng.choice(_HINTS).format(self.rng.choice(("{}", "{}", "`{}`", "'{}'", "{}()")).format(name))
            self._lines.append(SketchLine(lead_of(line) + marker_text(text, self.syntax), "hint"))

    def _name_above(self, at: int) -> str | None:
        """The name defined or assigned on the shown line above; most hints are left off."""
        above = self.layout.before[self.layout.items[at - 1].original]
        found = _NAME.search(above)
        return found.group(1) if found and self.rng.random() < 0.5 else None

    # -- around the code ----------------------------------------------------------------------------------------------
    def _wrap(self, lines: list[SketchLine]) -> list[SketchLine]:
        if self.style.file_name and self.path and not self.style.is_clean:
            name = self.path if self.rng.random() < 0.7 else os.path.basename(self.path)
            head = [SketchLine(marker_text(name, self.syntax if self.syntax.opening != "{/*" else None), "file_name")]
            lines = [*head, *([SketchLine("", "padding")] if self.rng.random() < 0.3 else []), *lines]
        if self.style.fence and not any(line.text.lstrip().startswith("```") for line in lines):
            name = self.rng.choice((*FENCE_NAMES.get(self.language, (self.language,)), ""))
            lines = [SketchLine("```" + name, "fence"), *lines, SketchLine("```", "fence")]
        return lines


def _name(lines: list[str]) -> str:
    """What a person would call these lines: what they define or assign, else their longest word."""
    definitions = (_NAME.search(line) for line in lines if is_definition(line))
    assignments = (_ASSIGNED.match(line) for line in lines)
    for found in (*definitions, *assignments):
        if found:
            return found.group(1)
    words = [w for line in lines for w in _WORD.findall(line)]
    return max(words[:6], key=len) if words else "these lines"

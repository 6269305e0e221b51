"""Unified diffs read into file changes: git's, and the sloppy ones that models write.

A hunk whose counts agree with its lines is read by them, so that content which looks like a header stays content.  Any
other hunk (wrong counts, `@@ ... @@`, none) ends where something begins that can't be part of it.  Lines between hunks
that are no headers are handed back as strays, never skipped silently.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from apply_service.edits.diff_headers import HUNK_HEADER, FileHeader, HunkHeader, is_preamble, read_hunk_header
from apply_service.edits.envelope import is_around, is_fence, is_sentence
from apply_service.edits.file_change import FileChange
from apply_service.edits.hunks import Hunk, HunkLine
from apply_service.errors import MalformedEdit

SIGNATURE = re.compile(r"^-- ?$")
VERSION = re.compile(r"^\d+\.[\w. ()-]+$")
"""git ends a mailed diff with a signature and its version."""
KINDS = {" ": "context", "-": "remove", "+": "add"}


class DiffText(NamedTuple):
    """A diff's changes, and the lines of the update that are neither hunks nor headers nor envelope."""

    changes: tuple[FileChange, ...]
    strays: tuple[int, ...]


def parse_diff(update: str) -> DiffText:
    """The changes that a diff tells.

    Raises:
        MalformedEdit: there is none, or one of a kind that can't be applied (binary, combined).
    """
    text = _Parser(update.split("\n")).run()
    if not any(change.hunks or change.action != "modify" for change in text.changes):
        raise MalformedEdit(
            "there is no hunk in the diff", value=update[:200], remedy="send @@ hunks with - and + lines"
        )
    return text


@dataclass(slots=True)
class _Section:
    """One file's part, as it is read."""

    header: FileHeader = field(default_factory=FileHeader)
    hunks: list[Hunk] = field(default_factory=list)
    drift: int = 0
    """Lines that the hunks so far add to the file."""

    def change(self) -> FileChange:
        change = self.header.change()
        action = "modify" if change.action == "mode" and self.hunks else change.action
        return replace(change, action=action, hunks=tuple(self.hunks))


class _Parser:
    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._sections: list[_Section] = []
        self._strays: list[int] = []
        self._n_hunks = 0
        self._last_shown = [at for at, line in enumerate(lines) if line.strip()][-2:]
        self._last_change = max((at for at, line in enumerate(lines) if line[:1] in ("+", "-")), default=-1)
        self._last_header = max((at for at, line in enumerate(lines) if HUNK_HEADER.match(line)), default=-1)

    def run(self) -> DiffText:
        at = 0
        while at < len(self._lines):
            at = self._step(at)
        return DiffText(tuple(section.change() for section in self._sections), tuple(self._strays))

    def _step(self, at: int) -> int:
        """Read what begins at a line; where the next thing begins."""
        line = self._lines[at]
        if line.startswith("diff --git "):
            self._sections.append(_Section(FileHeader.of_git_line(line)))
            return at + 1
        if n_names := self._names_at(at):
            return self._read_names(at, n_names)
        if self._sections and not self._section.hunks and self._section.header.read(line):
            return at + 1
        if HUNK_HEADER.match(line):
            return self._read_hunk(at + 1, read_hunk_header(line))
        if self._starts_bare_hunk(at):
            return self._read_hunk(at, HunkHeader())
        if not is_around(line) and not is_preamble(line):
            self._strays.append(at)
        return at + 1

    @property
    def _section(self) -> _Section:
        if not self._sections:
            self._sections.append(_Section())
        return self._sections[-1]

    # -- names -----------------------------------------------------------------------------------------------------
    def _names_at(self, at: int) -> int:
        """How many lines from here on name the file (`---`, `+++`); one alone must stand right before a hunk."""
        here, below = self._lines[at], self._lines[at + 1] if at + 1 < len(self._lines) else ""
        if here.startswith("--- ") and below.startswith("+++ "):
            return 2
        return 1 if here.startswith(("--- ", "+++ ")) and HUNK_HEADER.match(below) else 0

    def _read_names(self, at: int, n_names: int) -> int:
        if not self._sections or self._section.hunks or self._section.header.has_names:
            self._sections.append(_Section())
        self._section.header.read_names(self._lines[at : at + n_names])
        return at + n_names

    # -- hunks -----------------------------------------------------------------------------------------------------
    def _starts_bare_hunk(self, at: int) -> bool:
        """A hunk without a header: right below the names, or where the update holds nothing but + and - lines."""
        line = self._lines[at]
        if self._sections:
            return line[:1] in KINDS and not self._section.hunks and self._section.header.has_names
        return line[:1] in ("+", "-") and at > self._last_header

    def _read_hunk(self, at: int, header: HunkHeader) -> int:
        self._n_hunks += 1
        label = f"hunk {self._n_hunks}"
        end = self._counted_end(at, header)
        is_counted = end is not None
        if end is None:
            end = self._open_end(at)
        hunk = self._hunk(label, at, end, header, is_counted=is_counted)
        self._section.hunks.append(hunk)
        self._section.drift += len(hunk.new) - len(hunk.old)
        return max(end, at)

    def _counted_end(self, at: int, header: HunkHeader) -> int | None:
        """Where the hunk ends by its counts; None where they are missing or can't be right."""
        if header.old_count is None or header.new_count is None:
            return None
        old, new = header.old_count, header.new_count
        while old > 0 or new > 0:
            if at == len(self._lines) or (sign := self._lines[at][:1] or " ") not in " +-\\":
                return None
            old -= sign in " -"
            new -= sign in " +"
            at += 1
        if at < len(self._lines) and self._lines[at].startswith("\\"):
            at += 1
        goes_on = at < len(self._lines) and self._lines[at][:1] in KINDS and not self._ends_hunk(at)
        return None if old or new or goes_on else at

    def _open_end(self, at: int) -> int:
        while at < len(self._lines) and not self._ends_hunk(at):
            at += 1
        return at

    def _ends_hunk(self, at: int) -> bool:
        line = self._lines[at]
        if HUNK_HEADER.match(line) or line.startswith("diff --git ") or self._names_at(at) == 2:
            return True
        if is_fence(line) and line[:1] in "`~":
            return True
        if SIGNATURE.match(line):
            return at == self._last_shown[0] and VERSION.match(self._lines[self._last_shown[-1]]) is not None
        return at > self._last_change and (is_sentence(line) or self._starts_prose(at))

    def _starts_prose(self, at: int) -> bool:
        """Whether a paragraph begins: below a blank line, with a word at the left edge and no sign of the hunk's."""
        line = self._lines[at]
        return at > 0 and not self._lines[at - 1] and line[:1].isalpha() and " " in line.strip()

    def _hunk(self, label: str, start: int, end: int, header: HunkHeader, *, is_counted: bool) -> Hunk:
        lines: list[HunkLine] = []
        lacks: dict[str, bool] = {}
        note: int | None = None
        body = list(enumerate(self._lines[start:end], start))
        while not is_counted and body and not body[-1][1]:
            body.pop()
        has_bare = any(text and text[0] not in " +-\\" for _, text in body)
        for at, text in body:
            if text.startswith("\\"):
                note = at
                lacks[lines[-1].kind if lines else "context"] = True
            else:
                lines.append(_line(at, text, keeps_blank=has_bare))
        is_both = lacks.get("context", False)
        return Hunk(
            label,
            tuple(lines),
            stated_line=header.stated_line,
            scopes=(header.heading,) if header.heading else (),
            old_lacks_newline=is_both or lacks.get("remove", False),
            new_lacks_newline=is_both or lacks.get("add", False),
            newline_note=note,
            may_be_cut=not is_counted and end == len(self._lines) and header.wants_more(lines),
            is_well_formed=is_counted and header.fits(self._section.drift),
        )


def _line(at: int, text: str, *, keeps_blank: bool) -> HunkLine:
    """A line of a hunk.  Where some context lines lack their leading blank, none is taken to have it."""
    sign = text[:1]
    if sign == "-":
        return HunkLine("remove", text[1:], at)
    if sign == "+":
        return HunkLine("add", text[1:], at)
    return HunkLine("context", text if keeps_blank else text[1:] if sign == " " else text, at)

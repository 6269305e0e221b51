"""V4A patches read into file changes.

    *** Begin Patch
    *** Update File: path          *** Add File: path          *** Delete File: path
    *** Move to: new path          +every line
    @@ class A
    @@ def f(self):
     context
    -old
    +new
    *** End of File
    *** End Patch

Directives stand at the start of their line; in a hunk every line has its sign, so that content never becomes a
directive.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from apply_service.edits.diff_headers import read_hunk_header
from apply_service.edits.envelope import is_around
from apply_service.edits.file_change import Action, FileChange
from apply_service.edits.hunks import Hunk, HunkLine
from apply_service.errors import MalformedEdit

BEGIN = re.compile(r"^\*\*\* Begin Patch\s*$")
END = re.compile(r"^\*\*\* End Patch\s*$")
END_OF_FILE = re.compile(r"^\*\*\* End of File\s*$")
FILE = re.compile(r"^\*\*\* (?P<action>Update|Add|Delete) File: ?(?P<path>.*\S)\s*$")
MOVE = re.compile(r"^\*\*\* (?:Move|Rename) to: ?(?P<path>.*\S)\s*$")
DIRECTIVE = re.compile(r"^\*\*\* ")
CALL = re.compile(r"^(?:\$ )?apply_patch\b.*$|^(?:EOF|PATCH|'?EOF'?)[\s)\"']*$")
ACTIONS: dict[str, Action] = {"Update": "modify", "Add": "create", "Delete": "delete"}


class PatchText(NamedTuple):
    """A patch's changes, and the lines outside of it."""

    changes: tuple[FileChange, ...]
    strays: tuple[int, ...]


@dataclass(slots=True)
class _Section:
    action: Action
    path: str
    new_path: str | None = None
    hunks: list[Hunk] = field(default_factory=list)

    def change(self) -> FileChange:
        action = "rename" if self.new_path is not None else self.action
        return FileChange(self.path, action, self.new_path, tuple(self.hunks))


def is_patch_line(line: str) -> bool:
    """Whether the line can only be the beginning of a patch."""
    return BEGIN.match(line) is not None or FILE.match(line) is not None


def parse_v4a(update: str) -> PatchText:
    """The changes that a patch tells.

    Raises:
        MalformedEdit: there is no patch, it has no end, or a line that does not belong.
    """
    lines = update.split("\n")
    begin = next((at for at, line in enumerate(lines) if is_patch_line(line)), None)
    if begin is None:
        raise _malformed("there is no *** Begin Patch", lines[0])
    start = begin + 1 if BEGIN.match(lines[begin]) else begin
    end = next((at for at in range(start, len(lines)) if END.match(lines[at])), None)
    if end is None:
        raise _malformed("there is no *** End Patch: the patch may be cut short", lines[-1])
    outside = [*range(begin), *range(end + 1, len(lines))]
    strays = tuple(at for at in outside if not is_around(lines[at]) and not CALL.match(lines[at]))
    return PatchText(_Parser(lines, start, end).run(), strays)


class _Parser:
    def __init__(self, lines: Sequence[str], start: int, end: int) -> None:
        self._lines = lines
        self._at = start
        self._end = end
        self._n_hunks = 0

    def run(self) -> tuple[FileChange, ...]:
        sections: list[_Section] = []
        while self._at < self._end:
            line = self._lines[self._at]
            if (match := FILE.match(line)) is None:
                if line.strip():
                    raise _malformed(f"line {self._at + 1} names no file", line)
                self._at += 1
                continue
            self._at += 1
            sections.append(self._read_section(_Section(ACTIONS[match["action"]], match["path"])))
        if not sections:
            raise _malformed("the patch changes no file", "")
        return tuple(section.change() for section in sections)

    def _read_section(self, section: _Section) -> _Section:
        if section.action == "create":
            section.hunks.append(self._read_new_file(section.path))
        elif section.action == "modify":
            self._read_update(section)
        return section

    def _is_open(self) -> bool:
        return self._at < self._end and FILE.match(self._lines[self._at]) is None

    def _read_new_file(self, path: str) -> Hunk:
        added: list[HunkLine] = []
        while self._is_open():
            line = self._lines[self._at]
            if line[:1] == "+":
                added.append(HunkLine("add", line[1:], self._at))
            elif line.strip():
                raise _malformed(f"line {self._at + 1} of the new file {path} has no +", line)
            self._at += 1
        return Hunk(self._label(), tuple(added))

    def _read_update(self, section: _Section) -> None:
        if self._is_open() and (match := MOVE.match(self._lines[self._at])):
            section.new_path = match["path"]
            self._at += 1
        while self._is_open():
            hunk = self._read_hunk()
            if hunk.lines:
                section.hunks.append(hunk)
        if not section.hunks and section.new_path is None:
            raise _malformed(f"the patch says nothing about {section.path}", "")

    def _read_hunk(self) -> Hunk:
        """Scopes, then lines, up to the next `@@` or directive."""
        scopes: list[str] = []
        stated: int | None = None
        while self._is_open() and self._lines[self._at].startswith("@@"):
            header = read_hunk_header(self._lines[self._at])
            stated = header.stated_line if header.stated_line is not None else stated
            scopes += [header.heading] if header.heading else []
            self._at += 1
        lines = self._read_lines()
        is_at_end = self._is_open() and END_OF_FILE.match(self._lines[self._at]) is not None
        if is_at_end:
            self._at += 1
        if scopes and not lines:
            raise _malformed(f"line {self._at} names a place but no change follows", self._lines[self._at - 1])
        return Hunk(self._label(), lines, stated, tuple(scopes), scopes_bind=True, is_at_end=is_at_end)

    def _read_lines(self) -> tuple[HunkLine, ...]:
        body: list[int] = []
        while self._is_open() and not self._lines[self._at].startswith("@@"):
            line = self._lines[self._at]
            if DIRECTIVE.match(line):
                if END_OF_FILE.match(line):
                    break
                raise _malformed(f"line {self._at + 1} is no directive of a patch", line)
            body.append(self._at)
            self._at += 1
        while body and not self._lines[body[-1]]:
            body.pop()
        has_bare = any(self._lines[at][:1] not in ("", " ", "+", "-") for at in body)
        return tuple(_line(at, self._lines[at], keeps_blank=has_bare) for at in body)

    def _label(self) -> str:
        self._n_hunks += 1
        return f"hunk {self._n_hunks}"


def _line(at: int, text: str, *, keeps_blank: bool) -> HunkLine:
    if text[:1] == "-":
        return HunkLine("remove", text[1:], at)
    if text[:1] == "+":
        return HunkLine("add", text[1:], at)
    return HunkLine("context", text[1:] if text[:1] == " " and not keeps_blank else text, at)


def _malformed(message: str, line: str) -> MalformedEdit:
    return MalformedEdit(
        message,
        value=line[:200],
        remedy="write *** Begin Patch, *** Update File: path, @@ scope, context and -/+ lines, *** End Patch",
    )

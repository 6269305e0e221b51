"""Reads conflict markers as an edit: the first side is the old text, and the second side is the new text in its place.

    <<<<<<< ours
    old lines
    ||||||| base          (a section of diff3, which is left out)
    =======
    new lines
    >>>>>>> theirs

The labels may be any text, or missing.  A file may hold such markers itself.  So markers are an edit only if the file
has none, and only if the file has the text of a first side or the reply holds nothing else of substance.  A block with
the words of a search/replace block belongs to that format.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from apply_service.errors import MalformedEdit
from apply_service.formats.file_change import pick_for_file
from apply_service.formats.hunks import Trust, hunk_of_replacement
from apply_service.formats.recognise import Recognised, ReplyLines, Sureness
from apply_service.formats.search_replace import merge_replacements, named_by, read_mark
from apply_service.protocols import EditContext
from apply_service.text.fences import is_around
from apply_service.types import Prediction

MARK = re.compile(r"(?:(?P<open><{7})|(?P<base>\|{7})|(?P<close>>{7}))(?: .*)?$|(?P<divide>={7})$")


def predict(original: str, update: str, about: EditContext) -> Prediction:
    """Return the original, with the second side of each block in place of the first."""
    lines, trust = update.split("\n"), Trust()
    conflicts = pick_for_file(read_conflicts(lines), about.path, trust)
    numbered = list(enumerate(lines))
    hunks = [
        hunk_of_replacement(one.label, numbered[one.opening + 1 : one.old_end], numbered[one.divider + 1 : one.closing])
        for one in conflicts
    ]
    return merge_replacements(original, update, hunks, trust)


class Conflict(NamedTuple):
    """One block, as line numbers of the update."""

    label: str
    opening: int
    old_end: int
    """The line that ends the first side: the base's mark, or else the divider."""
    divider: int
    closing: int
    path: str | None
    """The file that a line above the block names."""


def read_conflicts(lines: Sequence[str], taken: Collection[int] = ()) -> list[Conflict]:
    """Return the blocks of an update; `taken` lines do not count as marks.

    Raises MalformedEdit if there is no block, or if a block is not complete.
    """
    found: list[Conflict] = []
    path: str | None = None
    begun: dict[str, int] = {}  # the marks of the block that has begun, by kind
    for at, line in enumerate(lines):
        kind = None if at in taken else _kind_of(line)
        if kind == "open" and not begun:
            begun = {"open": at}
        elif begun and kind in ("base", "divide") and "divide" not in begun and kind not in begun:
            begun[kind] = at
        elif kind == "close" and "divide" in begun:
            old_end = begun.get("base", begun["divide"])
            found.append(Conflict(f"block {len(found) + 1}", begun["open"], old_end, begun["divide"], at, path))
            begun = {}
        elif kind in ("open", "close", "other"):
            raise _malformed(f"line {at + 1} is a marker that does not fit here", line)
        elif not begun:
            path = named_by(line) or path
    if begun:
        raise _malformed(f"the block in line {begun['open'] + 1} has no end; the edit may be cut short", lines[-1])
    if not found:
        raise _malformed("there is no block of conflict markers", lines[0])
    return found


def _kind_of(line: str) -> str | None:
    """Return the kind of the mark in the line, if it is a mark; "other" for a mark of a search/replace block."""
    if (mark := read_mark(line)) is not None and mark.kind != "divide":
        return "other"
    match = MARK.match(line.rstrip())
    return match.lastgroup if match is not None else None


def _malformed(message: str, line: str) -> MalformedEdit:
    return MalformedEdit(
        message,
        value=line[:200],
        remedy="write each block as <<<<<<< ours, old lines, =======, new lines, >>>>>>> theirs",
    )


class FoundConflicts(Recognised):
    """The conflicts in a reply; empty if any conflict is not complete."""

    has_marks = True

    def __init__(self, reply: ReplyLines) -> None:
        super().__init__(reply)
        self._conflicts: Sequence[Conflict] = ()
        if "<<<<<<<" in reply.text:
            with suppress(MalformedEdit):
                self._conflicts = read_conflicts(reply.lines, reply.claimed)
        if self.confidence is Sureness.QUOTES:
            reply.claim((one.opening, one.closing) for one in self._conflicts)

    @cached_property
    def confidence(self) -> Sureness:
        reply = self.reply
        if not self._conflicts or reply.is_new_file or any(_kind_of(line) == "open" for line in reply.file.lines):
            return Sureness.NONE
        quotes = [reply.lines[one.opening + 1 : one.old_end] for one in self._conflicts]
        if any(any(map(str.strip, quote)) and reply.file.stands(quote) for quote in quotes):
            return Sureness.QUOTES
        around = (line for at, line in enumerate(reply.lines) if at not in self.lines)
        return Sureness.MARKS if not reply.is_prose_file and all(map(is_around, around)) else Sureness.NONE

    @cached_property
    def lines(self) -> Collection[int]:
        return self.reply.within((one.opening, one.closing) for one in self._conflicts)

    @property
    def paths(self) -> Sequence[str]:
        return [one.path for one in self._conflicts if one.path]

    def parts(self) -> Mapping[str, str]:
        parts: defaultdict[str, str] = defaultdict(str)
        for one in self._conflicts:
            parts[one.path or ""] += "\n".join([one.path or "", *self.reply.lines[one.opening : one.closing + 1], ""])
        return {} if "" in parts else parts


recognise = FoundConflicts

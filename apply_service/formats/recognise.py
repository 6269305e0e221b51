"""Defines what each format reports about a reply.  The reader of replies chooses by these reports, and knows no format
by name.

In the order of the registry, each format's `recognise` looks at the lines of a reply.  A format may claim lines; no
other edit begins inside claimed lines.  Everything else is found only when the reader asks for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

from apply_service.formats.calls import Arguments
from apply_service.text.fences import Fence, find_fences
from apply_service.text.line_search import FileLines, Likeness
from apply_service.text.markers import is_marker, strip_comment
from apply_service.text.paths import is_prose, is_same_file

CODE_WORDS = (
    *("def ", "class ", "import ", "from ", "#include", "const "),
    *("let ", "var ", "function ", "export ", "return "),
)
MIN_KNOWN = 6
"""A line needs this many letters and digits to be recognised as a line of the file."""


class Sureness(IntEnum):
    """How surely a format's marks in a reply are meant as an edit."""

    NONE = 0
    """There are no marks."""
    MARKS = 1
    OPENS = 2
    """The reply begins with the marks, so the rest must be of this format too."""
    QUOTES = 3
    """The file has lines that the edit quotes, and not only inside marks that the file itself holds."""


class ReplyLines:
    """The lines of a reply.  This class knows which of the lines stand in the file, are code, or are claimed by a
    format."""

    def __init__(self, lines: Sequence[str], file: FileLines, original: str, path: str | None, language: str | None):
        self.lines = lines
        self.text = "\n".join(lines)
        self.file = file
        self.original = original
        self.path = path
        self.language = language
        self.is_prose_file = language == "markdown" or is_prose(path)
        self.is_new_file = not original.strip()
        self.claimed: set[int] = set()

    def within(self, stretches: Iterable[tuple[int, int]]) -> set[int]:
        """Return the lines in the stretches.  A stretch includes its last line."""
        stop = len(self.lines)
        return {at for first, last in stretches for at in range(first, min(last + 1, stop))}

    def claim(self, stretches: Iterable[tuple[int, int]]) -> set[int]:
        """Claim the lines in the stretches, so that no other edit begins there, and return these lines."""
        lines = self.within(stretches)
        self.claimed |= lines
        return lines

    @cached_property
    def fences(self) -> Sequence[Fence]:
        """The fences outside of claimed lines.  Every format must have claimed its own lines before."""
        return find_fences(self.lines, self.claimed) if self.claimed else self.plain_fences

    @cached_property
    def plain_fences(self) -> Sequence[Fence]:
        """The fences that the reply would have if no line was claimed."""
        return find_fences(self.lines)

    @cached_property
    def fenced(self) -> set[int]:
        """The lines in plain fences, with the fences' own lines."""
        return self.within((fence.opening, fence.closing) for fence in self.plain_fences)

    @cached_property
    def has_own_fence(self) -> bool:
        """Whether a fence without claimed lines names this file."""
        named = (fence for fence in self.plain_fences if fence.path is not None)
        return any(is_same_file(one.path or "", self.path) and self.claimed.isdisjoint(one.body) for one in named)

    @cached_property
    def _known(self) -> set[str]:
        return {line.strip() for line in self.file.lines if sum(map(str.isalnum, line[:80])) >= MIN_KNOWN}

    def is_of_file(self, at: int) -> bool:
        line = self.lines[at]
        return line.strip() in self._known or (strip_comment(line).is_comment and is_marker(line))

    def shows_file(self, fence: Fence) -> bool:
        """Tell whether the fence holds a line of the file, or a comment that marks omitted code."""
        return any(map(self.is_of_file, fence.body))

    def is_code(self, at: int) -> bool:
        """Tell whether a line is code: whether it is a line of the file, marks omitted code, or looks like code."""
        return self.is_of_file(at) or self.is_code_shaped(at)

    def is_code_shaped(self, at: int) -> bool:
        """Tell whether the line looks like code: by its indentation, its first word, or the quotes of a long string."""
        line = self.lines[at]
        text = line.strip()
        if line[:4] in ("    ", "\t") or text.endswith(('"""', "'''", '"""\\', "'''\\")):
            return True
        return text.startswith(CODE_WORDS) and text.endswith((":", "{", ";", ")", "}")) and not text.endswith(".)")


class FilePart(NamedTuple):
    """A part of an edit, from its first line to its last, and the file that it names."""

    first: int
    last: int
    path: str | None


class ReadPart(NamedTuple):
    """The text that a format reads, the reply's lines that it comes from, and the other files that the edit names."""

    update: str
    lines: Collection[int]
    others: Collection[str | None]


class Recognised:
    """What a format finds in a reply.  This base has no marks: the reply is the edit, and fences name its files."""

    has_marks = False
    is_patch = False
    """Whether the edit may change any number of files, and create, move or delete them."""
    is_whole = False
    """Whether the edit is a whole file, so that code around it can't be a part of the edit."""
    signs: Sequence[str] = ()
    """Texts that mark such an edit inside a tool call.  One of these is enough."""
    call_words: Sequence[str] = ()
    """Further texts of such tool calls.  A call with none of these texts and none of `signs` holds no such edit."""
    blocks: Sequence[FilePart] = ()
    """The parts of the edit.  If this file has a fence of its own beside the parts, the parts are for other files."""
    mentions: Sequence[str] = ()
    """The files that the text around the edit mentions, if none is named outright."""

    def __init__(self, reply: ReplyLines) -> None:
        self.reply = reply

    @classmethod
    def keeps_bom(cls, text: str) -> bool:  # noqa: ARG003
        """Tell whether the text is such an edit, and one that itself decides about the file's byte-order mark."""
        return False

    @classmethod
    def in_call(cls, call: Arguments) -> str | None:
        """Return the edit of this format in an object of a tool call; None if the object holds no such edit, or
        several."""
        texts = [text for text in call.fields.values() if isinstance(text, str) and "\n" in text]
        found = [text for text in texts if any(sign in text for sign in cls.signs)]
        return found[0] if len(found) == 1 else None

    @classmethod
    def indented(cls, lines: Sequence[str], file: FileLines) -> Iterable[range]:  # noqa: ARG003
        """Yield the stretches that would be such an edit of the file if the blanks before their lines were left out."""
        return ()

    @property
    def confidence(self) -> Sureness:
        return Sureness.NONE

    @property
    def lines(self) -> Collection[int]:
        """The lines of the edit."""
        return range(len(self.reply.lines))

    @property
    def paths(self) -> Sequence[str]:
        """The files that the edit names."""
        return [fence.path for fence in self.reply.fences if fence.path]

    @property
    def whole_files(self) -> Sequence[str]:
        """The files that have a fence of their own, beside an edit of other files."""
        return ()

    @property
    def is_foreign(self) -> bool:
        """Whether every part of the edit is for another file."""
        return False

    @property
    def is_snippet(self) -> bool:
        """Whether the edit is read like a snippet: from its fences, without the prose around it."""
        return not (self.has_marks or self.is_whole)

    def surrounds(self, line: str) -> bool:
        """Tell whether a line like this one usually stands around such an edit."""
        return False

    def outside(self) -> Iterator[int]:
        """Yield the lines outside the edit, except blank lines and lines that usually surround such an edit.

        Fenced text counts only if its fence holds a part of the edit.
        """
        reply, inside = self.reply, self.reply.claimed.union(self.lines)
        first = min(inside, default=0)
        is_own = reply.file.stands(reply.lines[first : first + 3], Likeness.TRAILING)
        for fence in reply.fences if not is_own else ():
            holds_part = not inside.isdisjoint(range(fence.opening, fence.closing + 1))
            inside.update((fence.opening, fence.closing) if holds_part else range(fence.opening, fence.closing + 1))
        for at, line in enumerate(reply.lines):
            if at not in inside and line.strip() and not self.surrounds(line):
                yield at

    def read(self) -> ReadPart:
        """Return what the format reads for this file."""
        path = self.reply.path
        others = [one for one in self.paths if path is not None and not is_same_file(one, path)]
        return ReadPart(self.reply.text, self.lines, others)

    def read_alone(self) -> ReadPart | None:
        """Return the patch without any other line; None if `read` already returns this for one file."""
        return None

    def parts(self) -> Mapping[str, str]:
        """Return the edit's part for each file; empty unless each part names its file directly."""
        return {}

"""The header lines of unified diffs: which file, which action, which lines.

Knows git's headers (`diff --git`, renames, copies, modes, quoted paths), plain `---`/`+++` pairs, and hunk headers with
or without numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from apply_service.edits.file_change import Action, FileChange
from apply_service.edits.hunks import HunkLine
from apply_service.errors import MalformedEdit

HUNK_HEADER = re.compile(r"^@@+(?:\s|$)")
_NUMBERS = re.compile(r"^@@ +-(\d+)(?:,(\d+))? +\+(\d+)(?:,(\d+))? *@@(.*)$")
_COMBINED = re.compile(r"^@@@+ -")
_STAMP = re.compile(r"(?:\t.*|\s+\d{4}-\d\d-\d\d[ T].*)$")
_PREAMBLE = re.compile(
    r"^(?:commit [0-9a-f]{7,}|From [0-9a-f]{7,} |"
    r"(?:From|Author|AuthorDate|Commit|CommitDate|Date|Subject|Index|Merge): ?|"
    r"={20,}$|---$|    |\S.* \| +\d+ [+-]*$| \S.* \| +(?:\d+|Bin)| \d+ files? changed|index [0-9a-f]{6,}|-- ?$|"
    r"\d+\.\d+[\d.]*$| (?:create|delete) mode | rename .* => | mode change )"
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
"""After a backslash in a quoted path; anything else stands for itself."""
MAX_MISCOUNT = 3
"""Lines by which models miscount a hunk that is complete."""
MAX_LENGTH = 4096
"""Of a header line, as of a path."""
PREFIXES = ("a/", "b/", "i/", "w/", "c/", "o/")
NOTHING = "/dev/null"


def is_preamble(line: str) -> bool:
    """Whether the line is of a kind that commits and mails put before a diff or after it."""
    return len(line) <= MAX_LENGTH and _PREAMBLE.match(line) is not None


@dataclass(frozen=True, slots=True)
class HunkHeader:
    """What a hunk's `@@` line says; None for what it doesn't."""

    old_start: int | None = None
    old_count: int | None = None
    new_start: int | None = None
    new_count: int | None = None
    heading: str = ""

    @property
    def stated_line(self) -> int | None:
        """0-based first line; of a hunk without old lines, the line that it comes before."""
        if self.old_start is None:
            return None
        return self.old_start if self.old_count == 0 else max(self.old_start - 1, 0)

    def wants_more(self, lines: Sequence[HunkLine]) -> bool:
        """Whether the counts say that more lines should follow these than a miscount or a blank last line explains."""
        if self.old_count is None or self.new_count is None:
            return False
        old, new = (sum(line.kind != other for line in lines) for other in ("add", "remove"))
        missing = sorted((self.old_count - old, self.new_count - new))
        ends_in_change = bool(lines) and lines[-1].kind != "context"
        limit = 0 if ends_in_change else MAX_MISCOUNT
        return missing[0] >= 0 and missing[1] > limit and missing != [1, 1]

    def fits(self, drift: int) -> bool:
        """Whether both starts agree, given the lines that earlier hunks add."""
        if self.old_start is None or self.new_start is None:
            return False
        old = self.old_start + (self.old_count == 0)
        return self.new_start + (self.new_count == 0) == old + drift


def read_hunk_header(line: str) -> HunkHeader:
    """Raises MalformedEdit for a combined diff, which has no single original."""
    if _COMBINED.match(line):
        raise MalformedEdit(
            "a combined diff has several originals", value=line[:200], remedy="send a diff of two texts"
        )
    match = _NUMBERS.match(line)
    if match is None:
        return HunkHeader(heading=_heading(line))
    old_start, old_count, new_start, new_count = (None if n is None else int(n) for n in match.groups()[:4])
    one = 1
    return HunkHeader(
        old_start,
        one if old_count is None else old_count,
        new_start,
        one if new_count is None else new_count,
        match[5].strip(),
    )


def _heading(line: str) -> str:
    """The words in a header without numbers (`@@ def f() @@`); nothing where it only stands for a gap."""
    words = line.strip().strip("@").strip()
    words = words.removesuffix("@@").strip()
    return "" if not re.search(r"[^\W\d_]", words) or re.fullmatch(r"(?:[-+]\d+(?:,\d+)?\s*)+", words) else words


@dataclass(slots=True)
class FileHeader:
    """The header lines of one file, as they are read."""

    old: str | None = None
    new: str | None = None
    has_names: bool = False
    """A `---`/`+++` pair was read."""
    has_prefixes: bool = False
    """The names carry `a/` and `b/`, or git says which they are: a difference between them is a move."""
    is_new: bool = False
    is_deleted: bool = False
    is_rename: bool = False
    is_copy: bool = False
    old_mode: str | None = None
    new_mode: str | None = None

    @classmethod
    def of_git_line(cls, line: str) -> FileHeader:
        """`diff --git a/x b/x`; names that differ, or hold blanks, are settled by the lines below."""
        rest = line.removeprefix("diff --git ")
        if rest.startswith('"'):
            old, new = _split_quoted(rest)
        else:
            half = len(rest) // 2
            old, new = rest[:half], rest[half + 1 :]
            if rest[half : half + 1] != " " or old[2:] != new[2:]:
                old, _, new = rest.partition(" ")
        return cls(_bare(old), _bare(new), has_prefixes=True)

    def read(self, line: str) -> bool:
        """Take in one of git's extended header lines; False where it is none."""
        word, _, rest = line.partition(" ")
        if word == "index" or line.startswith(("similarity index ", "dissimilarity index ")):
            self._read_index_mode(line)
        elif word in ("old", "new", "deleted") and (mode := re.search(r"mode (\d{6})$", line)):
            self._read_mode(word, line, mode[1])
        elif word in ("rename", "copy") and rest.startswith(("from ", "to ")):
            self._read_move(word, rest)
        elif line.startswith("Binary files ") or line == "GIT binary patch":
            raise MalformedEdit("the diff is of a binary file", value=line[:200], remedy="only text can be edited")
        else:
            return False
        return True

    def _read_index_mode(self, line: str) -> None:
        if match := re.search(r"^index \S+ (\d{6})$", line):
            self.old_mode = self.new_mode = match[1]

    def _read_mode(self, word: str, line: str, mode: str) -> None:
        if word == "old":
            self.old_mode = mode
        elif line.startswith("deleted file"):
            self.is_deleted, self.old_mode = True, mode
        else:
            self.is_new |= line.startswith("new file")
            self.new_mode = mode

    def _read_move(self, word: str, rest: str) -> None:
        self.is_rename, self.is_copy = True, word == "copy"
        which, _, name = rest.partition(" ")
        if which == "from":
            self.old = _unquoted(name)
        else:
            self.new = _unquoted(name)

    def read_names(self, lines: Sequence[str]) -> None:
        """Take in `---` and `+++`, or one of them."""
        self.has_names = True
        self.has_prefixes |= [line[4:].lstrip('"')[:2] for line in lines] == ["a/", "b/"]
        for line in lines:
            name = _STAMP.sub("", line[4 : 4 + MAX_LENGTH]).rstrip()
            if line.startswith("--- "):
                self.is_new |= name == NOTHING
                self.old = self.old if name == NOTHING else _bare(name)
            else:
                self.is_deleted |= name == NOTHING
                self.new = self.new if name == NOTHING else _bare(name)

    def change(self) -> FileChange:
        """The change that the headers tell, without its hunks."""
        old, new = self.old or self.new or "", self.new or self.old or ""
        moves = old != new and self.has_prefixes and not (self.is_new or self.is_deleted)
        modes = (self.old_mode, self.new_mode) if self.old_mode != self.new_mode else (None, None)
        return FileChange(
            path=old if moves or self.is_deleted else new,
            action=self._action(moves=moves, is_mode=modes != (None, None)),
            new_path=new if moves else None,
            old_mode=modes[0],
            new_mode=modes[1],
            is_copy=self.is_copy,
        )

    def _action(self, *, moves: bool, is_mode: bool) -> Action:
        if self.is_new:
            return "create"
        if self.is_deleted:
            return "delete"
        if moves:
            return "rename"
        return "mode" if is_mode else "modify"


def _bare(name: str) -> str:
    name = _unquoted(name)
    return name[2:] if name.startswith(PREFIXES) else name


def _split_quoted(rest: str) -> tuple[str, str]:
    end = re.match(r'"(?:[^"\\]|\\.)*"', rest)
    cut = end.end() if end else len(rest)
    return rest[:cut], rest[cut:].strip()


def _unquoted(name: str) -> str:
    """The path that git's C-style quotes stand for."""
    if not (name.startswith('"') and name.endswith('"') and len(name) > 1):
        return name
    pieces = re.findall(r"\\([0-7]{3})|\\(.)|([^\\])", name[1:-1])
    data = b"".join(
        bytes([int(octal, 8) & 255]) if octal else _ESCAPES.get(escape, escape).encode() if escape else plain.encode()
        for octal, escape, plain in pieces
    )
    return data.decode("utf-8", "replace")

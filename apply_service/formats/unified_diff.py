"""Reads unified diffs into file changes, and recognises them as an edit format.

It reads git's diffs, and the sloppy diffs that models write.  If a hunk's counts agree with its lines, the counts
decide where the hunk ends, so content that looks like a header stays content.  Any other hunk (wrong counts, `@@ ...
@@`, no header) ends before the first line that can't be part of it.  Lines between hunks that are not headers are
returned as strays, never skipped silently.  A hunk whose context stands in the file once determines the result,
whatever its line numbers say.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import pairwise, takewhile
from typing import NamedTuple

from apply_service.errors import MalformedEdit
from apply_service.formats.file_change import Action, FileChange, PatchText, pick_change, predict_change, quotes_file
from apply_service.formats.hunks import QuotedHunk, Trust, signed_lines
from apply_service.formats.recognise import ReadPart, Recognised, ReplyLines, Sureness
from apply_service.merge.merge import merge
from apply_service.merge.signed import is_signed
from apply_service.protocols import EditContext
from apply_service.text.english import is_sentence
from apply_service.text.fences import Fence, fence_tag, find_fences, is_around, is_fence
from apply_service.text.fidelity import MARK, normalise, split_ends
from apply_service.text.line_search import FileLines, Likeness
from apply_service.text.paths import is_same_file
from apply_service.types import LineOp, Prediction

HUNK_HEADER = re.compile(r"^@@+(?:\s|$)")
_NUMBERS = re.compile(r"^@@ +-(\d{1,9})(?:,(\d{1,9}))? +\+(\d{1,9})(?:,(\d{1,9}))? *@@(.*)$")
_STAMP = re.compile(r"\s+\d{4}-\d\d-\d\d[ T].*$")
_SIGNATURE = re.compile(r"^-- ?$")
_IN_QUOTES = re.compile(r'"(?:[^"\\]|\\.)*"')
_MODE = re.compile(r"(old|new|new file|deleted file) mode (.*)$")
_VERSION = re.compile(r"^\d+\.[\w. ()-]+$")
"""The last line of a diff that git mails: its version, below the signature."""
_PREAMBLE = re.compile(
    r"^(?:commit [0-9a-f]{7,}|From [0-9a-f]{7,} |"
    r"(?:From|Author|AuthorDate|Commit|CommitDate|Date|Subject|Index|Merge): ?|"
    r"={20,}$|---$|    |\S.* \| +\d+ [+-]*$| \S.* \| +(?:\d+|Bin)| \d+ files? changed|index [0-9a-f]{6,}|-- ?$|"
    r"\d+\.\d+[\d.]*$| (?:create|delete) mode | rename .* => | mode change )"
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
"""The meanings of letters after a backslash in a quoted path.  Any other character stands for itself."""
SIGNS = (" ", "+", "-")
MAX_MISCOUNT = 3
"""Models miscount a complete hunk by up to this many lines."""
MAX_LENGTH = 4096
"""A header line or a path has at most this many characters."""
PREFIXES = ("a/", "b/", "i/", "w/", "c/", "o/")
NOTHING = "/dev/null"
REGULAR = "100"
"""The first digits of git's modes for regular files.  Other modes are for links and submodules."""


def predict(original: str, update: str, about: EditContext) -> Prediction:
    """Return the original with the diff's hunks for this file applied.

    Both texts may be given as they came, with their own line ends and byte-order marks.  Without any header, lines with
    signs are read as a snippet.
    """
    trust = Trust()
    lf, lf_update = normalise(original), normalise(update)
    lines = lf_update.split("\n")
    has_header = any(HUNK_HEADER.match(line) for line in lines)
    if not has_header and not any(starts_diff(lines, at) for at in range(len(lines))):
        if not is_signed(lf.split("\n"), lines):
            raise _no_hunk(lf_update)
        return merge(lf, lf_update, **about._asdict())
    text = parse_diff(lf_update)
    hunks = [hunk for change in text.changes for hunk in change.hunks]
    if hunks and not has_header and (text.strays or any(hunk.old == hunk.new for hunk in hunks)):
        raise MalformedEdit(
            "the diff has no @@ lines, and some of its lines do not begin with a blank, - or +",
            value=update[:200],
            remedy="begin each hunk with @@, and each of its lines with a blank, - or +",
        )
    if text.strays:
        trust.doubt(f"line {text.strays[0] + 1} belongs to no hunk and was left out")
    return apply_change(original, update, pick_change(text.changes, about.path, trust), trust)


def _no_hunk(update: str) -> MalformedEdit:
    return MalformedEdit("the diff has no hunk", value=update[:200], remedy="send hunks: @@, then - and + lines")


# -- in a reply --------------------------------------------------------------------------------------------------------
class FoundDiff(Recognised):
    """The diff in a reply: the fences that hold a diff, or else everything from the diff's first header on."""

    has_marks = is_patch = True
    signs = ("+++ ",)

    @classmethod
    def keeps_bom(cls, text: str) -> bool:
        return "*** Begin Patch" not in text and any(map(HUNK_HEADER.match, text.split("\n")))

    @cached_property
    def _start(self) -> int | None:
        """The first line of a diff; None if there is none.  Raises MalformedEdit if the line belongs to a combined
        diff."""
        reply = self.reply
        starts = (at for at in range(len(reply.lines)) if at not in reply.claimed and starts_diff(reply.lines, at))
        return next(starts, None)

    @property
    def is_snippet(self) -> bool:
        """Whether the diff has no header, so that it is read like a snippet."""
        return self._start is None

    @property
    def confidence(self) -> Sureness:
        reply = self.reply
        if self._start is None:
            return Sureness.NONE
        if quotes_file(self._changes, reply):
            return Sureness.QUOTES
        first = next(at for at, line in enumerate(reply.lines) if line.strip())
        is_named = first == self._start and reply.lines[first].startswith(("diff --git ", "--- "))
        return Sureness.OPENS if is_named and not reply.is_of_file(first) else Sureness.MARKS

    @property
    def lines(self) -> Collection[int]:
        return self._kept.difference(self._diff.strays if self._diff is not None else ())

    @property
    def paths(self) -> Sequence[str]:
        return [change.path for change in self._changes if change.path]

    def surrounds(self, line: str) -> bool:
        return is_preamble(line)

    def read(self) -> ReadPart:
        changes, strays = self._diff or ((), ())
        hunks = [hunk for change in changes for hunk in change.hunks]
        last = max((line.update_line for hunk in hunks for line in hunk.lines), default=-1)
        kept = self._kept.difference(at for at in strays if at >= last)
        others = [change.path for change in changes if not change.is_for(self.reply.path)]
        return ReadPart(blanked(self.reply, kept), kept, others)

    @cached_property
    def _diff(self) -> PatchText | None:
        with suppress(MalformedEdit):
            return parse_diff(blanked(self.reply, self._kept))
        return None

    @property
    def _changes(self) -> Sequence[FileChange]:
        return self._diff.changes if self._diff is not None else ()

    @cached_property
    def _kept(self) -> set[int]:
        """The lines that may belong to the diff."""
        reply = self.reply
        holding = [fence for fence, _ in diff_fences(reply)]
        mine = [f for f in holding if f.path is None or not f.is_surely_named or is_same_file(f.path, reply.path)]
        # Keep a fence's end too, because it shows that the diff is complete.
        kept = reply.within((fence.opening + 1, fence.closing) for fence in mine or holding)
        if self._start is not None and max(kept, default=-1) < self._start:
            kept.update(range(self._start, len(reply.lines)))
        return kept


recognise = FoundDiff


def diff_fences(reply: ReplyLines) -> Iterator[tuple[Fence, str]]:
    """Yield the fences that hold a diff, each with the diff's first line.  A line with a sign does not open a fence."""
    signed = {at for at, line in enumerate(reply.lines) if line[:1] in SIGNS}
    for fence in find_fences(reply.lines, signed | reply.claimed):
        body = reply.lines[fence.opening + 1 : fence.closing]
        if (first := next((line for at, line in enumerate(body) if starts_diff(body, at)), None)) is not None:
            yield fence, first


def blanked(reply: ReplyLines, kept: Collection[int]) -> str:
    """Return the reply with the lines outside `kept` blanked, so that the others keep their numbers.

    If a fence names the file and its diff does not, git's header for that file replaces the line that opens the fence.
    """
    lines = [("```" if fence_tag(line) else line) if at in kept else "" for at, line in enumerate(reply.lines)]
    for fence, first in diff_fences(reply):
        if fence.path and fence.is_surely_named and HUNK_HEADER.match(first):
            lines[fence.opening] = f"diff --git a/{fence.path} b/{fence.path}"
    return "\n".join(lines)


# -- applying ----------------------------------------------------------------------------------------------------------
def apply_change(original: str, update: str, change: FileChange, trust: Trust) -> Prediction:
    """Return the file after its change.

    Both texts are as they came.  `change` was read from `update` without line ends and byte-order mark.  If the file
    has the quotes of the hunks byte for byte, with line ends and mark, the added lines are also taken byte for byte, as
    git does.  Otherwise line ends and mark are those of the file.

    Raises what `predict_change` raises, and MalformedEdit if the byte-order mark would move or disappear.
    """
    exact = _with_returns(change, original, update)
    if exact is None:
        return predict_change(normalise(original), normalise(update), change, trust)
    return _without_ends(predict_change(original, update, exact, trust), original, normalise(update))


def _with_returns(change: FileChange, original: str, update: str) -> FileChange | None:
    r"""Return the change with the `\r` of each line that has one.

    The result is None if neither text has a `\r` or a byte-order mark, or if the file does not have the old lines with
    their `\r`.
    """
    if not ("\r" in original or "\r" in update or MARK in original or MARK in update):
        return None
    if "\n" not in update or ("\r" in original and "\n" not in original):
        return None
    _, ends = split_ends(update)
    file, hunks = FileLines(original), []
    for hunk in change.hunks:
        lines = tuple(
            line._replace(text=line.text + "\r") if ends[line.update_line] == "\r\n" else line for line in hunk.lines
        )
        is_told = all(ends[line.update_line - 1] == "\n" for line in lines[:1] if line.update_line)
        hunks.append(replace(hunk, lines=lines))
        if not is_told or (hunks[-1].old and not file.stands(hunks[-1].old, Likeness.EXACT)):
            return None
    return replace(change, hunks=tuple(hunks))


def _without_ends(exact: Prediction, original: str, lf_update: str) -> Prediction:
    """Return the same prediction with the ends of its lines in `ends`.

    Raises MalformedEdit if the byte-order mark would move or disappear.
    """
    lines, update_lines = normalise(original).split("\n"), lf_update.split("\n")
    written = [op for op in exact.ops if op.kind != "drop"]
    texts = [op.text.removesuffix("\r") for op in written[:-1]] + [op.text for op in written[-1:]]
    ends = tuple("\r\n" if op.text.endswith("\r") else "\n" for op in written[:-1])
    if written and original.startswith(MARK):
        if not _keeps_bom(written):
            raise MalformedEdit(
                "the edit moves or removes the byte-order mark (U+FEFF) that begins the file",
                value="U+FEFF",
                remedy="keep it where it is; to remove it, save the file in an editor as UTF-8 without BOM",
            )
        texts[0] = texts[0].removeprefix(MARK)
    ops, rest = [], iter(texts)
    for op in exact.ops:
        text = op.text if op.kind == "drop" else next(rest)
        ops.append(op._replace(text=text if op.original_line is None else lines[op.original_line]))
        if op.kind == "take" and op.update_line is not None:
            update_lines[op.update_line] = text
    return replace(exact, ops=tuple(ops), update_lines=tuple(update_lines), ends=ends)


def _keeps_bom(written: Sequence[LineOp]) -> bool:
    """Tell whether the byte-order mark of the first line stays where it is."""
    is_elsewhere = any(op.original_line == 0 for op in written[1:])
    is_another = written[0].original_line not in (None, 0)  # such a kept line may begin with this character too
    return written[0].text.startswith(MARK) and not is_elsewhere and not is_another


# -- lines -------------------------------------------------------------------------------------------------------------
def starts_diff(lines: Sequence[str], at: int) -> bool:
    """Tell whether a header of a diff stands at this line.

    The header is git's own line, a pair of names, or a hunk's header with numbers in it or changes below it.
    """
    line = lines[at]
    if line.startswith("diff --git "):
        return True
    if line.startswith("--- "):
        below = lines[at + 1] if at + 1 < len(lines) else ""
        return below.startswith("+++ ") and len(line) > 4 and len(below) > 4
    if not HUNK_HEADER.match(line):
        return False
    if read_hunk_header(line).numbers is not None:
        return True
    body = takewhile(lambda text: text[:1] in ("", " ", "+", "-"), lines[at + 1 : at + 200])
    return any(text[:1] in ("+", "-") for text in body)


def is_preamble(line: str) -> bool:
    """Tell whether the line is one that commits and mails have before a diff or after it."""
    return len(line) <= MAX_LENGTH and _PREAMBLE.match(line) is not None


class HunkHeader(NamedTuple):
    """What a hunk's `@@` line says."""

    numbers: tuple[int, int, int, int] | None = None
    """The first line and the number of lines of the old text, then the same two numbers for the new text."""
    heading: str = ""

    @property
    def stated_line(self) -> int | None:
        """The 0-based first line of the hunk.  If the hunk has no old lines, this is the line before which the hunk
        goes."""
        if self.numbers is None:
            return None
        return self.numbers[0] if self.numbers[1] == 0 else max(self.numbers[0] - 1, 0)


def read_hunk_header(line: str) -> HunkHeader:
    """Return what the line says.  Raises MalformedEdit if it belongs to a combined diff, which has no single
    original."""
    if re.match(r"@@@+ -", line):
        raise MalformedEdit(
            "this is a combined diff (of a merge)", value=line[:200], remedy="send a diff of two versions of the file"
        )
    if match := _NUMBERS.match(line):
        old_start, old_count, new_start, new_count = (int(number or 1) for number in match.groups()[:4])
        return HunkHeader((old_start, old_count, new_start, new_count), match[5].strip())
    words = line.strip().strip("@").strip().removesuffix("@@").strip()
    only_stands_for_a_gap = not re.search(r"[^\W\d_]", words) or re.fullmatch(r"(?:[-+]\d+(?:,\d+)?\s*)+", words)
    return HunkHeader(heading="" if only_stands_for_a_gap else words)


def _unquoted(name: str) -> str:
    """Return the path without git's C-style quotes.  Raises MalformedEdit if the quotes are not closed."""
    if not name.startswith('"'):
        return name
    if not _IN_QUOTES.fullmatch(name):
        raise MalformedEdit(
            "the diff has a file name in quotes that are not closed", value=name[:200], remedy="close the quotes"
        )
    data = b"".join(
        bytes([int(octal, 8) & 255]) if octal else _ESCAPES.get(escape, escape).encode() if escape else plain.encode()
        for octal, escape, plain in re.findall(r"\\([0-7]{3})|\\(.)|([^\\])", name[1:-1])
    )
    return data.decode("utf-8", "replace")


def _bare(name: str) -> str:
    name = _unquoted(name)
    return name[2:] if name.startswith(PREFIXES) else name


# -- parsing -----------------------------------------------------------------------------------------------------------
def parse_diff(update: str) -> PatchText:
    """Return the changes in a diff.

    Raises MalformedEdit if there is no change, or if the diff is broken or of a kind that can't be applied (binary,
    combined).
    """
    text = _Parser(update.split("\n")).run()
    if not any(change.hunks or change.action != "modify" for change in text.changes):
        raise _no_hunk(update)
    return text


def _damaged_mode(line: str) -> MalformedEdit:
    return MalformedEdit(
        "the diff changes the file mode, but does not say which mode the file had and gets",
        value=line[:200],
        remedy="write both, such as `old mode 100644` and `new mode 100755`, or neither",
    )


class _Section:
    """One file's part of a diff, as it is read."""

    def __init__(self) -> None:
        self.hunks: list[QuotedHunk] = []
        self.drift = 0  # lines that the hunks so far add to the file
        self.has_names = False  # a `---`/`+++` pair was read
        self._names: dict[str, str] = {}  # by "old" and "new"
        self._modes: dict[str, str] = {}
        self._says: set[str] = set()  # "git" if it begins with git's own line, "create", "delete", "rename", "copy"
        self._git_name = ""  # the name in git's own line, if both sides have the same name

    def read_git_line(self, line: str) -> None:
        """Read the names in `diff --git a/x b/x`.  If the names differ or hold blanks, later lines decide."""
        rest = line.removeprefix("diff --git ")
        half = len(rest) // 2
        old, new = rest[:half], rest[half + 1 :]
        if rest.startswith('"'):
            quoted = _IN_QUOTES.match(rest)
            end = quoted.end() if quoted else len(rest)
            old, new = rest[:end], rest[end + 1 :]
        elif rest[half : half + 1] != " " or old[2:] != new[2:]:
            old, _, new = rest.partition(" ")
        self._names = {"old": _bare(old), "new": _bare(new)}
        self._git_name = self._names["old"] if self._names["old"] == self._names["new"] else ""
        self._says.add("git")

    def read_header(self, line: str) -> bool:
        """Read one of git's extended header lines, and tell whether the line is such a header.

        Raises MalformedEdit if the diff is of a binary file, or a mode is damaged.
        """
        word, _, rest = line.partition(" ")
        if word == "index" or line.startswith(("similarity index ", "dissimilarity index ")):
            if match := re.search(r"^index \S+ (\d{6})$", line):
                self._modes = {"old": match[1], "new": match[1]}
        elif mode := _MODE.match(line):
            if not re.fullmatch(r"\d{6}", mode[2]):
                raise _damaged_mode(line)
            self._says |= {"deleted file": {"delete"}, "new file": {"create"}}.get(mode[1], set())
            self._modes["old" if word in ("old", "deleted") else "new"] = mode[2]
        elif word in ("rename", "copy") and rest.startswith(("from ", "to ")):
            self._says = (self._says - {"rename", "copy"}) | {word}
            which, _, name = rest.partition(" ")
            self._names["old" if which == "from" else "new"] = _unquoted(name)
        elif line.startswith("Binary files ") or line == "GIT binary patch":
            raise MalformedEdit(
                "the diff is of a binary file",
                value=line[:200],
                remedy="apply it with git; only text can be edited here",
            )
        else:
            return False
        return True

    def read_names(self, lines: Sequence[str]) -> None:
        """Read `---` and `+++`, or one of them.  Raises MalformedEdit if git's own line names another file."""
        self.has_names = True
        for line in lines:
            named, tab, _ = line[4 : 4 + MAX_LENGTH].partition("\t")
            # git ends a name that holds a blank with a tab
            is_whole = tab or _bare(named) in self._names.values()
            name = named if is_whole else _STAMP.sub("", named).rstrip()
            is_old = line.startswith("--- ")
            if name != NOTHING:
                if self._git_name and not is_same_file(_bare(name), self._git_name):
                    raise MalformedEdit(
                        f"one header of the diff names two files: {self._git_name} and {_bare(name)}",
                        value=name[:200],
                        remedy="name one file in `diff --git`, --- and +++; to move it, add `rename from` and `to`",
                    )
                self._names["old" if is_old else "new"] = _bare(name)
            else:
                self._says.add("create" if is_old else "delete")

    def change(self) -> FileChange:
        old, new = self._names.get("old", ""), self._names.get("new", "")
        old, new = old or new, new or old
        is_new, is_deleted = "create" in self._says, "delete" in self._says
        moves = old != new and not (is_new or is_deleted) and self._says_move(old, new)
        modes = self._told_modes()
        action: Action = "mode" if any(modes) and not self.hunks else "modify"
        if moves:
            return FileChange(old, "rename", new, tuple(self.hunks), *modes, "copy" in self._says)
        if is_new or is_deleted:
            action = "create" if is_new else "delete"
        # If there are two names but no move, git takes the old name if the new name only adds to it (`f.py.new`).
        is_old = is_deleted or (new.startswith(old) and not is_new)
        return FileChange(old if is_old else new, action, None, tuple(self.hunks), *modes, "copy" in self._says)

    def _says_move(self, old: str, new: str) -> bool:
        """Tell whether a header with two names says that the file moves.

        Raises MalformedEdit if the section shows neither a move nor a change, so the diff may be cut short.
        """
        if self._says & {"rename", "copy"}:
            return True
        if "git" in self._says and not (self.has_names or self.hunks):
            raise MalformedEdit(
                "the diff has the header of a file but no change of it: it may be cut short",
                value=f"{old} {new}"[:200],
                remedy="send the whole diff; a renamed file has lines `rename from` and `rename to`",
            )
        return "git" in self._says

    def _told_modes(self) -> tuple[str | None, str | None]:
        """Return the file's mode before and after; (None, None) for a regular file that keeps its mode.

        Raises MalformedEdit if the diff gives only the old mode.
        """
        old, new = self._modes.get("old"), self._modes.get("new")
        if old and not new and "delete" not in self._says:
            raise _damaged_mode(f"old mode {old}")
        return (None, None) if old == new and (old or "").startswith(REGULAR) else (old, new)


def _lacking(hunk: QuotedHunk, missing: tuple[int, int]) -> tuple[int, int]:
    """Return how many old and new lines the last hunk lacks.

    If the hunk ends with context, up to MAX_MISCOUNT missing lines count as none, because models miscount.
    """
    limit = 0 if hunk.lines and hunk.lines[-1].kind != "context" else MAX_MISCOUNT
    return missing if min(missing) >= 0 and max(missing) > limit else (0, 0)


def _refuse_lines_behind_end(body: Sequence[tuple[int, str]]) -> None:
    """Raise MalformedEdit if a line of a hunk follows the remark that the line's side has ended without a newline."""
    sides = {"+": {"+"}, "-": {"-"}}
    ended: set[str] = set()
    for before, (at, text) in pairwise([(0, ""), *body]):
        if text.startswith("\\ "):
            ended |= sides.get(before[1][:1], {"+", "-"})
        elif text and ended & sides.get(text[:1], {"+", "-"}):
            raise MalformedEdit(
                f"line {at + 1} of the diff follows `\\ No newline at end of file`, which ends the file",
                value=text[:200],
                remedy="write `\\ No newline at end of file` below the last line alone",
            )


class _Parser:
    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._sections: list[_Section] = []
        self._last_shown = [at for at, line in enumerate(lines) if line.strip()][-2:]
        self._last_change = max((at for at, line in enumerate(lines) if line[:1] in ("+", "-")), default=-1)
        self._last_header = max((at for at, line in enumerate(lines) if HUNK_HEADER.match(line)), default=-1)

    def run(self) -> PatchText:
        strays: list[int] = []
        at = below_header = 0
        while at < len(self._lines):
            line = self._lines[at]
            section = self._sections[-1] if self._sections else None
            if line.startswith("diff --git "):
                self._sections.append(_Section())
                self._sections[-1].read_git_line(line)
                below_header = at + 1
            elif n_names := self._count_names(at):
                self._read_names(at, n_names)
                at += n_names - 1
            elif section is not None and not section.hunks and section.read_header(line):
                below_header = at + 1
            elif HUNK_HEADER.match(line):
                at = self._read_hunk(at + 1, read_hunk_header(line))
                continue
            elif line[:1] in self._signs_of_hunk(at, section):
                at = self._read_bare_hunk(at)
                continue
            elif at == below_header > 0 and line[:1] in SIGNS and not _SIGNATURE.match(line):
                raise self._no_hunk_of(at)
            elif not is_around(line) and not is_preamble(line):
                strays.append(at)
            at += 1
        return PatchText(tuple(section.change() for section in self._sections), tuple(strays))

    def _read_names(self, at: int, n_names: int) -> None:
        """Read the names that begin at this line.  The names begin a new file if the last file already has names or
        hunks."""
        if not self._sections or self._sections[-1].hunks or self._sections[-1].has_names:
            self._sections.append(_Section())
        self._sections[-1].read_names(self._lines[at : at + n_names])

    def _read_bare_hunk(self, at: int) -> int:
        """Read a hunk without a header, and return its end.  Raises MalformedEdit if a hunk with numbers follows."""
        end = self._read_hunk(at, HunkHeader())
        if end < len(self._lines) and _NUMBERS.match(self._lines[end]):
            raise self._no_hunk_of(at)
        return end

    def _signs_of_hunk(self, at: int, section: _Section | None) -> Sequence[str]:
        """Return the signs with which a hunk without a header may begin here; empty if no such hunk may begin here.

        It may begin right below the names of its file.  It may also begin with + or - before any other part of a diff,
        if no hunk's header follows.
        """
        if section is None:
            return SIGNS[1:] if at > self._last_header else ()
        return SIGNS if section.has_names and not section.hunks else ()

    def _no_hunk_of(self, at: int) -> MalformedEdit:
        return MalformedEdit(
            f"line {at + 1} of the diff belongs to no hunk",
            value=self._lines[at][:200],
            remedy="write an @@ line above each hunk, and the names (---, +++) above the first",
        )

    def _count_names(self, at: int) -> int:
        """Return how many lines from here on name the file (`---`, `+++`).  A lone name must stand above a hunk."""
        here, below = self._lines[at], self._lines[at + 1] if at + 1 < len(self._lines) else ""
        if here.startswith("--- ") and below.startswith("+++ "):
            return 2
        return 1 if here.startswith(("--- ", "+++ ")) and HUNK_HEADER.match(below) else 0

    def _read_hunk(self, start: int, header: HunkHeader) -> int:
        """Read the hunk with its lines from `start` on, and return its end."""
        if not self._sections:
            self._sections.append(_Section())
        section = self._sections[-1]
        counted = None if header.numbers is None else self._counted_end(start, header.numbers[1], header.numbers[3])
        end = counted
        if end is None:
            end = next((at for at in range(start, len(self._lines)) if self._ends_hunk(at)), len(self._lines))
        body = list(enumerate(self._lines[start:end], start))
        while counted is None and body and not body[-1][1]:
            body.pop()
        _refuse_lines_behind_end(body)
        without_newline = {self._lines[at - 1][:1] for at, text in body if text.startswith("\\") and at > start}
        hunk = QuotedHunk(
            "hunk",
            signed_lines(body),
            stated_line=header.stated_line,
            scopes=(header.heading,) if header.heading else (),
            old_lacks_newline=bool(without_newline - {"+"}),
            new_lacks_newline=bool(without_newline - {"-"}),
        )
        if header.numbers is not None and counted is not None:
            old_start, old_count, new_start, new_count = header.numbers
            gap = new_start + (new_count == 0) - old_start - (old_count == 0)
            hunk = replace(hunk, is_well_formed=gap == section.drift)
        elif header.numbers is not None and end == len(self._lines):
            missing = header.numbers[1] - len(hunk.old), header.numbers[3] - len(hunk.new)
            hunk = replace(hunk, lacking=_lacking(hunk, missing))
        section.hunks.append(hunk)
        section.drift += len(hunk.new) - len(hunk.old)
        return end

    def _counted_end(self, at: int, old: int, new: int) -> int | None:
        """Return the end of a hunk with this many old and new lines; None if these counts can't be right."""
        while old > 0 or new > 0:
            if at == len(self._lines) or (sign := self._lines[at][:1] or " ") not in " +-\\":
                return None
            if self._begins_file(at):  # counts that include the beginning of a file are wrong
                return None
            old -= sign in " -"
            new -= sign in " +"
            at += 1
        if at < len(self._lines) and self._lines[at].startswith("\\"):
            at += 1
        goes_on = at < len(self._lines) and self._lines[at][:1] in ("+", "-", " ") and not self._ends_hunk(at)
        return None if old or new or goes_on else at

    def _begins_file(self, at: int) -> bool:
        """Tell whether the two names of one file and the header of a hunk stand there."""
        if self._count_names(at) != 2 or not any(map(HUNK_HEADER.match, self._lines[at + 2 : at + 3])):
            return False
        names = (line[4 : 4 + MAX_LENGTH].partition("\t")[0] for line in self._lines[at : at + 2])
        old, new = (_STAMP.sub("", name).strip(' "') for name in names)
        return NOTHING in (old, new) or is_same_file(_bare(old), _bare(new))

    def _ends_hunk(self, at: int) -> bool:
        line = self._lines[at]
        is_header = HUNK_HEADER.match(line) or line.startswith("diff --git ") or self._count_names(at) == 2
        if is_header or (is_fence(line) and line[:1] in "`~"):
            return True
        if _SIGNATURE.match(line):
            return at == self._last_shown[0] and _VERSION.match(self._lines[self._last_shown[-1]]) is not None
        # Below a blank line, several words at the left edge begin a paragraph.
        starts_prose = at > 0 and not self._lines[at - 1] and line[:1].isalpha() and " " in line.strip()
        return at > self._last_change and (is_sentence(line) or starts_prose)

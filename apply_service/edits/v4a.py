"""V4A patches (`*** Begin Patch`), read into file changes, and as an edit format.

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
directive.  There are no line numbers: a hunk is found by its context, below the scopes that its `@@` lines name.
"""

from __future__ import annotations

from collections.abc import Sequence

from apply_service.edits.envelope import is_around
from apply_service.edits.file_change import (
    Action,
    FileChange,
    PatchText,
    pick_change,
    predict_change,
    with_found_context,
)
from apply_service.edits.hunks import HunkLine, QuotedHunk, Trust, signed_line
from apply_service.edits.unified_diff import read_hunk_header
from apply_service.errors import MalformedEdit
from apply_service.types import Prediction

BEGIN, END, END_OF_FILE, DIRECTIVE = "*** Begin Patch", "*** End Patch", "*** End of File", "*** "
FILE_WORDS: dict[str, Action] = {"*** Update File:": "modify", "*** Add File:": "create", "*** Delete File:": "delete"}
MOVE_WORDS = ("*** Move to:", "*** Rename to:")
MIN_WORDS = 3
"""Fewer words right below a patch are no prose: they may be a piece of it."""
CALLS = ("apply_patch", "applypatch", "%%bash", "bash -lc", "$ apply_patch", "cat <<", "<<", "EOF", "'EOF'", "PATCH")


class V4APatch:
    """The `EditFormat` of V4A patches."""

    name = "v4a_patch"

    def predict(
        self, original: str, update: str, *, language: str | None, path: str | None, instruction: str = ""
    ) -> Prediction:
        """The original with the patch's hunks for this file applied; what stands around the patch is left out.

        Raises:
            MalformedEdit: no patch, or not for this file.
            NeedsMoreContext: a hunk has no place in the file.
        """
        trust = Trust()
        change = pick_change(parse_v4a(update).changes, path, trust)
        return predict_change(original, update, with_found_context(change, original, update), trust)


def is_patch_line(line: str) -> bool:
    """Whether the line can only be the beginning of a patch."""
    return line.rstrip() == BEGIN or _read_file_line(line) is not None


def is_call(line: str) -> bool:
    """Whether the line only hands the patch over to a program, or ends that (`apply_patch <<'EOF'`, `EOF`)."""
    return len(line) < 400 and (line.strip().startswith(CALLS) or line.strip() == BEGIN)


def patch_spans(lines: Sequence[str]) -> list[tuple[int, int]]:
    """The lines of every patch, its own first and last line included; the end of one that has none is the last line.

    Inside a patch an end with blanks before it is one only where no line follows that could be a patch's.
    """
    spans: list[tuple[int, int]] = []
    is_padded = not any(is_patch_line(line) for line in lines)
    at = 0
    while at < len(lines):
        if not (is_patch_line(lines[at]) or (is_padded and lines[at][:200].strip() == BEGIN)):
            at += 1
            continue
        end = at + 1
        padded: int | None = None
        while end < len(lines) and lines[end].rstrip() != END:
            if lines[end].strip() == BEGIN and lines[end][:1] not in ("+", "-", " "):
                break
            if lines[end][:1] == " " and len(lines[end]) < 200 and lines[end].strip() == END:
                padded = end
            end += 1
        if end == len(lines) and padded is not None:
            end = padded
        spans.append((at, min(end, len(lines) - 1)))
        at = end + 1
    return spans


def parse_v4a(update: str) -> PatchText:
    """The changes that the patches of an update tell.

    Raises:
        MalformedEdit: there is no patch, it has no end, or a line that does not belong.
    """
    lines = update.split("\n")
    spans = patch_spans(lines)
    if not spans:
        raise _malformed("there is no *** Begin Patch", lines[0])
    changes: list[FileChange] = []
    outside = set(range(len(lines)))
    for begin, end in spans:
        if lines[end].strip() != END:
            raise _malformed("there is no *** End Patch: the patch may be cut short", lines[end])
        outside -= set(range(begin, end + 1))
        start = begin + (lines[begin].strip() == BEGIN)
        changes += _Parser(lines, start, end, sum(len(change.hunks) for change in changes)).run()
    strays = tuple(at for at in sorted(outside) if not is_around(lines[at]) and not is_call(lines[at]))
    ends = {end for _, end in spans}
    for at in strays:
        if at - 1 in ends and len(lines[at].split()) < MIN_WORDS:
            raise _malformed(f"line {at + 1} right after the patch is no part of it", lines[at])
    return PatchText(tuple(changes), strays)


class _Parser:
    """One patch, from its first line behind *** Begin Patch to its end."""

    def __init__(self, lines: Sequence[str], start: int, end: int, n_hunks: int) -> None:
        self._lines = lines
        self._at = start
        self._end = end
        self._n_hunks = n_hunks

    def run(self) -> list[FileChange]:
        changes: list[FileChange] = []
        while self._at < self._end:
            line = self._lines[self._at]
            self._at += 1
            if (named := _read_file_line(line.lstrip(" \t"))) is not None:
                changes.append(self._read_change(*named))
            elif line.strip():
                raise _malformed(f"line {self._at} names no file", line)
        if not changes:
            raise _malformed("the patch changes no file", "")
        return changes

    def _read_change(self, action: Action, path: str) -> FileChange:
        if action == "create":
            return FileChange(path, action, None, (self._read_new_file(path),))
        new_path = None
        hunks: list[QuotedHunk] = []
        if action == "modify":
            line = self._lines[self._at] if self._is_open() else ""
            if line.startswith(MOVE_WORDS) and (name := line.partition(":")[2].strip()):
                new_path = name
                self._at += 1
            while self._is_open():
                if (hunk := self._read_hunk()).lines:
                    hunks.append(hunk)
            if not hunks and new_path is None:
                raise _malformed(f"the patch says nothing about {path}", "")
        return FileChange(path, action if new_path is None else "rename", new_path, tuple(hunks))

    def _is_open(self) -> bool:
        return self._at < self._end and _read_file_line(self._lines[self._at]) is None

    def _read_new_file(self, path: str) -> QuotedHunk:
        added: list[HunkLine] = []
        while self._is_open():
            line = self._lines[self._at]
            if line[:1] == "+":
                added.append(HunkLine("add", line[1:], self._at))
            elif line.strip():
                raise _malformed(f"line {self._at + 1} of the new file {path} has no +", line)
            self._at += 1
        return QuotedHunk(self._label(), tuple(added))

    def _read_hunk(self) -> QuotedHunk:
        """Scopes, then lines, up to the next `@@` or directive."""
        scopes: list[str] = []
        stated: int | None = None
        while self._is_open() and self._lines[self._at].startswith("@@"):
            header = read_hunk_header(self._lines[self._at])
            stated = header.stated_line if header.stated_line is not None else stated
            scopes += [header.heading] if header.heading else []
            self._at += 1
        body: list[int] = []
        is_at_end = False
        while self._is_open() and not self._lines[self._at].startswith("@@"):
            line = self._lines[self._at]
            is_at_end = line.rstrip() == END_OF_FILE
            if line.startswith(DIRECTIVE) and not is_at_end:
                raise _malformed(f"line {self._at + 1} is no directive of a patch", line)
            self._at += 1
            if is_at_end:
                break
            body.append(self._at - 1)
        while body and not self._lines[body[-1]]:
            body.pop()
        if scopes and not body:
            raise _malformed(f"line {self._at} names a place but no change follows", self._lines[self._at - 1])
        has_bare = any(self._lines[at][:1] not in ("", " ", "+", "-") for at in body)
        lines = tuple(signed_line(at, self._lines[at], keeps_blank=has_bare) for at in body)
        return QuotedHunk(self._label(), lines, stated, tuple(scopes), scopes_bind=True, is_at_end=is_at_end)

    def _label(self) -> str:
        self._n_hunks += 1
        return f"hunk {self._n_hunks}"


def _read_file_line(line: str) -> tuple[Action, str] | None:
    """The action and the path of a line that names a file."""
    for words, action in FILE_WORDS.items():
        if line.startswith(words):
            path = line[len(words) :].strip()
            return (action, path) if path else None
    return None


def _malformed(message: str, line: str) -> MalformedEdit:
    return MalformedEdit(
        message,
        value=line[:200],
        remedy="write *** Begin Patch, *** Update File: path, @@ scope, context and -/+ lines, *** End Patch",
    )

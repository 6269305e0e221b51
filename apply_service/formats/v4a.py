"""Reads V4A patches (`*** Begin Patch`) into file changes, and recognises them as an edit format.

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

Directives stand at the start of their line.  In a hunk every line has its sign, so content never becomes a directive.
The format has no line numbers: a hunk is found by its context, below the scopes that its `@@` lines name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import cached_property

from apply_service.errors import MalformedEdit
from apply_service.formats.calls import Arguments
from apply_service.formats.file_change import Action, FileChange, PatchText, pick_change, predict_change, quotes_file
from apply_service.formats.hunks import QuotedHunk, Trust, signed_lines
from apply_service.formats.quotes import HunkLine
from apply_service.formats.recognise import ReadPart, Recognised, ReplyLines, Sureness
from apply_service.formats.unified_diff import blanked, read_hunk_header
from apply_service.protocols import EditContext
from apply_service.text.fences import is_around, is_call
from apply_service.text.fidelity import normalise
from apply_service.types import Prediction

BEGIN, END, END_OF_FILE, DIRECTIVE = "*** Begin Patch", "*** End Patch", "*** End of File", "*** "
FILE_WORDS: dict[str, Action] = {"*** Update File:": "modify", "*** Add File:": "create", "*** Delete File:": "delete"}
OPERATIONS = {"update": "*** Update File:", "create": "*** Add File:", "delete": "*** Delete File:"}
"""The directive that corresponds to each operation of an `apply_patch_call`."""
MOVE_WORDS = ("*** Move to:", "*** Rename to:")
MIN_WORDS = 3
"""A line right below a patch that has fewer words than this is not prose: it may be a piece of the patch."""


def predict(original: str, update: str, about: EditContext) -> Prediction:
    """Return the original with the patch's hunks for this file applied.  The text around the patch is left out."""
    trust = Trust()
    return predict_change(original, update, pick_change(parse_v4a(update).changes, about.path, trust), trust)


class FoundPatches(Recognised):
    """The patches in a reply."""

    has_marks = is_patch = True
    signs = (BEGIN,)
    call_words = tuple(f"{kind}_file" for kind in OPERATIONS)

    def __init__(self, reply: ReplyLines) -> None:
        super().__init__(reply)
        spans = patch_spans(reply.lines) if DIRECTIVE in reply.text else []
        self._lines = reply.claim([span for span in spans if span[0] not in reply.claimed])

    @classmethod
    def in_call(cls, call: Arguments) -> str | None:
        """Return the patch in a call, even if the patch is the operation of an `apply_patch_call`.

        Such an operation is the change of one file, without the first and last line of a patch.

        Raises MalformedEdit if the file's name has several lines, or a line of the diff is a directive.
        """
        match call.fields:
            case {"type": str(kind), "path": str(path)} if kind.removesuffix("_file") in OPERATIONS:
                words, diff = OPERATIONS[kind.removesuffix("_file")], call.fields.get("diff", "")
                if not isinstance(diff, str):
                    return None
                rows = normalise(diff).removesuffix("\n").split("\n") if diff else []
                stray = next((row for row in rows if row.startswith(DIRECTIVE) and row.rstrip() != END_OF_FILE), None)
                if stray is not None or "\n" in path or "\r" in path:
                    raise _malformed("the diff of an operation has a line that is no part of a hunk", stray or path)
                return "\n".join([BEGIN, f"{words} {path}", *rows, END])
        return super().in_call(call)

    @property
    def confidence(self) -> Sureness:
        if not self._lines:
            return Sureness.NONE
        return Sureness.QUOTES if quotes_file(self._changes, self.reply) else Sureness.MARKS

    @property
    def lines(self) -> Collection[int]:
        return self._lines

    @property
    def paths(self) -> Sequence[str]:
        return [change.path for change in self._changes if change.path]

    def read_alone(self) -> ReadPart:
        """Return the patch with all other lines blank.  If the patch can't be read, the text stays, and the error says
        why."""
        if self._patch is None:
            return ReadPart(self.reply.text, range(len(self.reply.lines)), ())
        return ReadPart(blanked(self.reply, self._lines), self._lines, ())

    @cached_property
    def _patch(self) -> PatchText | None:
        with suppress(MalformedEdit):
            return parse_v4a(self.reply.text) if self._lines else None
        return None

    @property
    def _changes(self) -> Sequence[FileChange]:
        return self._patch.changes if self._patch is not None else ()


recognise = FoundPatches


def is_patch_line(line: str) -> bool:
    """Tell whether the line can only be the beginning of a patch."""
    return line.rstrip() == BEGIN or _read_file_line(line) is not None


def patch_spans(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return the first and the last line of every patch, both inclusive.

    A patch without an end lasts to the first line of the next patch, or to the last line of the text.  An end mark with
    blanks before it counts only if no other end mark and no other patch follows.
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
    """Return the changes in the patches of an update.

    Raises MalformedEdit if there is no patch, or if a patch has no end or has a line that does not belong to it.
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
        changes += _read_changes(lines, range(begin + (lines[begin].strip() == BEGIN), end))
    strays = tuple(at for at in sorted(outside) if not is_around(lines[at]) and not is_call(lines[at]))
    ends = {end for _, end in spans}
    for at in strays:
        if at - 1 in ends and len(lines[at].split()) < MIN_WORDS:
            raise _malformed(f"line {at + 1} right after the patch does not belong to it", lines[at])
    return PatchText(tuple(changes), strays)


def _read_changes(lines: Sequence[str], rows: range) -> Iterator[FileChange]:
    """Yield the changes of one patch.  `rows`: the lines inside it."""
    at = next((at for at in rows if lines[at].strip()), rows.stop)
    if at == rows.stop:
        raise _malformed("the patch changes no file", "")
    while at < rows.stop:
        named = _read_file_line(lines[at].lstrip(" \t"))
        if named is None:
            raise _malformed(f"line {at + 1} should name a file", lines[at])
        action, path = named
        end = next((k for k in range(at + 1, rows.stop) if _read_file_line(lines[k]) is not None), rows.stop)
        body = range(at + 1, end)
        if action == "modify":
            yield _read_update(path, lines, body)
        elif action == "create":
            if bare := next((k for k in body if lines[k].strip() and lines[k][0] != "+"), None):
                raise _malformed(f"line {bare + 1} of the new file {path} has no +", lines[bare])
            added = tuple(HunkLine("add", lines[k][1:], k) for k in body if lines[k][:1] == "+")
            yield FileChange(path, action, None, (QuotedHunk("hunk", added),))
        else:
            end = next((k for k in body if lines[k].strip()), end)
            yield FileChange(path, action)
        at = end


def _read_update(path: str, lines: Sequence[str], body: range) -> FileChange:
    """Return the change of an existing file, which may also move it."""
    line = lines[body[0]] if body else ""
    new_path = line.partition(":")[2].strip() if line.startswith(MOVE_WORDS) else ""
    hunks = tuple(_read_hunks(lines, body[1:] if new_path else body))
    if not hunks and not new_path:
        raise _malformed(f"the patch names {path} but does not change it", "")
    return FileChange(path, "rename" if new_path else "modify", new_path or None, hunks)


def _read_hunks(lines: Sequence[str], rows: range) -> Iterator[QuotedHunk]:
    """Yield each hunk.  It consists of scopes, then of lines up to the next `@@`, an end of file, or the end of the
    file's part."""
    at = rows.start
    while at < rows.stop:
        scopes: list[str] = []
        stated: int | None = None
        while at < rows.stop and lines[at].startswith("@@"):
            header = read_hunk_header(lines[at])
            stated = header.stated_line if header.stated_line is not None else stated
            scopes.append(header.heading)
            at += 1
        scopes = list(filter(None, scopes))
        start = at
        at = next((k for k in range(at, rows.stop) if lines[k].startswith(("@@", DIRECTIVE))), rows.stop)
        end = at
        while end > start and not lines[end - 1]:
            end -= 1
        body = lines[start:end]
        is_at_end = at < rows.stop and lines[at].rstrip() == END_OF_FILE
        if at < rows.stop and lines[at].startswith(DIRECTIVE) and not is_at_end:
            raise _malformed(f"line {at + 1} is not a directive of a patch", lines[at])
        at += is_at_end
        if scopes and not body:
            raise _malformed(f"line {at} names a place but no change follows", lines[at - 1])
        signed = signed_lines(list(enumerate(body, start)))
        hunk = QuotedHunk("hunk", signed, stated, tuple(scopes), scopes_bind=True, is_at_end=is_at_end)
        if signed:
            yield hunk


def _read_file_line(line: str) -> tuple[Action, str] | None:
    """Return the action and the path in a line that names a file; None for any other line."""
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

"""Reads hashline edits, which name lines by their number and a hash of their text.  Tools have published several forms:

    {"set_line": {"anchor": "6:a3", "new_text": ...}}            {"op": "replace", "pos": "6#QV", "lines": [...]}
    {"replace_lines": {"start_anchor": ..., "end_anchor": ...}}  {"src": "6:a3..9:f1", "dst": ...}
    {"insert_after": {"anchor": ..., "text": ...}}               replace 6:a3..9:f1  and lines with a + below it

A line number with its hash is an *anchor*.  All edits of a call name lines of the file as it was read.  If a hash does
not fit, the edit is stale, and no similar lines are looked for.  Tools hash lines in different ways; the way that fits
the anchors is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import NamedTuple

from apply_service.errors import MalformedEdit, StaleBase
from apply_service.formats.calls import Arguments, opens_call, read_calls, walk
from apply_service.formats.file_change import pick_for_file
from apply_service.formats.hunks import Trust
from apply_service.formats.json_edit import Replacement, own_replacement, replace_text
from apply_service.formats.recognise import Recognised, Sureness
from apply_service.protocols import EditContext
from apply_service.text.fidelity import normalise
from apply_service.types import Prediction

_ANCHOR = re.compile(r"\s*(\d{1,9})\s*[:#]\s*([0-9A-Za-z]{2,8})\s*(?:[|:].*)?$", re.DOTALL)
_WORDS = re.compile(r"anchor|\bsrc\b|\bpos\b|_line\b|_lines\b|_after\b|_before\b|\bop\b")
_ORDER = re.compile(
    r"(?P<op>set|replace|delete|insert after|insert before) "
    r"(?P<start>\d{1,9}[:#]\w{2,8})(?:\.\.=?(?P<end>\d{1,9}[:#]\w{2,8}))?:?\s*$"
)
"""The first line of an edit in the form without JSON."""
_ECHO = re.compile(r"\d{1,9}[:#][0-9A-Za-z]{2,8}\|")
STARTS = ("anchor", "start_anchor", "start", "pos", "line", "start_line", "after_line", "before_line", "src")
ENDS = ("end_anchor", "end", "end_line")
TEXTS = ("new_text", "text", "lines", "content", "dst")
BEFORE = ("insert_before", "prepend", "before")
AFTER = ("insert_after", "append", "after")
OPERATIONS = ("set_line", "replace_lines", "replace_line", "delete_lines", "insert_after", "insert_before")
LETTERS = "ZPMQVRWSNKTXJBYH"
"""The digits of hashes that are written in letters."""
MIN_ANCHORS = 2
"""This many anchors prove that a tool hashes lines in an unusual way.  A single anchor may fit by chance."""


class Anchor(NamedTuple):
    """A line of the file, counted from 1, and the hash that it must have."""

    line: int
    hash: str

    def __str__(self) -> str:
        return f"{self.line}:{self.hash}"


@dataclass(frozen=True, slots=True)
class LineEdit:
    """New lines that replace lines of the file, or that go before or after a line."""

    op: str
    """`replace`, `before` or `after`."""
    start: Anchor
    end: Anchor
    new: tuple[str, ...]
    path: str | None = None

    @property
    def rows(self) -> range:
        """The rows of the file that are replaced.  If none are, this is an empty range at the place of the new
        lines."""
        if self.op == "replace":
            return range(self.start.line - 1, self.end.line)
        return range(at := self.start.line - (self.op == "before"), at)


def predict(original: str, update: str, about: EditContext) -> Prediction:
    """Return the original with all edits made to the lines that they name.

    Raises MalformedEdit if there is no such edit, or if two edits change the same lines.  Raises StaleBase if a named
    line is not there, or has a different hash.  Raises NeedsMoreContext if a text that a call also replaces has no
    single place.
    """
    found = read_edits(update)
    if not found.lines:
        remedy = 'send {"set_line": {"anchor": "6:a3", "new_text": "..."}}, or another form of such an edit'
        raise MalformedEdit("there is no edit of lines named by number and hash", value=update[:200], remedy=remedy)
    trust, lines = Trust(), original.split("\n")
    if found.is_mended:
        trust.doubt("the JSON of the call was broken and was mended")
    edits = pick_for_file(found.lines, about.path, trust)
    _hold_to_hashes(edits, lines[:-1] if lines[-1] == "" else lines, trust)
    rows = list(lines)
    above = len(lines) + 1
    for edit in sorted(edits, key=lambda edit: (edit.rows.start, edit.rows.stop), reverse=True):
        if edit.rows.stop > above:
            message = f"two edits change line {edit.rows.stop}"
            raise MalformedEdit(message, value=str(edit.end), remedy="combine them into one")
        new: Sequence[str] = edit.new
        if new and all(_ECHO.match(row) for row in new if row):
            trust.doubt("the new lines had anchors in front of them, which are left out")
            new = [_ECHO.sub("", row, count=1) for row in new]
        rows[edit.rows.start : edit.rows.stop] = new
        above = edit.rows.start if edit.rows else above
    text = "\n".join(rows)
    for number, one in enumerate(pick_for_file(found.others, about.path, trust) if found.others else (), 1):
        text = replace_text(text, one, f"text edit {number}", trust)
    update_lines = update.split("\n")
    return trust.prediction_of(original, text, update_lines, n_own=len(update_lines))


class FoundHashlines(Recognised):
    """The hashline edits in a reply."""

    has_marks = True

    @cached_property
    def _edits(self) -> Sequence[LineEdit]:
        return read_edits(self.reply.text).lines

    @property
    def confidence(self) -> Sureness:
        if not self._edits:
            return Sureness.NONE
        return Sureness.MARKS if any(map(self.reply.is_code, self.outside())) else Sureness.QUOTES

    @property
    def lines(self) -> Collection[int]:
        lines = range(len(self.reply.lines))
        is_start = (at for at in lines if opens_call(self.reply.lines[at]) or _ORDER.match(self.reply.lines[at]))
        return lines[next(is_start, 0) :]

    @property
    def paths(self) -> Sequence[str]:
        return [edit.path for edit in self._edits if edit.path]


recognise = FoundHashlines


# -- reading -----------------------------------------------------------------------------------------------------------
class LineEdits(NamedTuple):
    """The edits of lines in a reply, the edits of text in the same calls, and whether the JSON was broken."""

    lines: tuple[LineEdit, ...] = ()
    others: tuple[Replacement, ...] = ()
    is_mended: bool = False


def read_edits(text: str) -> LineEdits:
    """Return the edits of lines in a reply; empty if the reply has none.  Raises MalformedEdit if `read_calls` does."""
    if not re.search(r"\d[:#]\w\w", text):
        return LineEdits()
    if orders := tuple(_read_orders(text.split("\n"))):
        return LineEdits(orders)
    if _WORDS.search(text) is None:
        return LineEdits()
    values, is_mended = read_calls(text)
    calls = list(walk(values, everywhere=True))
    edits = tuple(edit for call in calls if (edit := _edit_of(call)) is not None)
    return LineEdits(edits, tuple(one for call in calls for one in own_replacement(call)) if edits else (), is_mended)


def _read_orders(lines: Sequence[str]) -> Iterator[LineEdit]:
    """Yield the edits in the form without JSON.  Each edit is an order, with new lines below it that begin with +."""
    for at, line in enumerate(lines):
        order = _ORDER.match(line) if line[:200].rstrip().endswith(":") or ".." in line or " " in line else None
        if order is None:
            continue
        end = next((k for k in range(at + 1, len(lines)) if lines[k][:1] != "+"), len(lines))
        start = _anchor(order["start"])
        stop = _anchor(order["end"]) if order["end"] else start
        op = order["op"].split()[-1] if order["op"].startswith("insert") else "replace"
        if start is not None and stop is not None and (end > at + 1 or order["op"] == "delete"):
            yield LineEdit(op, start, stop, tuple(row[1:] for row in lines[at + 1 : end]))


def _edit_of(call: Arguments) -> LineEdit | None:
    """Return the edit in the own fields of a call's object; None if these hold no edit."""
    fields: Mapping[str, object] = call.fields
    name = next((name for name in OPERATIONS if isinstance(fields.get(name), dict)), None)
    if name is not None:
        inner = fields[name]
        return _edit(name, inner, call.path) if isinstance(inner, dict) else None
    op = next((value for key in ("op", "type") if isinstance(value := fields.get(key), str)), "")
    return _edit(op, fields, call.path) if op or "src" in fields else None


def _edit(op: str, fields: Mapping[str, object], path: str | None) -> LineEdit | None:
    """Return the edit with this operation; None if `fields` name no line by its hash, or if the new lines are not
    text."""
    told, ended = _text_under(fields, STARTS), _text_under(fields, ENDS)
    if "src" in fields:
        op, told, ended = _read_source(told)
    elif "after_line" in fields and op not in BEFORE:
        op = "after"
    kind = "after" if op in AFTER else "before" if op in BEFORE else "replace"
    start = _anchor(told)
    end = _anchor(ended) if ended and kind == "replace" else start
    new = _rows(next((fields[name] for name in TEXTS if name in fields), None))
    return None if start is None or end is None or new is None else LineEdit(kind, start, end, new, path)


def _read_source(told: str) -> tuple[str, str, str]:
    """Return the operation, the first line and the last line of a `src`.

    `a` and `a..b` replace lines, `a..` inserts after a line, and `..b` inserts before a line.
    """
    head, dots, tail = told.partition("..")
    op = "replace" if not dots or (head and tail) else "after" if head else "before"
    return op, head or tail, tail if head else ""


def _text_under(fields: Mapping[str, object], names: Sequence[str]) -> str:
    """Return the first text under one of the names; "" if there is none."""
    return next((value for name in names if isinstance(value := fields.get(name), str)), "")


def _rows(new: object) -> tuple[str, ...] | None:
    """Return the new lines, which come as one text or as a list; None if `new` is neither."""
    if not isinstance(new, str | list | None):
        return None
    rows = [str(row) for row in new] if isinstance(new, list) else normalise(new).split("\n") if new else []
    return tuple(rows[:-1] if len(rows) > 1 and rows[-1] == "" else rows)


def _anchor(text: str) -> Anchor | None:
    match = _ANCHOR.match(text[:300])
    return Anchor(int(match[1]), match[2]) if match is not None else None


# -- hashes ------------------------------------------------------------------------------------------------------------
def _hold_to_hashes(edits: Sequence[LineEdit], lines: Sequence[str], trust: Trust) -> None:
    """Raise StaleBase if the file does not have the lines that the edits name."""
    anchors = sorted({anchor for edit in edits for anchor in (edit.start, edit.end)})
    if past := [anchor for anchor in anchors if not 1 <= anchor.line <= len(lines)]:
        raise _stale(f"the file has no line {past[0].line}", past[0], f"{len(lines)} lines")
    wrong = {way: [one for one in anchors if not way(one, lines[one.line - 1])] for way in WAYS}
    best = min(WAYS, key=lambda way: len(wrong[way]))
    if wrong[best]:
        first = wrong[best][0]
        told = ", ".join(str(anchor.line) for anchor in wrong[best][:5])
        named = f"lines {told} are" if len(wrong[best]) > 1 else f"line {told} is"
        what = f"{named} not what the edit was written for"
        raise _stale(what, first, f"{first.line}: {lines[first.line - 1][:200]}")
    if best is not WAYS[0] and best is not WAYS[1] and len(anchors) < MIN_ANCHORS:
        trust.doubt("the hash fits, but it is not of the usual kind, and one alone may fit by chance")


def _stale(message: str, anchor: Anchor, found: str) -> StaleBase:
    return StaleBase(
        f"the edit is stale: {message}",
        value=str(anchor),
        limit=found,
        remedy="read the file again, and name the lines by what it shows",
    )


def _bare(line: str) -> bytes:
    return "".join(line.split()).encode()


def _xx32(data: bytes, seed: int = 0) -> int:
    from xxhash import xxh32_intdigest  # imported here, because few edits name lines this way

    return int(xxh32_intdigest(data, seed=seed))


def usual_anchor(number: int, line: str) -> str:
    """Return the line's number and hash as most tools write them."""
    return f"{number}:{_xx32(_bare(line)) & 255:02x}"


def _letters(anchor: Anchor, line: str) -> bool:
    """Tell whether the anchor has the line's hash in letters.

    Some tools leave out all white space of the line, and others only the white space at its end.  The seed may be the
    line's number if the line has neither letters nor digits.
    """
    seed = 0 if any(map(str.isalnum, line)) else anchor.line
    sums = {_xx32(data, of) & 255 for data in (_bare(line), line.rstrip().encode()) for of in (0, seed)}
    return anchor.hash.upper() in {LETTERS[n >> 4] + LETTERS[n & 15] for n in sums}


def _fnv(data: bytes) -> int:
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def _hex(digest: Callable[[Anchor, str], str]) -> Callable[[Anchor, str], bool]:
    """Return a function that tells whether an anchor's hash is the beginning of this digest."""
    return lambda anchor, line: len(anchor.hash) > 1 and digest(anchor, line).startswith(anchor.hash.lower())


def _xx64(data: bytes, seed: int) -> str:
    from xxhash import xxh64_intdigest

    return f"{xxh64_intdigest(data, seed=seed) & 0xFFFF:04x}"


WAYS: Sequence[Callable[[Anchor, str], bool]] = (
    _hex(lambda _, line: f"{_xx32(_bare(line)) & 255:02x}"),
    _letters,
    _hex(lambda _, line: f"{_xx32(line.rstrip().encode()) & 255:02x}"),
    _hex(lambda _, line: sha256(line.encode()).hexdigest()),
    _hex(lambda _, line: sha256(line.strip().encode()).hexdigest()),
    _hex(lambda _, line: f"{_fnv(_bare(line)) & 255:02x}"),
    _hex(lambda _, line: f"{_xx32(_bare(line)):08x}"),
    _hex(lambda anchor, line: _xx64(line.encode(), anchor.line)),
)
"""The ways in which tools hash lines.  Each tells whether an anchor fits a line.  The first two ways are usual."""

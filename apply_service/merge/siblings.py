"""Writes out lists with a marker among their entries: `f(..., timeout=5)`, `import { /* ... */ C }`, `{"a": 1, ...}`.

A snippet may leave out entries of a list as it leaves out lines.  This module puts the file's own entries in, so that
the rest of the merger sees whole lists.  Arguments, imports, arrays and objects follow one rule: an entry with a known
name replaces the file's, a new entry goes beside its neighbour, and a marker stands for the rest.  A list is left as it
is unless the text before its bracket tells which list of the file is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from apply_service.text.markers import is_marker

MAX_CHARACTERS = 200_000
"""The most characters of the file and the snippet together; longer texts are left as they are."""
HASH = frozenset(("python", "ruby", "yaml", "toml", "shell", "bash", "elixir", "perl", "r"))
"""Languages in which a comment begins with #."""
PAIRS = {"(": ")", "[": "]", "{": "}"}
DOTS = ("...", "\u2026")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|#[^\n]*", re.DOTALL)
_KEY = re.compile(r"(?:\.\.\.)?[\"']?([\w$.@/-]+)[\"']?\s*\??\s*(?:[:=](?!=)|$)")
_ENTRY = re.compile(r"(?:\.\.\.[\w$.]+|[\"']?[\w$.@/-]+[\"']?\s*(?::(?!=).*)?|\[[^\]]*\]\s*:.*)$", re.DOTALL)


class Bracket(NamedTuple):
    """A pair of brackets in a text: the offsets of both brackets, and of the commas between them."""

    start: int
    end: int
    commas: tuple[int, ...]
    has_semicolon: bool


class ListEntry(NamedTuple):
    """An entry of a list: the white space before it, and its text."""

    lead: str
    text: str

    @property
    def name(self) -> str:
        match = _KEY.match(self.text)
        return match[1] if match is not None else " ".join(self.text.split())


def expand_lists(original: str, update: str, language: str | None) -> str:
    """Return the snippet with all lists completed that leave out entries.  All texts have LF line ends."""
    if len(original) + len(update) > MAX_CHARACTERS or not any(sign in update for sign in (*DOTS, "/*", "//", "#")):
        return update
    in_file = list(_brackets(original, language))
    for _ in range(20):
        change = next(_changes(original, in_file, update, language), None)
        if change is None:
            return update
        bracket, text = change
        update = update[: bracket.start + 1] + text + update[bracket.end :]
    return update


def _changes(
    original: str, in_file: Sequence[Bracket], update: str, language: str | None
) -> Iterator[tuple[Bracket, str]]:
    """Yield each list of the snippet that leaves out entries, and its complete content."""
    owners: dict[str, list[Bracket]] = {}
    for one in in_file:
        owners.setdefault(_owner(original, one), []).append(one)
    for bracket in _brackets(update, language):
        parts = _parts(update, bracket, language)
        if not any(entry is None or _is_left_out(entry.text) for entry in parts):
            continue
        meant = owners.get(_owner(update, bracket), [])
        if len(meant) != 1 or _is_subscript(update, bracket):
            continue
        text = _written_out(original, meant[0], update, bracket, parts)
        if text is not None:
            yield bracket, text


def _brackets(text: str, language: str | None) -> Iterator[Bracket]:
    """Yield the pairs of brackets outside of strings and comments, inner pairs first."""
    waiting: list[tuple[int, list[int], bool]] = []
    at = 0
    while at < len(text):
        sign = text[at]
        if (end := _past_quoted(text, at, language)) > at:
            at = end
            continue
        if sign in PAIRS:
            waiting.append((at, [], False))
        elif waiting and sign == PAIRS[text[waiting[-1][0]]]:
            start, commas, has_semicolon = waiting.pop()
            yield Bracket(start, at, tuple(commas), has_semicolon)
        elif waiting and sign == ",":
            waiting[-1][1].append(at)
        elif waiting and sign == ";":
            waiting[-1] = (*waiting[-1][:2], True)
        at += 1


def _past_quoted(text: str, at: int, language: str | None) -> int:
    """Return the offset after the string or comment that begins at `at`; `at` itself if none begins there."""
    sign, two = text[at], text[at : at + 2]
    if two == "/*":
        end = text.find("*/", at + 2)
        return len(text) if end < 0 else end + 2
    if two == "//" or (sign == "#" and language in HASH):
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    if sign not in "\"'`" or (sign == "'" and text[at - 1 : at].isalnum()):
        return at
    return _past_text(text, at)


def _past_text(text: str, at: int) -> int:
    """Return the offset after a string; only after its quote if the string does not end on its line."""
    sign = text[at]
    mark = sign * 3 if text.startswith(sign * 3, at) and sign != "`" else sign
    end = at + len(mark)
    while end < len(text) and not text.startswith(mark, end):
        if text[end] == "\n" and len(mark) == 1 and sign != "`":
            return at + 1  # an apostrophe, or a lifetime
        end += 1 + (text[end] == "\\")
    return end + len(mark)


def _owner(text: str, bracket: Bracket) -> str:
    """Return the text before the bracket in its line, with the bracket."""
    return " ".join(text[text.rfind("\n", 0, bracket.start) + 1 : bracket.start].split()) + text[bracket.start]


def _is_subscript(text: str, bracket: Bracket) -> bool:
    """Tell whether the bracket indexes a value.  Dots there are part of the language."""
    before = text[: bracket.start][-1:]
    return text[bracket.start] == "[" and (before.isalnum() or before in "_)]")


def _parts(text: str, bracket: Bracket, language: str | None) -> list[ListEntry | None]:
    """Return the entries of a list, with None for each marker.  Empty if the brackets enclose statements."""
    parts: list[ListEntry | None] = []
    for raw in _segments(text, bracket):
        body = raw.strip()
        while (comment := _COMMENT.match(body)) is not None and _is_mark(comment[0], language):
            parts.append(None)
            body = body[comment.end() :].strip()
        if body in DOTS:
            parts.append(None)
        elif body:
            parts.append(ListEntry(raw[: len(raw) - len(raw.lstrip())], body))
    is_list = not bracket.has_semicolon
    if text[bracket.start] == "{":
        is_list = is_list and all(entry is None or _ENTRY.match(entry.text) for entry in parts)
    is_list = is_list and not any(entry is not None and "\n" in _outermost(entry.text) for entry in parts)
    return parts if is_list else []


def _outermost(text: str) -> str:
    """Return the text outside of brackets.  A line end there shows that the text is no list entry but statements."""
    depth, out = 0, []
    for sign in text:
        depth += (sign in "([{") - (sign in ")]}")
        out += [sign] if depth == 0 else []
    return "".join(out)


def _segments(text: str, bracket: Bracket) -> list[str]:
    places = [bracket.start, *bracket.commas, bracket.end]
    return [text[a + 1 : b] for a, b in pairwise(places)]


def _is_mark(comment: str, language: str | None) -> bool:
    """Tell whether a comment stands for entries that stay."""
    if comment.startswith("#") and language not in HASH:
        return False
    core = comment.strip("/*# \n\t")
    return core.startswith(DOTS) or is_marker(comment)


def _written_out(
    original: str, own: Bracket, update: str, bracket: Bracket, parts: Sequence[ListEntry | None]
) -> str | None:
    """Return the content of the snippet's list with the file's entries; None if the list can stay as it is, or if
    the entries can't be told."""
    segments = _segments(original, own)
    known = _known_entries(original, own, segments)
    texts = {entry.text for entry in known}
    # A line without new entries is only a shortened line of the file.
    says_something = any(part is not None and part.text not in texts for part in parts)
    merged = _merged(known, parts) if known and says_something else None
    ends_with_comma = not segments[-1].strip()
    is_lines = "\n" in update[bracket.start : bracket.end]
    if merged is None or (is_lines and (ends_with_comma or merged[-1] == known[-1])):
        return None  # whole lines are merged as lines, where no comma is missing
    tail = segments[-1] if ends_with_comma else segments[-1][len(segments[-1].rstrip()) :]
    text = ",".join(entry.lead + entry.text for entry in merged)
    return text + ("," if ends_with_comma else "") + tail


def _known_entries(original: str, own: Bracket, segments: Sequence[str]) -> list[ListEntry]:
    """Return the entries of the file's list; empty if the brackets hold no list."""
    known = [entry for entry in _parts(original, own, None) if entry is not None]
    is_whole = len(known) == sum(bool(one.strip()) for one in segments)
    return known if is_whole and (len(known) > 1 or "\n" not in "".join(entry.text for entry in known)) else []


def _merged(known: Sequence[ListEntry], parts: Sequence[ListEntry | None]) -> list[ListEntry] | None:
    """Return the file's entries with those of the snippet; None if entries would be removed without a word."""
    entries = list(known)
    at, is_free = 0, False
    for n, part in enumerate(parts):
        if part is None:
            following = next((one for one in parts[n:] if one is not None), None)
            place = -1 if following is None else _place(entries, following.name)
            at, is_free = (place if place >= at else len(entries)), True
            continue
        place = _place(entries, part.name)
        if place < 0:
            _insert(entries, at, part.text, known)
            at += 1
            continue
        if place < at or (place > at and not is_free):
            return None
        if not _is_left_out(part.text):
            entries[place] = ListEntry(entries[place].lead, part.text)
        at, is_free = place + 1, False
    return entries if is_free or at == len(entries) else None


def _insert(entries: list[ListEntry], at: int, text: str, known: Sequence[ListEntry]) -> None:
    """Insert a new entry, with the white space that other entries have before them."""
    first, other = known[0].lead, known[-1].lead if len(known) > 1 else known[0].lead or " "
    if at == 0 and entries:
        entries[0] = ListEntry(other, entries[0].text)
    entries.insert(at, ListEntry(first if at == 0 else other, text))


def _place(entries: Sequence[ListEntry], name: str) -> int:
    return next((k for k, entry in enumerate(entries) if entry.name == name), -1)


def _is_left_out(text: str) -> bool:
    """Tell whether the value of an entry is a marker."""
    value = text.partition(":")[2].strip()
    comment = _COMMENT.match(value)
    return value in DOTS or (comment is not None and comment[0] == value and _is_mark(value, None))

"""Writes out lists with a marker among their entries: `f(..., timeout=5)`, `import { /* ... */ C }`, `{"a": 1, ...}`.

A snippet may leave out entries of a list as it leaves out lines.  This module puts the file's own entries in, so that
the rest of the merger sees whole lists.  Arguments, imports, arrays, objects, columns and children of elements follow
one rule: an entry with a known name replaces the file's, a new entry goes beside its neighbour, and a marker stands for
the rest.  The text before a list tells which list of the file is meant; if the file has several such lists, the lines
around the list tell.  If neither tells, the list is left as it is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from rapidfuzz import fuzz

from apply_service.text.lines import leading
from apply_service.text.markers import is_marker

MAX_DEPTH = 50
"""Brackets are nested at most this deep in text that people write."""
MAX_LISTS = 20
"""At most this many lists of a snippet are completed."""
MAX_CHARACTERS = 200_000
"""The file and the snippet together may have at most this many characters; longer texts are left as they are."""
HASH = frozenset(("python", "ruby", "yaml", "toml", "shell", "bash", "elixir", "perl", "r"))
"""Languages in which a comment begins with #."""
DASHES = frozenset(("sql", "lua", "haskell", "elm"))
"""Languages in which a comment begins with two dashes."""
PAIRS = {"(": ")", "[": "]", "{": "}"}
DOTS = ("...", "\u2026")
_COMMENT = re.compile(r"/\*.*?\*/|(?://|#|--)[^\n]*", re.DOTALL)
_DOTS_LINE = re.compile(r"(?:\.\.\.|…)[ \t]*(?=\n)")
_NAME = r"(?:\"[^\"\n]+\"|'[^'\n]+'|[\w$.@/-]+)"
_KEY = re.compile(rf"(?:\.\.\.)?({_NAME})\s*\??\s*(?:[:=](?!=)|$)")
_ENTRY = re.compile(rf"(?:\.\.\.[\w$.]+|{_NAME}\s*(?::(?!=).*)?|\[[^\]]*\]\s*:.*)$", re.DOTALL)
BARE = {
    "python": re.compile(r"^[ \t]*from[ \t]+[\w.]+[ \t]+import(?P<body>[ \t][^(\n]*)(?P<end>$)", re.MULTILINE),
    "sql": re.compile(r"^[ \t]*select(?P<body>\s[^;]{0,2000}?\s)(?P<end>from)\b", re.MULTILINE | re.IGNORECASE),
    "css": re.compile(r"^[ \t]*[\w-]+:(?P<body>[^;{}]{0,2000})(?P<end>;)", re.MULTILINE),
}
"""Lists without brackets by language: names that a line imports, columns of a query, and values of a style."""
ELEMENTS = frozenset(("html", "javascript", "svelte", "tsx", "vue", "xml"))
"""Languages with elements, whose children are lists too."""
_OPENING = re.compile(r"([ \t]*)<([A-Za-z][\w.:-]*)(?:\s(?:=>|[^<>])*)?>[ \t]*$")
_TAG = re.compile(r"<([A-Za-z][\w.:-]*)((?:=>|[^<>])*)>?")
_TELLING = re.compile(r"\s(?:key|id|name|to|href|for|htmlFor)=(\"[^\"]*\"|'[^']*'|\{[^{}]*\})")
"""The attributes that tell an element from its siblings."""
MAX_ALIKE = 20
"""At most this many lists with the same text before them are told apart."""
MAX_AWAY = 100
"""The lines that tell which list is meant are at most this far from the list."""
MAX_COMPARED = 200
"""At most this many characters of such a line are compared."""
MIN_LEAD = 0.15
"""A list is chosen only if the lines around it score at least this much higher than those around any other list with
the same text before it.  The score is their similarity to the lines around the snippet's list."""


class Bracket(NamedTuple):
    """A pair of brackets in a text: the offsets of both brackets, and of the commas between them."""

    start: int
    end: int
    commas: tuple[int, ...]
    has_semicolon: bool = False
    is_element: bool = False
    """Whether these are the children of an element: line ends are then in the place of commas, and tags in the place of
    brackets."""


class ListEntry(NamedTuple):
    """An entry of a list: the white space before it, and its text."""

    lead: str
    text: str

    @property
    def tag(self) -> str:
        """The tag of an element; empty for any other entry."""
        match = _TAG.match(self.text)
        return match[1] if match is not None else ""

    @property
    def has_value(self) -> bool:
        """Whether the entry is a name with a value, or an element that an attribute tells from its siblings."""
        if (element := _TAG.match(self.text)) is not None:
            return _TELLING.search(element[2]) is not None
        match = _KEY.match(self.text)
        return match is not None and match.end() < len(self.text)

    @property
    def name(self) -> str:
        if (element := _TAG.match(self.text)) is not None and (told := _TELLING.search(element[2])) is not None:
            return f"<{element[1]}{told[0]}"
        match = _KEY.match(self.text)
        return match[1].strip("\"'") if match is not None else " ".join(self.text.split())


class _Lines:
    """A text with its lines, and the offset of each."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        self.starts = [0, *accumulate(len(line) + 1 for line in self.lines)]

    def row(self, offset: int) -> int:
        return bisect_right(self.starts, offset) - 1


def expand_lists(original: str, update: str, language: str | None) -> str:
    """Return the snippet, with the lists that leave out entries completed.  All texts have LF line ends."""
    if len(original) + len(update) > MAX_CHARACTERS or not any(sign in update for sign in (*DOTS, "/*", "//", "#")):
        return update
    file = _Lines(original)
    owners: dict[str, list[Bracket]] = {}
    for _ in range(MAX_LISTS):
        open_lists = list(_open_lists(update, language))
        if open_lists and not owners:
            for one in _lists(original, language):
                owners.setdefault(_owner(original, one), []).append(one)
        change = next(_changes(file, owners, _Lines(update), open_lists), None)
        if change is None:
            return update
        bracket, text = change
        update = update[: bracket.start + 1] + text + update[bracket.end :]
    return update


def _open_lists(update: str, language: str | None) -> Iterator[tuple[Bracket, list[ListEntry | None]]]:
    """Yield the lists of the snippet that leave out entries, with their parts."""
    for bracket in _lists(update, language):
        parts = _parts(update, bracket, language)
        is_open = any(entry is None or _is_left_out(entry.text) for entry in parts)
        before = update[max(0, bracket.start - 1) : bracket.start]
        # A bracket that indexes a value may have dots, which are part of the language.
        is_subscript = update[bracket.start] == "[" and (before.isalnum() or before in "_)]")
        if is_open and not is_subscript:
            yield bracket, parts


def _changes(
    file: _Lines,
    owners: Mapping[str, Sequence[Bracket]],
    update: _Lines,
    open_lists: Iterable[tuple[Bracket, Sequence[ListEntry | None]]],
) -> Iterator[tuple[Bracket, str]]:
    """Yield each open list that has a counterpart in the file, and its complete content.  `owners`: the file's lists by
    the text before them."""
    for bracket, parts in open_lists:
        meant = _meant(file, owners.get(_owner(update.text, bracket), ()), update, bracket)
        shown = update.text[bracket.start + 1 : bracket.end]
        text = None if meant is None else _written_out(file.text, meant, parts, is_lines="\n" in shown)
        if text is not None and text != shown:
            yield bracket, text


def _meant(file: _Lines, lists: Sequence[Bracket], update: _Lines, bracket: Bracket) -> Bracket | None:
    """Return the one list that stands between lines like the lines around the snippet's list.

    If there is only one such list, it is returned without a comparison.  The result is None if two lists fit about
    equally well, if there are too many lists, or if there are several and the snippet's line has nothing before the
    bracket.
    """
    if len(lists) < 2 or len(lists) > MAX_ALIKE or len(_owner(update.text, bracket)) == 1:
        return lists[0] if len(lists) == 1 else None
    around = _surroundings(update, bracket)
    scores = []
    for one in lists:
        pairs = [(a, b) for a, b in zip(around, _surroundings(file, one), strict=True) if a]
        scores.append(sum(fuzz.ratio(a, b) for a, b in pairs) / 100)
    first, second, *_ = sorted(scores, reverse=True)
    return lists[scores.index(first)] if first - second >= MIN_LEAD else None


def _surroundings(text: _Lines, bracket: Bracket) -> list[str]:
    """Return four lines: the rest of the list's last line, the lines above and below the list, and the nearest less
    indented line above it.

    A line is empty if there is none within MAX_AWAY lines, or if it is a marker.
    """
    first, last = text.row(bracket.start), text.row(bracket.end)
    tail = text.text[bracket.end : text.starts[last + 1] - 1]
    before = [line for line in reversed(text.lines[max(0, first - MAX_AWAY) : first]) if line.strip()]
    above = before[0] if before else ""
    below = next((line for line in text.lines[last + 1 : last + 1 + MAX_AWAY] if line.strip()), "")
    depth = len(leading(text.lines[first]))
    holder = next((line for line in before if len(leading(line)) < depth), "")
    return ["" if is_marker(line) else line.strip()[:MAX_COMPARED] for line in (tail, above, below, holder)]


def _brackets(text: str, language: str | None) -> Iterator[Bracket]:
    """Yield the pairs of brackets outside of strings and comments, inner pairs first, until a pair is nested too
    deep."""
    waiting: list[tuple[int, list[int], bool]] = []
    lone: dict[str, int] = {}  # quotes that no second quote closes on their line, with the end of the line
    at = 0
    while at < len(text) and len(waiting) <= MAX_DEPTH:
        sign = text[at]
        if at >= lone.get(sign, 0) and (end := _past_quoted(text, at, language)) > at:
            if end == at + 1:
                lone[sign] = (text.find("\n", at) + 1 or len(text) + 1) - 1
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


def _lists(text: str, language: str | None) -> Iterator[Bracket]:
    """Yield the pairs of brackets, and the lists without brackets."""
    yield from _brackets(text, language)
    pattern = BARE.get(language or "")
    for found in () if pattern is None else pattern.finditer(text):
        depth, commas = 0, []
        for at in range(*found.span("body")):
            depth += (text[at] in "([{") - (text[at] in ")]}")
            commas += [at] if text[at] == "," and depth == 0 else []
        yield Bracket(found.start("body") - 1, found.end("body"), tuple(commas))
    if language in ELEMENTS:
        yield from _elements(_Lines(text))


def _elements(text: _Lines) -> Iterator[Bracket]:
    """Yield the children of each element whose tags stand on lines of their own, children of inner elements first."""
    waiting: list[tuple[int, str, str]] = []
    for row, line in enumerate(text.lines):
        blanks, stripped = leading(line), line.strip()
        while waiting and line.strip() and len(waiting[-1][1]) > len(blanks):
            waiting.pop()
        if waiting and (blanks, stripped) == (waiting[-1][1], f"</{waiting[-1][2]}>"):
            first = waiting.pop()[0]
            depths = {k: len(leading(text.lines[k])) for k in range(first + 1, row) if text.lines[k].strip()}
            least = min(depths.values(), default=0)
            closing = ("</", "/>", ">", ")", "}", "]")
            starts = (k for k, depth in depths.items() if depth == least)
            ends = [text.starts[k] - 1 for k in starts if not text.lines[k].lstrip().startswith(closing)]
            yield Bracket(text.starts[first + 1] - 2, text.starts[row] - 1, tuple(ends), is_element=True)
        elif len(waiting) < MAX_DEPTH and (opening := _OPENING.match(line)) and not line.rstrip().endswith("/>"):
            waiting.append((row, opening[1], opening[2]))


def _past_quoted(text: str, at: int, language: str | None) -> int:
    """Return the offset after the string or comment that begins at `at`; `at` itself if none begins there."""
    sign, two = text[at], text[at : at + 2]
    if two == "/*":
        end = text.find("*/", at + 2)
        return len(text) if end < 0 else end + 2
    if two == "//" or (sign == "#" and language in HASH) or (two == "--" and language in DASHES):
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    if sign not in "\"'`" or (sign == "'" and text[at - 1 : at].isalnum()):
        return at
    return _past_text(text, at)


def _past_text(text: str, at: int) -> int:
    """Return the offset after a string, or after its opening quote if the string does not end on its line."""
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


def _parts(text: str, bracket: Bracket, language: str | None) -> list[ListEntry | None]:
    """Return the entries of a list, with None for each marker.  The result is empty if the brackets enclose
    statements."""
    parts: list[ListEntry | None] = []
    for raw in _segments(text, bracket):
        rest = raw
        while (end := _past_mark(rest.lstrip(), language)) > 0:
            parts.append(None)
            rest = rest.lstrip()[end:]
        body = rest.strip()
        if body in DOTS or (bracket.is_element and is_marker(body)):
            parts.append(None)
        elif body:
            parts.append(ListEntry(rest[: len(rest) - len(rest.lstrip())], body))
    is_list = not bracket.has_semicolon
    if text[bracket.start] == "{":
        is_list = is_list and all(entry is None or _ENTRY.match(entry.text) for entry in parts)
    is_list = is_list and (
        bracket.is_element or not any(entry is not None and "\n" in _outermost(entry.text) for entry in parts)
    )
    return parts if is_list else []


def _past_mark(text: str, language: str | None) -> int:
    """Return the offset after the marker that the text begins with; 0 if it begins with none."""
    if (comment := _COMMENT.match(text)) is not None and _is_mark(comment[0], language):
        return comment.end()
    dots = _DOTS_LINE.match(text)
    return 0 if dots is None else dots.end()


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
    core = comment.strip("/*#- \n\t")
    return core.startswith(DOTS) or is_marker(comment)


def _written_out(original: str, own: Bracket, parts: Sequence[ListEntry | None], *, is_lines: bool) -> str | None:
    """Return the content of the snippet's list with the file's entries.

    The result is None if the list says nothing new, if the entries of the two lists can't be matched, or if the list
    can be merged line by line.  `is_lines`: the snippet's list takes several lines.
    """
    segments = _segments(original, own)
    known = _known_entries(original, own, segments)
    texts = {entry.text for entry in known}
    # A line without new entries is only a shortened line of the file.
    says_something = any(part is not None and part.text not in texts for part in parts)
    merged = _merged(known, parts) if known and says_something else None
    if merged is None:
        return None
    if own.is_element:
        return "".join(f"\n{entry.lead}{entry.text}" for entry in merged) if _is_told(known, parts) else None
    ends_with_comma = not segments[-1].strip()
    lacks_comma = not ends_with_comma and merged[-1] != known[-1]
    if is_lines and not _needs_lists(known, parts, lacks_comma=lacks_comma):
        return None
    tail = segments[-1] if ends_with_comma else segments[-1][len(segments[-1].rstrip()) :]
    return ",".join(entry.lead + entry.text for entry in merged) + ("," if ends_with_comma else "") + tail


def _is_told(known: Sequence[ListEntry], parts: Sequence[ListEntry | None]) -> bool:
    """Tell whether each new child is surely a further one, and not a new form of one that the file has.

    Its telling attribute and the rest of its text must be new; its tag and the white space before it must not be.
    """
    names, leads = {entry.name for entry in known}, {entry.lead for entry in known}
    new = [part for part in parts if part is not None and part.name not in names]
    rests = {_TELLING.sub("", entry.text, count=1): entry.tag for entry in known if entry.has_value}
    return bool(new) and all(
        part.has_value and part.tag in rests.values() and part.lead in leads
        and _TELLING.sub("", part.text, count=1) not in rests for part in new
    )  # fmt: skip


def _needs_lists(known: Sequence[ListEntry], parts: Sequence[ListEntry | None], *, lacks_comma: bool) -> bool:
    """Tell whether a list of whole lines can't be merged as lines.

    That is so if a comma is missing, or if a new last line would pass for a new form of the file's last line.  But the
    result is False if a new entry is indented differently from the file's first entry: the brackets then hold more than
    one list.
    """
    names = {entry.name for entry in known}
    new = [part for part in parts if part is not None and part.name not in names]
    if any(part.lead != known[0].lead for part in new):
        return False
    is_behind = len(parts) > 1 and parts[-1] in new and parts[-2] is None and new[-1].has_value
    return lacks_comma or (is_behind and not any("\n" in entry.text for entry in known))


def _known_entries(original: str, own: Bracket, segments: Sequence[str]) -> list[ListEntry]:
    """Return the entries of the file's list; empty if the brackets hold no list."""
    known = [entry for entry in _parts(original, own, None) if entry is not None]
    is_whole = len(known) == sum(bool(one.strip()) for one in segments)
    if own.is_element:
        return known if is_whole and all(one == one.rstrip() for one in segments) else []
    return known if is_whole and (len(known) > 1 or "\n" not in "".join(entry.text for entry in known)) else []


def _merged(known: Sequence[ListEntry], parts: Sequence[ListEntry | None]) -> list[ListEntry] | None:
    """Return the file's entries together with the snippet's; None if the snippet lacks entries where it has no marker,
    or has them in another order."""
    entries, names = list(known), [entry.name for entry in known]
    at, is_free = 0, False
    for n, part in enumerate(parts):
        if part is None:
            places = (names.index(one.name) for one in parts[n:] if one is not None and one.name in names)
            at, is_free = next((place for place in places if place >= at), len(entries)), True
            continue
        place = names.index(part.name) if part.name in names else -1
        if place < 0:
            _insert(entries, at, part.text, known)
            names.insert(at, part.name)
            at += 1
            continue
        if place < at or (place > at and not is_free):
            return None
        if not _is_left_out(part.text):
            entries[place] = ListEntry(entries[place].lead, part.text)
        at, is_free = place + 1, False
    return entries if is_free or at == len(entries) else None


def _insert(entries: list[ListEntry], at: int, text: str, known: Sequence[ListEntry]) -> None:
    """Insert a new entry.  The white space before it is the same as before other entries."""
    first, other = known[0].lead, known[-1].lead if len(known) > 1 else known[0].lead or " "
    if at == 0 and entries:
        entries[0] = ListEntry(other, entries[0].text)
    entries.insert(at, ListEntry(first if at == 0 else other, text))


def _is_left_out(text: str) -> bool:
    """Tell whether the value of an entry is a marker."""
    value = text.partition(":")[2].strip()
    comment = _COMMENT.match(value)
    return value in DOTS or (comment is not None and comment[0] == value and _is_mark(value, None))

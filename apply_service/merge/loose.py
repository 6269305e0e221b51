"""Finds a place for blocks without an anchor, and the lines that new lines at a block's edge replace.

An anchor is a line of the file that the block shows.  A block without one (new imports, new definitions, loose lines
between two markers) is placed by its hint, by the kind of its first line, or by the scopes around.  Most blocks begin
and end with anchors.  New lines at an edge of a block replace similar lines, or the rest of a scope that is shown
whole.  Otherwise they are inserted.  All of this is guesswork, and the caller says so.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise, takewhile
from operator import attrgetter
from typing import NamedTuple

from rapidfuzz import fuzz

from apply_service.merge.candidates import squeeze
from apply_service.merge.fitting import Shift
from apply_service.merge.reading import SECTIONED, ReadSnippet, is_section
from apply_service.merge.statements import goes_on
from apply_service.syntax.scopes import Scope
from apply_service.text.lines import (
    are_other_arms,
    arm_words,
    attached_start,
    balance,
    definition_end,
    definition_header,
    header_name,
    indent_of,
    is_attached,
    is_branch,
    is_definition,
    is_import,
    is_one_more,
    name_at,
)
from apply_service.text.markers import Hint

MAX_REPLACED = 14
MIN_LIKENESS = 72.0
MAX_LEFT_AT_FILE_EDGE = 8
"""A snippet without a marker at its end may leave out at most this many lines at the file's edge."""
MIN_SORTED = 3
"""Fewer imports than this never count as sorted."""
_BEFORE = ("before", "above")
_INSIDE = ("inside", "within", "into", "in", "to", "at")
_EDGE_WORDS = re.compile(r"^(?:file|class|module)$|\s+(?:class|function|file)$")
_OPEN_END = re.compile(r"(?:(?<![<>:])=|=>|->|\|\||&&|(?<!\+)\+|\\)\s*$")
"""The end of a line whose statement goes on below."""
_start_line = attrgetter("start_line")
_FREE = "the snippet shows no line of the file beside new lines"


class Placement(NamedTuple):
    """Where a loose block is inserted, and how many blank lines go around it."""

    at: int
    reason: str
    blanks_before: int = 0
    blanks_after: int = 0
    shift: Shift = Shift()


def place_block(reading: ReadSnippet, b: int, low: int, high: int, stub: int | None = None) -> Placement:
    """Return the place for block b, between lines `low` and `high` of the original.

    `stub`: the header of a definition just above the block, if the snippet shows that definition without its body.
    """
    snippet, original = reading.snippet, reading.original
    block = snippet.blocks[b]
    texts = reading.block_texts(b)
    first = texts[0]
    placement = _by_hint(reading, texts, block.hint, low, high) if block.hint is not None else None
    if placement is not None:
        return placement
    if stub is not None and low <= (end := definition_end(original, stub, high)):
        blanks = _blanks_after(reading, end) or usual_gap(reading, texts)
        return Placement(
            end,
            f"{_FREE}: they were put below the definition that stands above them in the snippet",
            blanks_before=blanks,
        )
    placement = _among_imports(original, texts, low, high) if is_import(first) else None
    if placement is not None:
        return placement
    if at := _end_of_series(original, low, high, first):
        return Placement(at, f"{_FREE}: they were put below others like them")
    if namesakes := _namesakes(original, low, high, definition_header(texts)):
        end = definition_end(original, namesakes[-1], high)
        gap = _blanks_after(reading, end) or usual_gap(reading, texts)
        return Placement(end, f"{_FREE}: they were put below the last definition of the same name", blanks_before=gap)
    if b == 0 and not block.marked_before and block.marked_after:
        return Placement(low, f"{_FREE}: they were put at the start", blanks_after=usual_gap(reading, texts))
    # The place is after the last line of the surrounding scope that is indented at least as deep as the first new line.
    # The last block goes after the last such line of the file.
    is_last = b == len(snippet.blocks) - 1 and not block.marked_after
    at, indent = low, indent_of(first)
    above = next((line for line in original[:low][::-1] if line.strip()), "")
    is_inside = low > 0 and indent_of(above) >= indent
    """Whether the block goes into the scope of the lines above.  If not, it may go into the scope of the lines
    below."""
    is_inside_below = high < len(original) and indent_of(original[high]) >= indent
    for j in range(low, attached_start(original, high, low) if is_inside_below else high):
        if not original[j].strip():
            continue
        if indent_of(original[j]) >= indent:
            at = j + 1
        elif not is_last and (is_inside or (at > low and not is_inside_below)):
            break
    blanks = _blanks_after(reading, at)
    ends_scope = blanks and indent_of(original[at + blanks]) < indent
    ends_section = blanks and reading.language in SECTIONED and is_section(original[at + blanks])
    if not blanks or ends_scope or (ends_section and not is_section(first)):
        blanks = usual_gap(reading, texts)
    return Placement(
        at, f"{_FREE}: they were placed by their indentation alone", blanks_before=blanks if at > low else 0
    )


def _among_imports(original: Sequence[str], texts: Sequence[str], low: int, high: int) -> Placement | None:
    """Return the place below the last import above the definitions; None if there is no import.

    If each new import fills one line, and in just one sorted paragraph they fit between two neighbours, they go there
    instead.
    """
    end, level = 0, indent_of(texts[0])
    for j in range(low, high):
        if is_import(original[j]) and indent_of(original[j]) == level:
            end = definition_end(original, j, high)
        elif end and indent_of(original[j]) == level and is_definition(original[j]) and not is_attached(original[j]):
            break
    if not end:
        return None
    found: list[int] = []
    new = [text.rstrip(";") for text in texts]
    is_sorted = all(map(is_import, texts)) and new == sorted(new)
    for is_blank, run in groupby(range(low, end) if is_sorted else (), key=lambda j: not is_import(original[j])):
        at = [] if is_blank else [*run]
        lines = [original[j].rstrip(";") for j in at]
        if len(lines) >= MIN_SORTED and lines == sorted(lines):
            n = bisect_left(lines, new[0])
            found += [at[n]] if 0 < n < len(lines) and new[-1] < lines[n] else []
    if len(found) == 1:
        return Placement(found[0], f"{_FREE}: they were put among the imports in alphabetical order")
    return Placement(end, f"{_FREE}: they were put below the last import")


def _namesakes(original: Sequence[str], low: int, high: int, header: str | None) -> list[int]:
    """Return the headers of the definitions that have the same name and level as the one in `header`."""
    name = None if header is None else header_name(header)
    found = (j for j in range(low, high if name else low) if header_name(original[j]) == name)
    return [j for j in found if is_definition(original[j]) and indent_of(original[j]) == indent_of(header or "")]


def _end_of_series(original: Sequence[str], low: int, high: int, first: str) -> int:
    """Return one past the last call or element of a series that `first` continues, in the first scope with such a
    series; 0 if there is none."""
    end, level = 0, indent_of(first)
    for j in range(low, high):
        if end and original[j].strip() and indent_of(original[j]) < level:
            break
        if indent_of(original[j]) == level and is_one_more(first, original, j):
            end = definition_end(original, j, high)
    return end


def _by_hint(reading: ReadSnippet, texts: Sequence[str], hint: Hint, low: int, high: int) -> Placement | None:
    """Return the place at the scope that the hint names, or else at a line with the hint's words; None if there is
    neither."""
    words, reason = hint.target.strip("`'\"() .:").removesuffix("()"), "new lines were put where a comment says"
    if hint.where in ("end", "start"):
        name = _EDGE_WORDS.sub("", words)
        scope = find_scope(reading, name, low, high) if name else None
        if name and scope is None:
            return None
        start, end = (scope.body_start_line, scope.body_end_line) if scope is not None else (low, high)
        gap = usual_gap(reading, texts)
        if hint.where == "start":
            return Placement(start, reason, blanks_after=gap)
        while end > start and not reading.original[end - 1].strip():
            end -= 1
        return Placement(end, reason, blanks_before=gap)
    if not words:
        return None
    scope = find_scope(reading, words, low, high)
    if scope is not None:
        start, end = scope.lead_line, scope.end_line
    else:
        start = next((j for j in range(low, high) if words.lower() in reading.original[j].lower()), -1)
        if start < 0:
            return None
        end = definition_end(reading.original, start, high)
    shift = Shift(indent_of(reading.original[start]) - indent_of(texts[0]))
    if hint.where in _BEFORE:
        return Placement(start, reason, blanks_after=reading.blanks_before(start), shift=shift)
    if hint.where in _INSIDE and scope is not None and scope.body_end_line > scope.body_start_line:
        return Placement(scope.body_end_line, reason)
    blanks = _blanks_after(reading, end) or reading.blanks_before(start)
    return Placement(end, reason, blanks_before=blanks, shift=shift)


def find_scope(reading: ReadSnippet, name: str, low: int, high: int) -> Scope | None:
    """Return the scope called `name`, or else the scope with the words of `name` in its header."""
    named = reading.scopes_named.get(name, [])
    for scope in named[bisect_left(named, low, key=_start_line) :]:
        if scope.start_line > high:
            break
        if scope.end_line <= high:
            return scope
    text, begins = reading.scope_headers
    n = bisect_left(reading.scopes, low, key=_start_line)
    while (at := text.find(name.lower(), begins[n])) >= 0:
        n = bisect_right(begins, at)
        scope = reading.scopes[n - 1]
        if scope.start_line > high:
            break
        if scope.end_line <= high:
            return scope
    return None


def usual_gap(reading: ReadSnippet, lines: Iterable[str]) -> int:
    """Return the commonest number of blank lines above definitions like the one that the lines begin with.

    It is 1 if the file has no such definition, and 0 if the lines begin with no definition.
    """
    header = definition_header(lines)
    return reading.gaps_above.get(indent_of(header), 1) if header is not None else 0


def _blanks_after(reading: ReadSnippet, at: int) -> int:
    """Return the number of blank lines from line `at` on; 0 if only blank lines follow."""
    end = at
    while end < len(reading.original) and not reading.original[end].strip():
        end += 1
    return end - at if end < len(reading.original) else 0


# -- the new lines at the edges of an anchored block ---------------------------------------------------------------


def replaced_above(reading: ReadSnippet, b: int, anchor: tuple[int, int], floor: int) -> int:
    """Return the number of lines above the anchor that the new lines before the anchor replace.

    `anchor`: the first known line of the block, as (index in the block, original line).
    """
    block = reading.snippet.blocks[b]
    k, j = anchor
    if reading.end_of_new_elements(b):
        return 0
    takes = [reading.texts[i] for i in block.lines[:k]]
    above, below = reading.original[j - 1] if j > floor else "", reading.original[j]
    is_case = takes[0].lstrip().startswith(("case", "when", "default"))
    are_headers = is_branch(takes[0]) and is_branch(above) and not is_case
    are_headers = are_headers or (name_at(takes, 0) is not None and header_name(above) is not None)
    if len(takes) == 1 and are_headers and indent_of(takes[0]) == indent_of(above) < indent_of(below):
        # The new header replaces the old header and gets its body.
        return 1
    return _most_alike(takes, reading.original[max(floor, j - MAX_REPLACED) : j][::-1], reverse=True)


def replaced_below(
    reading: ReadSnippet, b: int, anchor: tuple[int, int], ceiling: int, columns: Mapping[int, int]
) -> int:
    """Return the number of lines below the last anchor, and above `ceiling`, that the new lines after the anchor
    replace."""
    block = reading.snippet.blocks[b]
    k, j = anchor
    near = reading.original[j + 1 : min(ceiling, j + 1 + MAX_REPLACED)]
    if reading.texts[block.lines[-1]].rstrip().endswith(";"):
        # The new lines end the statement of line j, so the statement's other lines are replaced.
        n = n_open = 0
        while n < len(near) and (n_open > 0 or goes_on(near[n])):
            n_open += balance([near[n]])
            n += 1
        if n:
            return n
    shown = _rest_of_scope(reading, b, k, j, columns)
    if shown is not None:
        return min(shown, ceiling - j - 1)
    takes = [reading.texts[i] for i in block.lines[k + 1 :]]
    # New lines replace nothing of an outer scope, and no more paragraphs than they have themselves.
    level = min(map(indent_of, filter(str.strip, takes)))
    rest = list(takewhile(lambda line: not line.strip() or indent_of(line) >= level, reading.original[j + 1 :]))
    n_breaks = [
        sum(not above.strip() and bool(line.strip()) for above, line in pairwise(lines)) for lines in (rest, takes)
    ]
    is_at_edge = len(reading.original) - j - 1 <= MAX_LEFT_AT_FILE_EDGE
    if b == len(reading.snippet.blocks) - 1 and not block.marked_after and is_at_edge:
        defines_more = any(map(header_name, rest)) and not any(map(header_name, takes))
        defines_more = defines_more or _has_other_arms(rest, takes)
        is_replaced = any(map(str.strip, rest)) and balance(rest) == balance(takes)
        gives_way = is_replaced and n_breaks[0] <= n_breaks[1] and not defines_more
        return max(n for n, line in enumerate(rest, 1) if line.strip()) if gives_way else 0
    return _most_alike(takes, near)


def _has_other_arms(lines: Sequence[str], takes: Sequence[str]) -> bool:
    """Tell whether the lines open a branch or an entry that the new lines lack; False if the new lines begin with
    neither."""
    new = [words for line in takes if (words := arm_words(line))]
    level, shown = indent_of(takes[0]), {line.strip() for line in takes}
    here = [line for line in lines if indent_of(line) == level and line.strip() not in shown]
    old = [arm_words(line) for line in here if arm_words(line) or (is_branch(line) and line.strip() != "{")]
    return bool(arm_words(takes[0])) and any(
        all(not words or are_other_arms(words, other) for other in new) for words in old
    )


def balanced_end(original: Sequence[str], start: int, end: int, taken: Sequence[str], ceiling: int) -> int:
    """Return the end of the lines that `taken` replaces, from `end` on.

    The end is moved down if `start:end` would leave a bracket or a statement open that `taken` closes.
    """
    wanted = balance(taken)
    last = min(ceiling, end + MAX_REPLACED)
    stop = next((stop for stop in range(end, last + 1) if balance(original[start:stop]) == wanted), end)
    if _OPEN_END.search(original[stop - 1]) and not _OPEN_END.search(taken[-1]):
        level = indent_of(original[start])
        while stop < last and original[stop].strip() and indent_of(original[stop]) > level:
            stop += 1
    return stop


def _rest_of_scope(reading: ReadSnippet, b: int, k: int, j: int, columns: Mapping[int, int]) -> int | None:
    """Return how many lines below line j are left of the scope that the block shows from its header to its end; None if
    the block shows no such scope."""
    block, texts = reading.snippet.blocks[b], reading.block_texts(b)
    last = indent_of(texts[-1])
    above = next((n for n in range(len(texts) - 2, -1, -1) if texts[n].strip() and indent_of(texts[n]) < last), -1)
    header = columns.get(block.lines[above], -1) if above >= 0 else -1
    after = reading.marker_indent(block.gap_after)
    if header < 0 or above > k or (after is not None and after > indent_of(texts[above])) or balance(texts[above:]) > 0:
        return None
    end = reading.close_of(header)
    if arm_words(reading.original[header]):
        # A branch ends at the next branch; a label like `default:` opens no scope.
        level = indent_of(reading.original[header])
        below = range(header + 1, end)
        end = next(
            (n for n in below if indent_of(reading.original[n]) <= level and is_branch(reading.original[n])), end
        )
    while end > j + 1 and not reading.original[end - 1].strip():
        end -= 1
    return max(0, end - j - 1)


def _most_alike(takes: Sequence[str], originals: Sequence[str], *, reverse: bool = False) -> int:
    """Return how many of the nearest `originals`, taken together, look most like `takes`; 0 if no number of them is
    similar enough."""
    below = originals[::-1] if reverse else originals
    names = {None, *(name_at(below, k) for k in range(len(below)))}
    if any(name_at(takes, k) not in names for k in range(len(takes))):
        return 0
    wanted, n_open = squeeze("".join(takes))[:4000], balance(takes)
    new = next(filter(str.strip, takes))
    key, words = _key(new), arm_words(new)
    best, most = 0, MIN_LIKENESS
    for n in range(1, len(originals) + 1):
        lines = originals[:n][::-1] if reverse else originals[:n]
        old = next(filter(str.strip, lines), "")
        if not originals[n - 1].strip() or _key(old) != key or are_other_arms(arm_words(old), words):
            continue
        if is_one_more(new, below, below.index(old)):
            continue
        likeness = fuzz.ratio(wanted, squeeze("".join(lines))[:4000])
        if likeness > most and balance(lines) == n_open:
            best, most = n, likeness
    return best


def _key(line: str) -> str:
    """Return the subject of a line: the name it defines, or the text before its first sign."""
    return header_name(line) or re.split(r"[=(:{<,\s]", line.strip(), maxsplit=1)[0]

"""Finds the lines of the file that a deletion note, such as `// removed: /version route`, means.

A note may quote a line, name a definition, or name something in words.  Words count only if exactly one place has
them all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, takewhile

from apply_service.merge.candidates import key_of
from apply_service.merge.reading import ReadSnippet
from apply_service.merge.words.mentions import GENERAL, SORTS
from apply_service.text.lines import attached_start, definition_end, indent_of
from apply_service.text.markers import PLAIN_NOTE, Role, deletion_target, strip_comment
from apply_service.types import LineOp

MAX_PLACES = 60
"""A word names something only if at most this many lines of the file have it."""
MAX_SOUGHT = 100
"""At most this many notes of a snippet are looked up by their words."""
_WORD = re.compile(r"[^\W_][\w]*")


def said_words(target: str) -> list[list[str]]:
    """Return two lists of the words that name the thing.  The first lacks common words; the second also lacks words for
    the thing's kind.  An empty list is left out."""
    found = [word for word in _WORD.findall(target) if word.lower() not in GENERAL or not word.islower()]
    named = [word for word in found if word.lower() not in SORTS]
    return [words for words in (found, named) if words]


def find_removed(reading: ReadSnippet, note: int, low: int, high: int) -> range | None:
    """Return the lines of the file between `low` and `high` that the deletion note in line `note` of the update means.
    The result is None if there are no such lines, or if it is unclear which lines are meant."""
    target = deletion_target(reading.texts[note])
    quoted = [j for j in reading.index.places(target) if low <= j < high]
    if quoted:
        return range(quoted[0], quoted[0] + 1) if len(quoted) == 1 else None
    name = target.split("(")[0].strip("`'\" ")
    named = [scope for scope in reading.scopes_named.get(name, ()) if low <= scope.lead_line and scope.end_line <= high]
    if named:
        return _with_gap(reading.original, named[0].lead_line, named[0].end_line, low, high)
    if note not in reading.snippet.stray_deletions[:MAX_SOUGHT]:
        return None
    heads = next(filter(None, (_heads(reading, words, low, high) for words in said_words(target))), [])
    if len(heads) != 1:
        return None
    lines = reading.original
    return _with_gap(lines, attached_start(lines, heads[0], low), definition_end(lines, heads[0], high), low, high)


def _heads(reading: ReadSnippet, words: Sequence[str], low: int, high: int) -> list[int]:
    """Return the lines that have all the words.  A line inside the scope of another such line is left out.

    Comments count only if no code has the words.  If exactly one of the lines sets one of the words, only that line
    counts.
    """
    lines: set[int] | None = None
    for word in words:
        places = {j for text in {word, word.lower()} for j in reading.index.with_word(text) if low <= j < high}
        if len(places) > MAX_PLACES:
            return []
        lines = places if lines is None else lines & places
    code = {j for j in lines or () if not strip_comment(reading.original[j]).is_comment}
    lines = code or lines
    setting = [j for j in lines or () if key_of(reading.original[j]) in words]
    heads: list[int] = []
    end = 0
    for j in setting if len(setting) == 1 else sorted(lines or ()):
        if j >= end:
            heads.append(j)
            end = definition_end(reading.original, j, high)
    return heads


def _with_gap(lines: Sequence[str], start: int, end: int, low: int, high: int) -> range:
    """Return the lines and the blank lines below them.  At the end of a scope or of the file, add the blank lines above
    too."""
    is_inside = end < len(lines) and lines[end].strip() and indent_of(lines[end]) < indent_of(lines[start])
    while end < high and not lines[end].strip():
        end += 1
    while (end == len(lines) or is_inside) and start > low and not lines[start - 1].strip():
        start -= 1
    return range(start, end)


def ignored_notes(reading: ReadSnippet, ops: Sequence[LineOp]) -> list[int]:
    """Return the deletion notes of the snippet that the merge ignores: it removes no line with a note's words."""
    notes = [i for i, role in enumerate(reading.snippet.roles) if role is Role.DELETION]
    texts = [op.text for op in ops if op.kind == "drop"] if notes else []
    gone = {word.lower() for text in texts for word in _WORD.findall(text)}
    lines = {text.strip() for text in texts}
    found = []
    for note in notes:
        target = deletion_target(reading.snippet.texts[note])
        words = [word.lower() for words in said_words(target)[-1:] for word in words]
        if target not in lines and not (gone.intersection(words) if words else any(lines)):
            found.append(note)
    return found


def comments_of_code(reading: ReadSnippet, notes: Sequence[int], ops: Sequence[LineOp]) -> set[int]:
    """Return the deletion notes right above code where the merge drops nothing.  They describe what the program
    does."""
    texts, roles = reading.snippet.texts, reading.snippet.roles
    places = {op.update_line: k for k, op in enumerate(ops)}
    found: set[int] = set()
    for note in notes[:MAX_SOUGHT]:
        k = places.get(note + 1, -1)
        if k < 0 or roles[note + 1] is not Role.CONTENT or indent_of(texts[note]) != indent_of(texts[note + 1]):
            continue
        if PLAIN_NOTE.match(strip_comment(texts[note]).core):
            continue
        above = takewhile(lambda op: op.kind in ("drop", "take"), ops[k - 1 :: -1] if k else ())
        below = takewhile(lambda op: op.kind in ("drop", "take"), ops[k:])
        if all(op.kind == "take" for op in chain(above, below)):
            found.add(note)
    return found

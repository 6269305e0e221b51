"""Finds the places in the original where each line of a snippet may stand, and scores a match there.

Equal lines, with or without regard to white space, are found by hashing.  For a snippet's line without an equal line,
similar lines are looked for: rapidfuzz compares it with lines that share rare words.  This module looks at single
lines; `rows` looks at the lines around them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from math import log2

import numpy as np
import numpy.typing as npt
from rapidfuzz import fuzz

from apply_service.merge.statements import Statement, gist, statements
from apply_service.merge.wording import ElidedLines
from apply_service.text.lines import arm_words, definition_end, indent_of, is_closer

MAX_FUZZY_LENGTH = 1000
FUZZY_CUTOFF = 62.0
MAX_WORD_LINES = 60
MAX_PLACES = 4000
"""A line helps to align only if it has at most this many places."""
MAX_SIMILAR = 6
MIN_MOVED = 0.3
"""A line may match at another indentation only if its `substance` is at least this."""
MAX_JOINED = 5
"""At most this many consecutive statements may stand in one line elsewhere."""
MAX_TOKENS = 400
MAX_ENTRY = 60
"""A bracketed entry of at most this many lines may be shown in one line with dots."""
NO_SCOPE = 1 << 20
"""The indentation given to lines that mark no scope."""

_WORDS = re.compile(r"[A-Za-z_]\w+|\d+")
_PREPROCESSOR = re.compile(
    r"^#\s*(?:if|ifdef|ifndef|else|elif|endif|define|include|pragma|undef|region|endregion|error)\b"
)
_LABEL = re.compile(r"^\s*(?:public|private|protected|default|case\b.{0,60}|[A-Za-z_]\w*):\s*$")
KEYED = ("yaml", "toml", "json", "ini", "markdown", "make", "dockerfile", "html", "css")
"""Languages without labels.  There, a name and a colon alone on a line are a key, a target or a heading."""
_TAG = re.compile(r"<[A-Za-z][^/>]*>$")
_LAST_COMMA = re.compile(r",(?=[)\]}])")
_BRANCH = re.compile(r"^\s*(?:else|try|finally|except|default):\s*$")


# fmt: off
_GRAMMAR = frozenset(
    [
        "import", "from", "const", "let", "var", "return", "if", "else", "for", "while", "def", "class",
        "function", "func", "fn", "use", "using", "include", "require", "export", "public", "private",
        "protected", "static", "final", "new", "self", "this", "the", "of", "to", "in", "is", "as", "and", "or",
        "not", "type", "struct", "int", "str", "string", "void", "bool", "true", "false", "null", "none",
        "async", "await",
    ]
)
# fmt: on
"""Words that are ignored when lines are compared by their words."""


class Kind(IntEnum):
    """How closely two lines agree; the best kind is first."""

    SAME = 0
    MOVED = 1
    """Equal except for the indentation."""
    SPACED = 2
    """Equal except for white space inside."""
    ELIDED = 3
    """Dots in the update stand for part of the line."""
    SIMILAR = 4


FACTOR = {Kind.SAME: 1.0, Kind.MOVED: 0.6, Kind.SPACED: 0.7}


@dataclass(frozen=True, slots=True)
class Candidates:
    """The possible columns of one line in ascending order, each with its score and kind."""

    columns: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]
    kinds: tuple[Kind, ...]

    def kind_at(self, column: int) -> Kind:
        return self.kinds[int(np.searchsorted(self.columns, column))]

    def preferring(self, columns: npt.NDArray[np.int64], cost: float) -> Candidates:
        """Return the same candidates with the score of every column outside `columns` reduced by `cost`."""
        others = ~np.isin(self.columns, columns)
        return Candidates(self.columns, self.scores - cost * others, self.kinds)

    def only(self, chosen: npt.NDArray[np.bool_]) -> Candidates:
        """Return the candidates whose flag in `chosen` is set."""
        kinds = tuple(kind for kind, is_in in zip(self.kinds, chosen.tolist(), strict=True) if is_in)
        return Candidates(self.columns[chosen], self.scores[chosen], kinds)

    def joined(self, columns: Sequence[int], worth: float, kind: Kind = Kind.SIMILAR) -> Candidates:
        """Return these candidates and `columns`, which share the score `worth` equally.  A column that already has a
        higher score keeps it."""
        known = set(self.columns.tolist())
        scores = dict(zip(self.columns.tolist(), self.scores.tolist(), strict=True))
        for column in columns:
            scores[column] = max(scores.get(column, 0.0), worth / len(columns))
        order = sorted(scores)
        kinds = tuple(self.kind_at(c) if c in known else kind for c in order)
        return Candidates(np.array(order, np.int64), np.array([scores[c] for c in order]), kinds)

    @property
    def is_exact(self) -> bool:
        return bool(self.kinds) and min(self.kinds) is Kind.SAME


NOTHING = Candidates(np.empty(0, np.int64), np.empty(0), ())


def substance(text: str) -> float:
    """Return how much information a line carries by itself: about 0.1 for a bracket, and 1 for 16 or more letters and
    digits."""
    letters = sum(map(str.isalnum, text[:40]))
    return 0.1 + 0.9 * min(1.0, letters / 16)


def squeeze(text: str) -> str:
    """Return the line without any white space."""
    return "".join(text.split())


def tight(text: str) -> str:
    """Return the text in one line without white space, and without the commas that may stand before closing
    brackets."""
    return _LAST_COMMA.sub("", squeeze(text))


_KEY = re.compile(
    r"\s*(?:- )?(?:(?:const|let|var|pub|static|final|export|self\.|this\.)\s*)*"
    r"([\w$.\"'/@-]{1,80})\s*(?::|=|:=)(?![=:])"
)


def key_of(line: str) -> str | None:
    """Return the name that a line sets: the text before its first `=` or `:`."""
    found = _KEY.match(line[:200]) if "=" in line or ":" in line else None
    return found.group(1).strip("\"'") if found else None


def has_labels(original: Sequence[str], language: str | None) -> bool:
    """Tell whether a name and a colon alone on a line may be a label.

    If the language is unknown, the answer is yes if some line of the file ends like a line of C.
    """
    if language is None:
        return any(line.rstrip().endswith(("{", ";")) for line in original)
    return language not in KEYED


class LineIndex:
    """The original's lines, looked up by text, by words and by similarity."""

    def __init__(self, lines: Sequence[str], *, has_labels: bool = True) -> None:
        """Index the lines.  With `has_labels`, a line with nothing but a name and a colon is a label (as in C), not a
        key (as in YAML)."""
        self.lines = lines
        self.has_labels = has_labels
        self.stripped = [line.strip() for line in lines]
        self._equal: dict[str, Candidates] = {}
        self._elided_places: dict[str, list[int]] = {}
        self._exact = {line.rstrip() for line in lines}
        self._by_text: dict[str, list[int]] = defaultdict(list)
        for j, text in enumerate(self.stripped):
            if text:
                self._by_text[text].append(j)

    @cached_property
    def _elided(self) -> ElidedLines:
        return ElidedLines(self.stripped)

    @cached_property
    def _by_squeezed(self) -> dict[str, list[int]]:
        table: dict[str, list[int]] = defaultdict(list)
        for text, places in self._by_text.items():
            table[squeeze(text)].extend(places)
        return table

    @cached_property
    def _by_word(self) -> dict[str, list[int]]:
        table: dict[str, list[int]] = defaultdict(list)
        for j, text in enumerate(self.stripped):
            if len(text) <= MAX_FUZZY_LENGTH:
                for word in set(_WORDS.findall(text)):
                    table[word].append(j)
        return table

    @cached_property
    def keys(self) -> dict[tuple[str, int], list[int]]:
        """The lines that set a key, by the key and the line's indentation."""
        table: dict[tuple[str, int], list[int]] = defaultdict(list)
        for j, line in enumerate(self.lines):
            key = key_of(line)
            if key is not None:
                table[key, indent_of(line)].append(j)
        return table

    @cached_property
    def arms(self) -> dict[frozenset[str], list[int]]:
        """The lines of all branches and entries, by the words that tell them apart."""
        table: dict[frozenset[str], list[int]] = defaultdict(list)
        for j, line in enumerate(self.lines):
            if words := arm_words(line):
                table[words].append(j)
        return table

    @cached_property
    def statements(self) -> list[Statement]:
        return statements(self.lines)

    @cached_property
    def statement_at(self) -> dict[int, int]:
        """The statement of each line that is not blank."""
        return {j: n for n, part in enumerate(self.statements) for j in range(part.start, part.stop)}

    @cached_property
    def long_statements(self) -> tuple[list[Statement], ElidedLines]:
        """The statements and bracketed entries that take several lines, and a lookup that holds each of them as one
        `tight` line."""
        parts = [part for part in self.statements if part.stop - part.start > 1]
        for j, text in enumerate(self.stripped):
            if text.endswith(("{", "[")) or _TAG.match(text):
                stop = definition_end(self.lines, j, min(len(self.lines), j + MAX_ENTRY))
                if stop > j + 1 and is_closer(self.lines[stop - 1]):
                    parts.append(Statement(j, stop, "code"))
        return parts, ElidedLines([tight("".join(self.lines[part.start : part.stop])) for part in parts])

    @cached_property
    def _gists(self) -> list[tuple[str, ...]]:
        return [gist("\n".join(self.lines[part.start : part.stop])) for part in self.statements]

    def runs_saying(self, wanted: Collection[tuple[str, ...]]) -> dict[tuple[str, ...], list[tuple[int, int]]]:
        """Return, for each gist in `wanted`, the (start, stop) lines of all runs of 1 to MAX_JOINED statements with
        that gist."""
        found: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
        parts, said = self.statements, self._gists
        firsts = {key[0] for key in wanted}
        for n in [n for n, tokens in enumerate(said) if tokens and tokens[0] in firsts]:
            key: tuple[str, ...] = ()
            for m in range(n, min(n + MAX_JOINED, len(parts))):
                key = key + said[m]
                if len(key) > MAX_TOKENS:
                    break
                if said[m] and key in wanted:
                    found[key].append((parts[n].start, parts[m].stop))
        return found

    @cached_property
    def scope_indents(self) -> npt.NDArray[np.int64]:
        """Columns of indentation of each line; NO_SCOPE for blank lines, preprocessor lines and labels."""
        label = _LABEL if self.has_labels else _BRANCH
        indents = [
            NO_SCOPE
            if text in ("", "{")
            or (text[0] == "#" and _PREPROCESSOR.match(line))
            or (text[-1] == ":" and len(line) < 90 and label.match(line))
            else indent_of(line)
            for line, text in zip(self.lines, self.stripped, strict=True)
        ]
        return np.array(indents, np.int64)

    @cached_property
    def weights(self) -> npt.NDArray[np.float64]:
        return np.array([0.0 if not text else 1.0 for text in self.stripped])

    def has(self, line: str) -> bool:
        """Tell whether the file has the line, ignoring trailing white space.  `line` itself must have no trailing white
        space."""
        return line in self._exact

    def places(self, text: str) -> list[int]:
        """Return lines equal to `text`, ignoring white space at both ends."""
        return self._by_text.get(text.strip(), [])

    def count(self, text: str) -> int:
        return len(self.places(text))

    def equal(self, text: str) -> Candidates:
        """Return lines equal to `text`, ignoring all white space."""
        if text not in self._equal:
            self._equal[text] = self._find_equal(text)
        return self._equal[text]

    def _find_equal(self, text: str) -> Candidates:
        places = self.places(text)
        if not places:
            places = sorted(self._by_squeezed.get(squeeze(text), ()))
        if not places:
            return NOTHING
        same = [j for j in places if self.lines[j].rstrip() == text.rstrip()]
        if not same and substance(text.strip()) < MIN_MOVED:
            return NOTHING
        places = same or places
        if len(places) > MAX_PLACES:
            return NOTHING
        worth = 0.02 + substance(text.strip()) * self._rarity(len(places))
        other = Kind.MOVED if self.places(text) else Kind.SPACED
        kinds = tuple(Kind.SAME if self.lines[j].rstrip() == text.rstrip() else other for j in places)
        return Candidates(np.array(places, np.int64), np.array([worth * FACTOR[kind] for kind in kinds]), kinds)

    def elided(self, text: str) -> Candidates:
        """Return lines that match `text`.  Dots in `text` stand for a part of a line."""
        here = text.strip()
        if ("..." not in here and "…" not in here) or len(here) > MAX_FUZZY_LENGTH:
            return NOTHING
        if here not in self._elided_places:
            self._elided_places[here] = self._elided.places(here)
        places = self._elided_places[here]
        if not places:
            return NOTHING
        worth = 0.8 * substance(here) * self._rarity(len(places))
        return Candidates(np.array(places, np.int64), np.full(len(places), worth), (Kind.ELIDED,) * len(places))

    def similar(self, text: str) -> Candidates:
        """Return the most similar lines among those that share a rare word with `text`."""
        if len(text) > MAX_FUZZY_LENGTH:
            return NOTHING
        here = text.strip()
        found: list[tuple[int, float]] = []
        for j in self.sharing(here):
            ratio = fuzz.ratio(here, self.stripped[j], score_cutoff=FUZZY_CUTOFF)
            if ratio:
                found.append((j, ratio / 100))
        if not found:
            return NOTHING
        found.sort()
        worth = substance(here)
        scores = np.array(
            [
                worth * (ratio - 0.45) * (1.0 if indent_of(text) == indent_of(self.lines[j]) else 0.6)
                for j, ratio in found
            ]
        )
        return Candidates(np.array([j for j, _ in found], np.int64), scores, (Kind.SIMILAR,) * len(found))

    def with_word(self, word: str) -> list[int]:
        """Return the lines that have the word, with the same upper and lower case."""
        return self._by_word.get(word, [])

    def sharing(self, text: str) -> list[int]:
        """Return the lines that share the most words with `text`; rare words count more."""
        shared: dict[int, float] = defaultdict(float)
        for word in set(_WORDS.findall(text)):
            places = self._by_word.get(word, ()) if word.lower() not in _GRAMMAR else ()
            if len(places) <= MAX_WORD_LINES:
                for j in places:
                    shared[j] += 1.0 / (1.0 + log2(1 + len(places)))
        return sorted(shared, key=shared.__getitem__, reverse=True)[: 3 * MAX_SIMILAR]

    @staticmethod
    def _rarity(count: int) -> float:
        return 1.0 if count == 1 else 0.2 / count

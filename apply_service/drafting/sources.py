"""What a copy drafter copies from: texts, how far the output has come in each, and a cursor for what comes next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from apply_service.protocols import DraftSource, DraftSources

BLANKS = " \t"


def indentation_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip(BLANKS))]


def step_of(text: str) -> int:
    """The least step between the indentations of lines that follow each other, in characters; 4 where there is none."""
    widths = [len(indentation_of(line)) for line in text.split("\n") if line.strip()]
    return min((abs(a - b) for a, b in pairwise(widths) if a != b), default=4)


class Source:
    """A text to copy from.  The output has come to `position` in it, or to any place from `earliest` on where the
    predicted merge is wrong to leave out what lies between the two."""

    def __init__(self, name: str, source: DraftSource) -> None:
        self.name, self.text, self.ids, self.starts = name, source.text, source.ids, source.starts
        self.position = self.earliest = 0

    def __len__(self) -> int:
        return len(self.ids)

    def move_to(self, position: int) -> None:
        self.position = self.earliest = position

    @cached_property
    def step(self) -> int:
        """Characters by which it indents."""
        return step_of(self.text)

    def token_at(self, char: int) -> tuple[int, int]:
        """The first token that starts at this character or after it, and where it starts: a line end may belong to the
        token before."""
        place = int(np.searchsorted(self.starts[:-1], char))
        return place, int(self.starts[place])


@dataclass(frozen=True, slots=True)
class Cursor:
    """What to draft: the rest of `prefix` from `n_used` on, then `source` from token `place` on.

    The prefix is text of the source tokenised anew (and perhaps indented otherwise); `prefix_char` is the character of
    the source's text where it begins.
    """

    source: Source
    place: int
    prefix: tuple[int, ...] = ()
    prefix_char: int = 0
    n_used: int = 0

    @property
    def is_in_prefix(self) -> bool:
        return self.n_used < len(self.prefix)

    def peek(self, n_tokens: int) -> list[int]:
        """The next tokens, at most `n_tokens`."""
        head = list(self.prefix[self.n_used : self.n_used + n_tokens])
        room = n_tokens - len(head)
        return head + self.source.ids[self.place : self.place + room].tolist() if room else head

    def advance(self, n_tokens: int) -> Cursor:
        """The cursor `n_tokens` further on; the source's position moves along."""
        n_used = min(len(self.prefix), self.n_used + n_tokens)
        place = min(len(self.source), self.place + n_tokens - (n_used - self.n_used))
        if n_used == len(self.prefix):
            self.source.move_to(place)
        return replace(self, place=place, n_used=n_used)

    def source_char(self, decode: Callable[[Sequence[int]], str]) -> int:
        """The character of the source's text that comes next."""
        text = self.source.text
        if not self.is_in_prefix:
            return int(self.source.starts[min(self.place, len(self.source))])
        *above, last = decode(self.prefix[: self.n_used]).split("\n")
        if not above:
            return self.prefix_char + len(last)
        at = self.prefix_char
        for _ in above:
            at = _line_after(text, at)
        line, written = text[at : _line_after(text, at)], last.lstrip(BLANKS)
        return at + (len(line) - len(line.lstrip(BLANKS)) + len(written) if written else 0)


def _line_after(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


class Sources:
    """The sources of one drafter in order of preference, kept in step along the alignment of the predicted merge."""

    def __init__(self, sources: DraftSources, names: Sequence[str]) -> None:
        given = {source.name: source for source in (sources.predicted, sources.original, sources.update)}
        self.by_name = {name: Source(name, given[name]) for name in names}  # type: ignore[index]
        self.ordered = list(self.by_name.values())
        self._alignment = {"original": sources.predicted_to_original, "update": sources.predicted_to_update}

    def follow(self, moved: Source) -> None:
        """Move the others to where they stand by the alignment when the output has reached the position of `moved`."""
        predicted = self.by_name.get("predicted")
        if predicted is None:
            return
        if moved is not predicted:
            predicted.move_to(int(np.searchsorted(self._alignment[moved.name], moved.position)))
            return
        # Lines dropped before this line may be wanted after all, though the output has begun as the line does.
        newline = moved.text.rfind("\n", 0, int(moved.starts[moved.position]))
        line = min(moved.position, int(np.searchsorted(moved.starts[:-1], max(0, newline))))
        for name, places in self._alignment.items():
            if (other := self.by_name.get(name)) is not None:
                other.position = int(places[moved.position])
                kept_before = np.flatnonzero(self.kept[name][:line])
                other.earliest = int(places[kept_before[-1]]) + 1 if len(kept_before) else 0

    @cached_property
    def kept(self) -> dict[str, np.ndarray]:
        """By source [n_predicted]: whether each token of the predicted merge is the source's, moving on with it.

        Made at the first rejection."""
        predicted, found = self.by_name["predicted"].ids, {}
        for name, places in self._alignment.items():
            other, here = self.by_name[name].ids, places[:-1]
            is_kept = (np.diff(places) == 1) & (here < len(other))
            is_kept[is_kept] = other[here[is_kept]] == predicted[: len(here)][is_kept]
            found[name] = is_kept
        return found

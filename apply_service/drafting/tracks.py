"""The sources of a copy drafter, where the output stands in each, and the course that the next draft takes through one
of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from apply_service.drafting.suffix_match import SuffixIndex
from apply_service.protocols import DraftSource, DraftSources, TokenIds

Places = npt.NDArray[np.int64]
Decode = Callable[[Sequence[int]], str]


class Track:
    """One source and where the output stands in it: at `pointer`, or anywhere from `mark` on if the predicted merge is
    wrong to leave out what lies between the two."""

    def __init__(self, name: str, source: DraftSource) -> None:
        self.name = name
        self.source = source
        self.pointer = 0
        self.mark = 0

    def __len__(self) -> int:
        return len(self.source.ids)

    def token_at(self, char: int) -> tuple[int, int]:
        """The first token that starts at this character or after it, and where it starts: line ends may be the end of
        the token before."""
        place = int(np.searchsorted(self.source.starts[:-1], char))
        return place, int(self.source.starts[place])

    @cached_property
    def index(self) -> SuffixIndex:
        return SuffixIndex(self.source.ids)


@dataclass(frozen=True, slots=True)
class Course:
    """What to draft: the rest of `prefix` from `n_used` on, then the source of `track` from `place` on.

    The prefix is text of the source tokenised anew (and perhaps indented otherwise); `prefix_char` is the character of
    the source's text where it began.
    """

    track: Track
    place: int
    prefix: tuple[int, ...] = ()
    prefix_char: int = 0
    n_used: int = 0

    def take(self, n_tokens: int) -> list[int]:
        """The next tokens, at most `n_tokens`."""
        head = list(self.prefix[self.n_used : self.n_used + n_tokens])
        room = n_tokens - len(head)
        return head + self.track.source.ids[self.place : self.place + room].tolist() if room else head

    def advance(self, n_tokens: int) -> Course:
        """The course after `n_tokens` of it; the track's pointer moves along."""
        n_used = min(len(self.prefix), self.n_used + n_tokens)
        place = min(len(self.track), self.place + n_tokens - (n_used - self.n_used))
        if n_used == len(self.prefix):
            self.track.pointer = self.track.mark = place
        return replace(self, place=place, n_used=n_used)

    def source_char(self, decode: Decode) -> int:
        """The character of the source's text that comes next."""
        source = self.track.source
        if self.n_used == len(self.prefix):
            return int(source.starts[min(self.place, len(self.track))])
        *above, last = decode(self.prefix[: self.n_used]).split("\n")
        at = self.prefix_char
        for _ in above:
            at = _next_line(source.text, at)
        return at + len(last) if not above else _same_content(source.text, at, last.lstrip(" \t"))


def _next_line(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _same_content(text: str, line_start: int, written: str) -> int:
    """Where a line's text has come when `written` of it stands, indentation left aside."""
    line = text[line_start : _next_line(text, line_start)]
    return line_start + (len(line) - len(line.lstrip(" \t")) + len(written) if written else 0)


class Kept(NamedTuple):
    """Where the predicted merge keeps tokens of another source.

    `is_kept` [n_predicted]: the token is the other source's, moving on with it.  `after_last` [n_predicted + 1]: the
    place after the last kept token before each place.
    """

    is_kept: npt.NDArray[np.bool_]
    after_last: Places


class Tracks:
    """The tracks of one drafter, in order of preference, carried along the alignment of the predicted merge."""

    def __init__(self, sources: DraftSources, names: Sequence[str]) -> None:
        by_name = {source.name: source for source in (sources.predicted, sources.original, sources.update)}
        self.ordered = [Track(name, by_name[name]) for name in names]  # type: ignore[index]
        self._by_name = {track.name: track for track in self.ordered}
        self._maps = {"original": sources.predicted_to_original, "update": sources.predicted_to_update}

    def carry_from(self, track: Track) -> None:
        """Move the other tracks to where they stand by the alignment when the output has reached `track.pointer`."""
        predicted = self._by_name.get("predicted")
        if predicted is None:
            return
        if track is predicted:
            line = _line_place(track)
            for name in self._maps.keys() & self._by_name.keys():
                other = self._by_name[name]
                other.pointer = int(self._maps[name][track.pointer])
                other.mark = int(self.kept[name].after_last[line])
        elif track.name in self._maps:
            predicted.pointer = predicted.mark = int(np.searchsorted(self._maps[track.name], track.pointer))

    @cached_property
    def kept(self) -> dict[str, Kept]:
        """By source; made at the first rejection."""
        predicted = self._by_name["predicted"].source.ids
        return {name: _kept(predicted, self._by_name[name].source.ids, self._maps[name]) for name in self._maps}


def _line_place(track: Track) -> int:
    """The token that begins the line at which the track stands: lines dropped before it may be wanted after all, though
    the output has begun as the line after them does."""
    source = track.source
    newline = source.text.rfind("\n", 0, int(source.starts[track.pointer]))
    return min(track.pointer, int(np.searchsorted(source.starts[:-1], max(0, newline))))


def _kept(predicted: TokenIds, other: TokenIds, places: Places) -> Kept:
    here, is_moving = places[:-1], np.diff(places) == 1
    is_kept = is_moving & (here < len(other))
    is_kept[is_kept] = other[here[is_kept]] == predicted[: len(here)][is_kept]
    after_last = np.maximum.accumulate(np.append(0, np.where(is_kept, here + 1, 0)))
    return Kept(is_kept, after_last)

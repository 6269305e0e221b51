"""Drafts copied from what the output is expected to repeat: the predicted merge, the original, the update, the output
itself.

After a rejection the target has written a token that the draft did not foresee.  The sources are then searched for the
longest suffix of the output, near where the output stands in each (docs/drafting.md).  A drafter decides how fast the
output comes, never what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from apply_service.drafting.acceptance import Counts, LearningDrafter
from apply_service.drafting.lookup import MAX_MATCH, Positions, agreement
from apply_service.drafting.reindentation import Reindenter
from apply_service.drafting.sources import Cursor, Source, Sources
from apply_service.protocols import EMPTY_DRAFT, Draft, DraftContext, DraftSource

MIN_MATCH = 3
"""Fewest agreeing tokens that are trusted anywhere; 3 took 2-4% fewer rejections than 2 where the merge was wrong
(docs/log.md)."""
LONG_MATCH = 8
"""Agreeing tokens from which on a match is a sure one."""
NEAR_TOKENS = 16
"""A single agreeing token is trusted only this close after a source's position."""
BACKWARD_PENALTY = 3.0
"""Edits are monotone: going back in a source costs this much more."""
TEXT_TAILS = (64, 32, 16, 8)
"""Characters of output text to look for where no token suffix matches, longest first."""
SETTLED_TOKENS = 32
"""A cursor that has agreed for so long counts as followed, however it was found."""

Found = Literal["start", "long", "short", "loose", "guess"]
"""How a cursor was found: it is the first one; by so many agreeing tokens; by one token near by, by text or by another
indentation; by nothing."""

PRIORS = {
    "followed predicted": Counts(2500.0, 0.5),
    "followed": Counts(400.0, 1.0),
    "long": Counts(50.0, 1.0),
    "short": Counts(20.0, 1.0),
    "loose": Counts(8.0, 1.0),
    "guess": Counts(0.5, 2.0),
}
"""By how the cursor was found, or that it has been followed for long; means measured on mined edits (docs/log.md)."""


class Match(NamedTuple):
    """A place to draft from, and how much speaks for it."""

    score: float
    source: Source
    place: int
    n_tokens: int = 0


class CopyDrafter(LearningDrafter):
    """Drafts from `names` of the sources, in that order of preference, then from the output itself."""

    names: tuple[str, ...] = ()

    def __init__(self, context: DraftContext) -> None:
        super().__init__(PRIORS)
        self._encode, self._decode = context.sources.encode, context.sources.decode
        self._sources = Sources(context.sources, self.names)
        self._reindenter = Reindenter(context.sources, self._sources)
        self._cursor = Cursor(self._sources.ordered[0], 0)
        self._found: Found = "start"
        self._n_agreed = 0
        self._n_seen = 0

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        """Where the output stands in the sources is seen here, whoever drafted what was written."""
        written = list(output_ids[self._n_seen :])
        self._n_seen = len(output_ids)
        expected = self._cursor.peek(len(written))
        if expected == written:
            self._cursor = self._cursor.advance(len(written))
            self._n_agreed += len(written)
        else:
            pairs = enumerate(zip(written, expected, strict=False))
            n_agreed = next((i for i, (a, b) in pairs if a != b), len(expected))
            self._found, self._cursor = self._realign(self._cursor.advance(n_agreed), output_ids)
            self._n_agreed = 0
        return self.draft(self._cursor.peek(limit), self._kind, self._cursor.source.name) if limit > 0 else EMPTY_DRAFT

    @property
    def _kind(self) -> str:
        if self._found != "start" and self._n_agreed < SETTLED_TOKENS:
            return self._found
        return "followed predicted" if self._cursor.source.name == "predicted" else "followed"

    def _realign(self, cursor: Cursor, output_ids: Sequence[int]) -> tuple[Found, Cursor]:
        """Where to go on after the target has left `cursor`, and how that was found."""
        source, tail = cursor.source, list(output_ids[-MAX_MATCH:])
        if cursor.is_in_prefix:
            source.move_to(source.token_at(cursor.source_char(self._decode))[0])
        if source.name in self._sources.by_name:
            self._sources.follow(source)
        resumed = self._reindenter.resume(cursor, tail)
        if resumed is not None and source.name == "predicted":
            return "loose", resumed
        best = max((_best_match(one, tail) for one in self._sources.ordered), key=lambda match: match.score)
        if best.score > 0:
            found: Found = "loose" if best.n_tokens < 2 else "short" if best.n_tokens < LONG_MATCH else "long"
            return found, Cursor(best.source, best.place)
        resumed = resumed or self._by_text(output_ids) or _in_output(output_ids, tail)
        # Where nothing matches, one token is taken to have been replaced.
        return ("guess", cursor.advance(1)) if resumed is None else ("loose", resumed)

    def _by_text(self, output_ids: Sequence[int]) -> Cursor | None:
        """Token boundaries shift around an edit: find the output's last characters in a source's text, tokenise the
        rest of that line anew, and go on with the source's own tokens at the next line."""
        written = self._decode(output_ids[-2 * MAX_MATCH :])
        for n_chars in TEXT_TAILS:
            tail = written[-n_chars:]
            if len(tail) < n_chars or not tail.strip():
                continue
            for source in self._sources.ordered:
                here = max(0, int(source.starts[min(source.position, len(source))]) - len(tail))
                at = source.text.find(tail, here)
                at = at if at >= 0 else source.text.find(tail)
                if at < 0:
                    continue
                end, line_end = at + len(tail), source.text.find("\n", at + len(tail))
                place, next_start = source.token_at(len(source.text) if line_end < 0 else line_end)
                prefix = tuple(self._encode(source.text[end:next_start])) if next_start > end else ()
                return Cursor(source, place, prefix, end)
        return None


def _best_match(source: Source, tail: Sequence[int]) -> Match:
    """The longest agreeing suffix of the output in a source, less the distance from where the source stands; score 0
    where none is long enough."""
    places = np.flatnonzero(source.ids == tail[-1])
    if not len(places):
        return Match(0.0, source, source.position)
    lengths, ends = agreement(source.ids, places, tail), places + 1
    from_position, from_earliest = ends - source.position, ends - source.earliest
    is_near = _is_near(from_position) | _is_near(from_earliest)
    distance = np.minimum(np.abs(from_position), np.abs(from_earliest))
    penalty = np.log2(1 + distance) / 2 + np.where(from_earliest < 0, BACKWARD_PENALTY, 0.0)
    scores = np.where((lengths >= MIN_MATCH) | is_near, np.maximum(lengths - penalty, 0.01 * lengths), 0.0)
    best = int(np.argmax(scores))
    return Match(float(scores[best]), source, int(ends[best]), int(lengths[best]))


def _is_near(distances: Positions) -> np.ndarray:
    return (distances >= 0) & (distances <= NEAR_TOKENS)


def _in_output(output_ids: Sequence[int], tail: Sequence[int]) -> Cursor | None:
    """Repetition: the output's suffix earlier in the output itself."""
    ids = np.asarray(output_ids, dtype=np.int64)
    places = np.flatnonzero(ids[:-1] == tail[-1])
    lengths = agreement(ids, places, tail)
    if not len(places) or lengths.max() < MIN_MATCH:
        return None
    end = int(places[lengths == lengths.max()][-1]) + 1
    return Cursor(Source("output", DraftSource("predicted", "", ids, np.zeros(len(ids) + 1, dtype=np.int64))), end)


class Original(CopyDrafter):
    """Plain speculative edits: the original file alone."""

    names = ("original",)


class OriginalSnippet(CopyDrafter):
    """The original and the update, without a predicted merge."""

    names = ("original", "update")


class MergedEdit(CopyDrafter):
    """The predicted merge, then the original, then the update: what this service is about."""

    names = ("predicted", "original", "update")

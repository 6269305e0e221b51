"""Drafts copied from what the output is expected to repeat: the predicted merge, the original, the update, the output
itself.

After a rejection the target has written a token that the draft did not foresee; the sources are then searched for the
longest suffix of the output, near where each source stands (docs: design of the realignment in docs/drafting.md).  A
drafter decides how fast the output comes, never what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from apply_service.drafting.acceptance import Acceptance, Counts
from apply_service.drafting.reindentation import Reindenter
from apply_service.drafting.suffix_match import MAX_MATCH, agreement
from apply_service.drafting.tracks import Course, Track, Tracks
from apply_service.protocols import EMPTY_DRAFT, Draft, DraftContext, DraftSource

MIN_MATCH = 3
"""Fewest agreeing tokens that are trusted anywhere; 3 took 2-4% fewer rejections than 2 where the merge was wrong
(docs/log.md)."""
NEAR_TOKENS = 16
"""A single agreeing token is trusted only this close after a source's pointer."""
BACKWARD_PENALTY = 3.0
"""Edits are monotone: going back in a source costs this much more."""
TEXT_TAILS = (64, 32, 16, 8)
"""Characters of output text to look for where no token suffix matches, longest first."""
SETTLED_TOKENS = 32
"""A course that has agreed for so long counts as followed, however it was found."""

LONG_MATCH = 8
"""Agreeing tokens from which on a match is a sure one."""

Found = Literal["start", "long", "short", "loose", "guess"]
"""How a course was found: it is the first one; by so many agreeing tokens; by one token near by, by text or by another
indentation; by nothing."""

PRIORS = {
    "followed predicted": Counts(2500.0, 0.5),
    "followed": Counts(400.0, 1.0),
    "long": Counts(50.0, 1.0),
    "short": Counts(20.0, 1.0),
    "loose": Counts(8.0, 1.0),
    "guess": Counts(0.5, 2.0),
}
"""By how the course was found, or that it has been followed for long; means measured on mined edits (docs/log.md)."""


class Candidate(NamedTuple):
    """A place to draft from, and how much speaks for it."""

    score: float
    track: Track
    place: int
    n_matched: int = 0


class CopyDrafter:
    """Drafts from `names` of the sources, in that order of preference, then from the output itself."""

    names: tuple[str, ...] = ()

    def __init__(self, context: DraftContext) -> None:
        self._sources = context.sources
        self._tracks = Tracks(context.sources, self.names)
        self._reindenter = Reindenter(context.sources, self._tracks)
        self._course = Course(self._tracks.ordered[0], 0)
        self._acceptance = Acceptance(PRIORS)
        self._found: Found = "start"
        self._n_agreed = 0
        self._n_seen = 0
        self._drafted: list[int] = []

    # -- the drafter's contract ----------------------------------------------------------------------------------------
    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        self._follow(output_ids)
        if limit <= 0:
            return EMPTY_DRAFT
        ids = self._drafted = self._course.take(limit)
        return Draft(ids, self._acceptance.expected(self._kind) if ids else 0.0, self._course.track.name)

    def observe(self, n_accepted: int, next_id: int) -> None:
        """Learns how drafts of this kind fare; where the output stands is seen at the next `propose`."""
        is_rejected = n_accepted < len(self._drafted) and self._drafted[n_accepted] != next_id
        self._acceptance.learn(self._kind, n_accepted=n_accepted, is_rejected=is_rejected)

    def close(self) -> None:
        """Holds nothing."""

    @property
    def _kind(self) -> str:
        if self._found != "start" and self._n_agreed < SETTLED_TOKENS:
            return self._found
        return "followed predicted" if self._course.track.name == "predicted" else "followed"

    # -- following -----------------------------------------------------------------------------------------------------
    def _follow(self, output_ids: Sequence[int]) -> None:
        """Go along with what the target wrote since the last time, whoever drafted it."""
        written = list(output_ids[self._n_seen :])
        self._n_seen = len(output_ids)
        expected = self._course.take(len(written))
        if expected == written:
            self._course = self._course.advance(len(written))
            self._n_agreed += len(written)
            return
        agreed = next((i for i, (a, b) in enumerate(zip(written, expected, strict=False)) if a != b), len(expected))
        self._course = self._realigned(self._course.advance(agreed), output_ids)

    # -- realigning ----------------------------------------------------------------------------------------------------
    def _realigned(self, course: Course, output_ids: Sequence[int]) -> Course:
        track = course.track
        if course.n_used < len(course.prefix):
            track.pointer, _ = track.token_at(course.source_char(self._sources.decode))
            track.mark = track.pointer
        self._tracks.carry_from(track)
        tail = list(output_ids[-MAX_MATCH:])
        resumed = self._reindenter.resume(course, tail)
        if resumed is not None and track.name == "predicted":
            return self._taken("loose", resumed)
        best = max((_best_match(track, tail) for track in self._tracks.ordered), key=lambda found: found.score)
        if best.score > 0:
            how: Found = "loose" if best.n_matched < 2 else "short" if best.n_matched < LONG_MATCH else "long"
            return self._taken(how, Course(best.track, best.place))
        found = resumed or self._by_text(output_ids) or _in_output(output_ids, tail)
        return self._taken("guess", _replaced(course)) if found is None else self._taken("loose", found)

    def _taken(self, found: Found, course: Course) -> Course:
        self._found, self._n_agreed = found, 0
        return course

    def _by_text(self, output_ids: Sequence[int]) -> Course | None:
        """Token boundaries shift around an edit: find the output's last characters in a source's text, tokenise the
        rest of that line anew, and go on with the source's own tokens at the next line."""
        written = self._sources.decode(output_ids[-2 * MAX_MATCH :])
        for n_chars in TEXT_TAILS:
            tail = written[-n_chars:]
            if len(tail) < n_chars or not tail.strip():
                continue
            for track in self._tracks.ordered:
                found = self._find_text(track, tail)
                if found is not None:
                    return found
        return None

    def _find_text(self, track: Track, tail: str) -> Course | None:
        text, starts = track.source.text, track.source.starts
        here = max(0, int(starts[min(track.pointer, len(track))]) - len(tail))
        at = text.find(tail, here)
        at = at if at >= 0 else text.find(tail)
        if at < 0:
            return None
        end = at + len(tail)
        line_end = text.find("\n", end)
        line_end = len(text) if line_end < 0 else line_end
        place, next_start = track.token_at(line_end)
        prefix = tuple(self._sources.encode(text[end:next_start])) if next_start > end else ()
        return Course(track, place, prefix, end)


def _best_match(track: Track, tail: Sequence[int]) -> Candidate:
    """The longest agreeing suffix of the output in a source, less the distance from where the source stands; score 0
    where none is long enough."""
    ends, lengths = track.index.matches(tail)
    if not len(ends):
        return Candidate(0.0, track, track.pointer)
    from_pointer, from_mark = ends - track.pointer, ends - track.mark
    is_near = ((from_pointer >= 0) & (from_pointer <= NEAR_TOKENS)) | ((from_mark >= 0) & (from_mark <= NEAR_TOKENS))
    distance = np.minimum(np.abs(from_pointer), np.abs(from_mark))
    penalty = np.log2(1 + distance) / 2 + np.where(from_mark < 0, BACKWARD_PENALTY, 0.0)
    scores = np.where((lengths >= MIN_MATCH) | is_near, np.maximum(lengths - penalty, 0.01 * lengths), 0.0)
    best = int(np.argmax(scores))
    return Candidate(float(scores[best]), track, int(ends[best]), int(lengths[best]))


def _in_output(output_ids: Sequence[int], tail: Sequence[int]) -> Course | None:
    """Repetition: the output's suffix earlier in the output itself."""
    ids = np.asarray(output_ids, dtype=np.int64)
    places = np.flatnonzero(ids[:-1] == tail[-1])
    lengths = agreement(ids, places, tail)
    if not len(places) or lengths.max() < MIN_MATCH:
        return None
    end = int(places[lengths == lengths.max()][-1]) + 1
    return Course(Track("output", DraftSource("predicted", "", ids, np.zeros(len(ids) + 1, dtype=np.int64))), end)


def _replaced(course: Course) -> Course:
    """Nothing matches: take it that one token was replaced, and go on after it."""
    return course.advance(1)


class Original(CopyDrafter):
    """Plain speculative edits: the original file alone."""

    names = ("original",)


class OriginalSnippet(CopyDrafter):
    """The original and the update, without a predicted merge."""

    names = ("original", "update")


class MergedEdit(CopyDrafter):
    """The predicted merge, then the original, then the update: what this service is about."""

    names = ("predicted", "original", "update")

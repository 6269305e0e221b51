"""Drafts copied from what the output is expected to repeat: the predicted merge, the original, the update, the output
itself.

After a rejection the target has written a token that the draft did not foresee; the sources are then searched for the
longest suffix of the output, near where each source stands (docs: design of the realignment in docs/drafting.md).  A
drafter decides how fast the output comes, never what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from apply_service.drafting.suffix_match import MAX_MATCH, SuffixIndex
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


class Track:
    """One source and where the output stands in it."""

    def __init__(self, source: DraftSource) -> None:
        self.source = source
        self.name = source.name
        self.index = SuffixIndex(source.ids)
        self.pointer = 0

    def __len__(self) -> int:
        return len(self.source.ids)


class Target(NamedTuple):
    """A place to draft from: `prefix` tokens, then `track` from `pointer` on."""

    score: float
    track: Track
    pointer: int
    prefix: tuple[int, ...] = ()


class CopyDrafter:
    """Drafts from `names` of the sources, in that order of preference, then from the output itself."""

    names: tuple[str, ...] = ()

    def __init__(self, context: DraftContext) -> None:
        sources = self._sources = context.sources
        by_name = {s.name: s for s in (sources.predicted, sources.original, sources.update)}
        self._tracks = [Track(by_name[name]) for name in self.names]  # type: ignore[index]
        self._by_name = {track.name: track for track in self._tracks}
        self._at = Target(0.0, self._tracks[0], 0)
        self._drafted: list[int] = []
        self._is_lost = False

    # -- the drafter's contract ----------------------------------------------------------------------------------------
    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        if self._is_lost and output_ids:
            self._at = self._realigned(output_ids)
        self._is_lost = False
        if limit <= 0:
            self._drafted = []
            return EMPTY_DRAFT
        _, track, pointer, prefix = self._at
        room = max(0, limit - len(prefix))
        self._drafted = [*prefix, *track.source.ids[pointer : pointer + room].tolist()][:limit]
        return Draft(self._drafted, 0.9 if self._drafted else 0.0, track.name)

    def observe(self, n_accepted: int, next_id: int) -> None:
        expected = self._expected(n_accepted)
        self._advance(n_accepted)
        if expected == next_id:
            self._advance(1)
        else:
            self._is_lost = True

    def close(self) -> None:
        """Holds nothing."""

    # -- following -----------------------------------------------------------------------------------------------------
    def _expected(self, n_accepted: int) -> int | None:
        """What the draft's source has at the place of the target's own token."""
        if n_accepted < len(self._drafted):
            return self._drafted[n_accepted]
        _, track, pointer, prefix = self._at
        place = pointer + n_accepted - len(prefix)
        return int(track.source.ids[place]) if 0 <= place < len(track) else None

    def _advance(self, n_tokens: int) -> None:
        score, track, pointer, prefix = self._at
        from_prefix = min(n_tokens, len(prefix))
        pointer = min(len(track), pointer + n_tokens - from_prefix)
        self._at = Target(score, track, pointer, prefix[from_prefix:])
        track.pointer = pointer
        self._carry_pointers(track)

    def _carry_pointers(self, track: Track) -> None:
        """Move the other sources' pointers along the alignment of the predicted merge."""
        predicted = self._by_name.get("predicted")
        if predicted is None:
            return
        maps = {"original": self._sources.predicted_to_original, "update": self._sources.predicted_to_update}
        if track is predicted:
            for name, positions in maps.items():
                if name in self._by_name:
                    self._by_name[name].pointer = int(positions[track.pointer])
        elif track.name in maps:
            predicted.pointer = int(np.searchsorted(maps[track.name], track.pointer))

    # -- realigning ----------------------------------------------------------------------------------------------------
    def _realigned(self, output_ids: Sequence[int]) -> Target:
        tail = list(output_ids[-MAX_MATCH:])
        best = max((self._best_match(track, tail) for track in self._tracks), key=lambda t: t.score)
        if best.score > 0:
            return best
        return self._by_text(output_ids) or self._in_output(output_ids, tail) or self._replaced()

    def _best_match(self, track: Track, tail: Sequence[int]) -> Target:
        """The longest agreeing suffix of the output in a source, less the distance from its pointer; score 0 where
        none is long enough."""
        ends, lengths = track.index.matches(tail)
        if not len(ends):
            return Target(0.0, track, track.pointer)
        distance = ends - track.pointer
        is_near = (distance >= 0) & (distance <= NEAR_TOKENS)
        penalty = np.log2(1 + np.abs(distance)) / 2 + np.where(distance < 0, BACKWARD_PENALTY, 0.0)
        scores = np.where((lengths >= MIN_MATCH) | is_near, np.maximum(lengths - penalty, 0.01 * lengths), 0.0)
        best = int(np.argmax(scores))
        return Target(float(scores[best]), track, int(ends[best]))

    def _by_text(self, output_ids: Sequence[int]) -> Target | None:
        """Token boundaries shift around an edit: find the output's last characters in a source's text, tokenise the
        rest of that line anew, and go on with the source's own tokens at the next line."""
        written = self._sources.decode(output_ids[-MAX_MATCH:])
        for n_chars in TEXT_TAILS:
            tail = written[-n_chars:]
            if len(tail) < n_chars or not tail.strip():
                continue
            for track in self._tracks:
                found = self._find_text(track, tail)
                if found is not None:
                    return found
        return None

    def _find_text(self, track: Track, tail: str) -> Target | None:
        text, starts = track.source.text, track.source.starts
        here = max(0, int(starts[min(track.pointer, len(track))]) - len(tail))
        at = text.find(tail, here)
        at = at if at >= 0 else text.find(tail)
        if at < 0:
            return None
        end = at + len(tail)
        line_end = text.find("\n", end)
        line_end = len(text) if line_end < 0 else line_end
        prefix = tuple(self._sources.encode(text[end:line_end])) if line_end > end else ()
        return Target(0.0, track, int(np.searchsorted(starts[:-1], line_end)), prefix)

    def _in_output(self, output_ids: Sequence[int], tail: Sequence[int]) -> Target | None:
        """Repetition: the output's suffix earlier in the output itself."""
        ids = np.asarray(output_ids, dtype=np.int64)
        ends, lengths = SuffixIndex(ids[:-1]).matches(tail)
        if not len(ends) or lengths.max() < MIN_MATCH:
            return None
        end = int(ends[len(ends) - 1 - int(np.argmax(lengths[::-1]))])
        source = DraftSource("predicted", "", ids, np.zeros(len(ids) + 1, dtype=np.int64))
        track = Track(source)
        track.name = "output"  # type: ignore[assignment]
        return Target(0.0, track, end)

    def _replaced(self) -> Target:
        """Nothing matches: take it that one token was replaced, and go on after it."""
        _, track, pointer, prefix = self._at
        if prefix:
            return Target(0.0, track, pointer, prefix[1:])
        return Target(0.0, track, min(len(track), pointer + 1))


class Original(CopyDrafter):
    """Plain speculative edits: the original file alone."""

    names = ("original",)


class OriginalSnippet(CopyDrafter):
    """The original and the update, without a predicted merge."""

    names = ("original", "update")


class MergedEdit(CopyDrafter):
    """The predicted merge, then the original, then the update: what this service is about."""

    names = ("predicted", "original", "update")

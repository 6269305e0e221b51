"""Scores known texts: finds the probability that the target (the model) gives each token at which free decoding would
have had a choice.

Nothing is drafted and nothing is chosen.  The candidate merges of one edit are scored one after the other in the same
session.  Each text is read only from the token at which it differs from the text before, so the prompt and a common
beginning are read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from apply_service.decoding.verify import Decoding, Step
from apply_service.protocols import Constraint, Draft, StopFinder, Verification, Window
from apply_service.types import DecodeStats, FinishReason, PassCount


@dataclass(slots=True, eq=False)
class KnownText:
    """A text to be scored.

    `ids`: its tokens, with the end.  `decisions[i]`: whether the target would have had a choice at token i.
    `is_allowed`: whether the constraint allows the text.  `logprobs`: the target's log probabilities before any mask; a
    value is 0 if the target was not asked.  `logprobs` is None if the engine reports none.
    """

    ids: Sequence[int]
    decisions: Sequence[bool]
    is_allowed: bool
    logprobs: list[float] | None = field(default_factory=list)

    @classmethod
    def of(
        cls, ids: Sequence[int], rules: Constraint | None, stop_ids: frozenset[int], find_stop: StopFinder | None
    ) -> KnownText | None:
        """Return the text up to its end; None if `ids` have no end.  `rules`: the constraint that free decoding would
        obey."""
        end = next((i for i, token in enumerate(ids) if token in stop_ids), None)
        if find_stop is not None and (found := find_stop(ids if end is None else ids[: end + 1])) is not None:
            end = found
        if end is None:
            return None
        ids = ids[: end + 1]
        if rules is None:
            return cls(ids, [True] * len(ids), is_allowed=True)
        masks = rules.masks([], ids[:-1])
        is_allowed = all(mask is None or token in mask for token, mask in zip(ids, masks, strict=True))
        return cls(ids, [mask is None or len(mask) > 1 for mask in masks], is_allowed)


@dataclass(slots=True, eq=False)
class Scored(Decoding):
    """Several known texts after one prompt, scored one after the other.  `counted` holds the counts of each finished
    text.  For all texts but the first, the prompt counts as cached."""

    texts: Sequence[KnownText] = ()
    counted: list[DecodeStats] = field(default_factory=list)

    @property
    def text(self) -> KnownText:
        """The text that is being scored now."""
        return self.texts[len(self.counted)]

    def propose(self) -> Draft:
        """Return the rest of the text as a draft, without its last token and cut to what a pass can verify."""
        at = len(self.output_ids)
        self._draft = Draft(self.text.ids[at : len(self.text.ids) - 1][: self.engine.max_draft], 1.0, "predicted")
        return self._draft

    def window(self, n_drafted: int) -> Window:
        """Return a window with the next tokens of the text.  The target is asked only at tokens where it would have had
        a choice."""
        assert self.session is not None
        rows = slice(len(self.output_ids), len(self.output_ids) + n_drafted + 1)
        ids = self.text.ids[rows]
        last_id = self.output_ids[-1] if self.output_ids else self.prompt_ids[-1]
        forced = list(np.array(ids, np.int64).reshape(-1, 1))
        return Window(self.session, last_id, ids[:-1], self.sampling, forced, self.text.decisions[rows])

    def commit(self, verification: Verification, seconds: float) -> Step:
        """Keep the target's log probabilities.  After the end of a text, rewind to the token at which the next text
        differs."""
        assert self.session is not None
        ids, text, stats = list(verification.choices), self.text, self.stats
        self.output_ids += ids
        if verification.logprobs is None or text.logprobs is None:
            text.logprobs = None
        else:
            text.logprobs += verification.logprobs
        stats.passes += 1
        stats.decode_s += seconds
        stats.completion_tokens = len(text.ids)
        stats.drafted_tokens += verification.n_accepted
        stats.accepted_tokens += verification.n_accepted
        stats.pass_counts.append(PassCount(len(ids), verification.n_accepted, verification.n_accepted, "predicted"))
        stats.accepted_by_source = {"predicted": stats.accepted_tokens}
        if len(self.output_ids) == len(text.ids):
            self.counted.append(stats)
            if len(self.counted) == len(self.texts):
                self.finish_reason = FinishReason.STOP
            else:
                n_prompt = len(self.prompt_ids)
                self.stats = DecodeStats(prompt_tokens=n_prompt, cached_prompt_tokens=n_prompt - 1)
                following = self.text.ids
                pairs = enumerate(zip(text.ids, following, strict=False))
                n_shared = min(next((i for i, (a, b) in pairs if a != b), len(text.ids)), len(following) - 1)
                self.output_ids = list(text.ids[:n_shared])
                self.text.logprobs = None if text.logprobs is None else text.logprobs[:n_shared]
                self.session.rewind(self.session.length - (n_prompt - 1 + n_shared))
        return Step(ids, None, [])

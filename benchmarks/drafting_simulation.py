"""An ideal target, which writes a known answer: what a drafter would take to draft it, without a model.

`drive` is the decoding loop with the forward left out; its time is the drafter's alone, in processor time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from apply_service.protocols import Drafter

WINDOW = 255


class Pass(NamedTuple):
    """One draft and what became of it; `seconds` is the drafter's time for it."""

    n_drafted: int
    n_accepted: int
    is_rejected: bool
    expected_acceptance: float
    source: str
    seconds: float


@dataclass(slots=True)
class Run:
    """A whole output."""

    n_tokens: int
    set_up_s: float
    passes: list[Pass] = field(default_factory=list)

    @property
    def n_rejections(self) -> int:
        return sum(one.is_rejected for one in self.passes)

    @property
    def n_rejections_in_a_row(self) -> int:
        """Rejections in the pass right after another one: what several guesses at a time could spare at most."""
        pairs = zip(self.passes, self.passes[1:], strict=False)
        return sum(before.is_rejected and after.is_rejected for before, after in pairs)

    @property
    def n_drafted(self) -> int:
        return sum(one.n_drafted for one in self.passes)

    @property
    def n_accepted(self) -> int:
        return sum(one.n_accepted for one in self.passes)

    @property
    def draft_s(self) -> float:
        """The drafter's time, set-up included."""
        return self.set_up_s + sum(one.seconds for one in self.passes)


def drive(make: Callable[[], Drafter], answer: Sequence[int], *, window: int = WINDOW) -> Run:
    """Write `answer`, whose last id ends it, with the drafts of a fresh drafter."""
    started = time.thread_time()
    drafter = make()
    run = Run(len(answer), time.thread_time() - started)
    output: list[int] = []
    while len(output) < len(answer):
        started = time.thread_time()
        draft = drafter.propose(output, window)
        seconds = time.thread_time() - started
        wanted = list(answer[len(output) : len(output) + len(draft.token_ids) + 1])
        pairs = enumerate(zip(draft.token_ids, wanted, strict=False))
        n_accepted = next((i for i, (a, b) in pairs if a != b), min(len(wanted), len(draft.token_ids)))
        is_ended = n_accepted == len(wanted)
        output += wanted[: n_accepted + 1]
        if not is_ended:
            started = time.thread_time()
            drafter.observe(n_accepted, wanted[n_accepted])
            seconds += time.thread_time() - started
        n_drafted = n_accepted if is_ended else len(draft.token_ids)
        is_rejected = n_accepted < n_drafted
        run.passes.append(Pass(n_drafted, n_accepted, is_rejected, draft.expected_acceptance, draft.source, seconds))
    drafter.close()
    return run

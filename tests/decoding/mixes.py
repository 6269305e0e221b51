"""Random mixes of sequences on one engine: the same asks decoded alone without a draft, and together, joining and
leaving at random passes, with any drafter, constraint and temperature."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from apply_service.decoding.scheduler import Scheduler
from apply_service.decoding.verify import Decoding
from apply_service.drafting.drafter import NoDraft, drafter_names, open_drafter
from apply_service.errors import Cancelled
from apply_service.protocols import (
    Constraint,
    Draft,
    DraftEngine,
    Drafter,
    Engine,
    SamplingParams,
    TokenIds,
    TokenSet,
)
from tests.adversarial import AlwaysWrong, RandomDraft
from tests.decoding.alone import decode_alone
from tests.decoding.test_parity import context
from tests.fake_engine import FakeEngine, hashed

MAX_PASSES = 20_000
DRAFTERS = ("random", "always_wrong", "failing", *drafter_names(has_draft_model=True))


@dataclass(frozen=True)
class Ask:
    """One sequence: what is decoded, and how it comes and goes.  `leaves_after` passes it is cancelled."""

    prompt_ids: tuple[int, ...]
    limit: int
    sampling: SamplingParams
    constraint: Callable[[], Constraint] | None
    owner: str
    drafter: str
    joins_after: int
    leaves_after: int | None


@dataclass
class Outcome:
    """What became of an ask."""

    output_ids: list[int]
    error: BaseException | None
    n_cached: int


class Failed(Exception):
    """What the drafter `failing` raises."""


class Failing(NoDraft):
    """Drafts a few times, then breaks."""

    def __init__(self, n_drafts: int) -> None:
        self._n_left = n_drafts

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        self._n_left -= 1
        if self._n_left < 0:
            raise Failed
        return Draft([0] * min(limit, 3), 0.5)


@dataclass
class Following:
    """A deterministic mask: `n_allowed` tokens that depend on the token before; sees to it that output only grows."""

    n_vocab: int
    n_allowed: int
    last_prompt_id: int
    every: int = 1
    _seen: list[int] = field(default_factory=list)

    def masks(self, output_ids: Sequence[int], draft_ids: Sequence[int]) -> Sequence[TokenSet | None]:
        assert list(output_ids[: len(self._seen)]) == self._seen
        self._seen = list(output_ids)
        before = [output_ids[-1] if output_ids else self.last_prompt_id, *draft_ids]
        return [self._after(len(output_ids) + i, token) for i, token in enumerate(before)]

    def _after(self, n_out: int, token: int) -> TokenIds | None:
        if n_out % self.every:
            return None
        start = np.arange(self.n_allowed, dtype=np.int64) * 7 + token * 3 + 1
        return np.unique(start % self.n_vocab)


def random_asks(rng: random.Random, n_asks: int, *, n_vocab: int, longest: int, limit: int) -> list[Ask]:
    """Prompts share beginnings, so that a prefix cache has something to find."""
    stem = tuple(rng.randrange(n_vocab) for _ in range(longest))
    return [_random_ask(rng, stem, n_vocab, limit) for _ in range(n_asks)]


def _random_ask(rng: random.Random, stem: tuple[int, ...], n_vocab: int, limit: int) -> Ask:
    n_shared = rng.randint(0, len(stem))
    own = tuple(rng.randrange(n_vocab) for _ in range(rng.randint(1, 12)))
    prompt = stem[:n_shared] + own
    constraint = None
    if rng.random() < 0.4:
        size, every = rng.choice([1, 2, 5, n_vocab]), rng.choice([1, 1, 2, 3])
        constraint = lambda: Following(n_vocab, size, prompt[-1], every)  # noqa: E731
    return Ask(
        prompt_ids=prompt,
        limit=rng.randint(1, limit),
        sampling=SamplingParams(rng.choice([0.0, 0.0, 0.7, 1.5]), rng.randrange(2**32)),
        constraint=constraint,
        owner=rng.choice(["me", "me", "you"]),
        drafter=rng.choice(DRAFTERS),
        joins_after=rng.choice([0, 0, rng.randint(0, 30)]),
        leaves_after=rng.choice([None, None, None, rng.randint(0, 20)]),
    )


def undrafted(engine: Engine, ask: Ask, stop_ids: frozenset[int]) -> list[int]:
    """The oracle: alone, without a draft."""
    decoding = open_ask(engine, replace(ask, owner="oracle"), NoDraft(), stop_ids)
    for _ in decode_alone(decoding):
        pass
    return decoding.output_ids


def open_ask(engine: Engine, ask: Ask, drafter: Drafter, stop_ids: frozenset[int]) -> Decoding:
    """An ask ready to be decoded."""
    return Decoding(
        engine,
        list(ask.prompt_ids),
        drafter,
        ask.limit,
        stop_ids,
        ask.sampling,
        None if ask.constraint is None else ask.constraint(),
        owner=ask.owner,
    )


class Mix:
    """Asks decoded together; `answers[i]` is what ask i gives alone, for drafters that know something of it."""

    def __init__(
        self, engine: Engine, asks: Sequence[Ask], answers: Sequence[Sequence[int]], *, n_vocab: int, seed: int
    ) -> None:
        self.engine = engine
        self.asks = asks
        self._answers = answers
        self._n_vocab = n_vocab
        self._rng = random.Random(seed)
        self.draft_engine = FakeEngine(hashed(n_vocab, order=1), max_draft=15, max_open=2)

    def run(self, stop_ids: frozenset[int]) -> list[Outcome]:
        """Pass after pass until every ask has ended in one way or the other."""
        scheduler, outcomes = Scheduler(), dict[int, Outcome]()
        running: dict[int, tuple[Decoding, int]] = {}
        for n_pass in range(MAX_PASSES):
            for i in self._joining(n_pass, running, outcomes):
                drafter = self._drafter(self.asks[i], self._answers[i])
                running[i] = open_ask(self.engine, self.asks[i], drafter, stop_ids), n_pass
            for i, (decoding, joined) in running.items():
                leaves = self.asks[i].leaves_after
                if leaves is not None and n_pass - joined >= leaves:
                    decoding.deadline.cancel()
            found = scheduler.run_pass([decoding for decoding, _ in running.values()])
            for (i, (decoding, _)), outcome in zip(list(running.items()), found, strict=True):
                error = outcome if isinstance(outcome, BaseException) else None
                if decoding.finish_reason is not None or error is not None:
                    outcomes[i] = Outcome(decoding.output_ids, error, decoding.stats.cached_prompt_tokens)
                    del running[i]
            if len(outcomes) == len(self.asks):
                return [outcomes[i] for i in range(len(self.asks))]
        raise AssertionError("nothing happens any more")

    def _joining(
        self, n_pass: int, running: dict[int, tuple[Decoding, int]], ended: dict[int, Outcome]
    ) -> Iterator[int]:
        for i, ask in enumerate(self.asks):
            if ask.joins_after <= n_pass and i not in running and i not in ended:
                yield i

    def _drafter(self, ask: Ask, answer: Sequence[int]) -> Drafter:
        return make_drafter(ask, answer, self._rng, self._n_vocab, self.draft_engine)


def make_drafter(ask: Ask, answer: Sequence[int], rng: random.Random, n_vocab: int, draft_engine: Engine) -> Drafter:
    """The drafter that an ask names; `answer` is what it may know something of."""
    if ask.drafter == "random":
        return RandomDraft(n_vocab, seed=rng.randrange(2**32), answer=answer)
    if ask.drafter == "always_wrong":
        return AlwaysWrong(answer, n_vocab)
    if ask.drafter == "failing":
        return Failing(rng.randrange(5))
    sources = [corrupted(answer, rng, n_vocab) for _ in range(3)]
    with_model = replace(
        context(*sources),
        prompt_ids=ask.prompt_ids,
        max_new_tokens=ask.limit,
        open_draft_engine=lambda: DraftEngine(draft_engine, n_vocab),
    )
    return open_drafter(ask.drafter, with_model)


def corrupted(ids: Sequence[int], rng: random.Random, n_vocab: int) -> list[int]:
    """The ids with some cut, some changed, some doubled."""
    out: list[int] = []
    for token in ids:
        draw = rng.random()
        out += [] if draw < 0.1 else [rng.randrange(n_vocab)] if draw < 0.2 else [token] * (1 + (draw < 0.25))
    return out or [0]


def check(mix: Mix, answers: Sequence[Sequence[int]], stop_ids: frozenset[int], *, seed: int) -> list[Outcome]:
    """Run a mix: each ask gives what it gives alone, or, where it leaves or breaks, a beginning of it."""
    outcomes = mix.run(stop_ids)
    for i, (ask, outcome, answer) in enumerate(zip(mix.asks, outcomes, answers, strict=True)):
        where = f"seed {seed}, ask {i}: {ask}"
        if outcome.error is None:
            assert outcome.output_ids == list(answer), where
        else:
            expected = Failed if ask.drafter == "failing" else Cancelled
            assert isinstance(outcome.error, (expected, Cancelled)), where
            assert ask.leaves_after is not None or expected is Failed, where
            assert outcome.output_ids == list(answer)[: len(outcome.output_ids)], where
    assert mix.draft_engine.n_open == 0
    return outcomes

"""The lossless law on a target without a network: every drafter gives what no drafter gives.

The fake target's logits depend on the last tokens only, so every branch (full acceptance, full rejection, end token
inside a draft, limit inside a draft, empty drafts, ties) comes up in milliseconds.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apply_service.deadline import Deadline
from apply_service.decoding.verify import Decoding
from apply_service.drafting.copy import MergedEdit, Original, OriginalSnippet
from apply_service.drafting.drafter import NoDraft, drafter_names, open_drafter
from apply_service.errors import Cancelled, ContextLimitExceeded, DeadlineExceeded
from apply_service.prompts.tokenizer import ContentTokenizer, Encoded
from apply_service.protocols import (
    DraftContext,
    DraftEngine,
    Drafter,
    DraftSource,
    DraftSources,
    SamplingParams,
    TokenIds,
    TokenSet,
)
from apply_service.types import FinishReason
from tests.adversarial import AlwaysWrong, RandomDraft
from tests.decoding.alone import decode_alone
from tests.doubles import CancelledWhen
from tests.engine.tiny_models import tiny_tokenizer
from tests.fake_engine import FakeEngine, ScriptedEngine, hashed, scripted
from tests.plain_bytes import END, N_VOCAB, decode_bytes, encode_bytes

STOP = 7
VOCAB = 13


def context(predicted: Sequence[int], original: Sequence[int], update: Sequence[int]) -> DraftContext:
    def source(name: str, ids: Sequence[int]) -> DraftSource:
        return DraftSource(name, "", np.array(ids, np.int64), np.zeros(len(ids) + 1, np.int64))  # type: ignore[arg-type]

    zeros = np.zeros(len(predicted) + 1, np.int64)
    sources = DraftSources(
        predicted=source("predicted", predicted),
        original=source("original", original),
        update=source("update", update),
        predicted_to_original=np.minimum(np.arange(len(predicted) + 1), len(original)),
        predicted_to_update=zeros,
        encode=lambda text: [],
        decode=lambda ids: "",
    )
    return DraftContext(sources, [1, 2, 3])


def decode(drafter: Drafter, *, limit: int = 60, sampling: SamplingParams | None = None, **kwargs: object) -> Decoding:
    engine = FakeEngine(hashed(VOCAB, n_levels=kwargs.pop("n_levels", None)), max_draft=int(kwargs.pop("window", 8)))  # type: ignore[arg-type, call-overload]
    decoding = Decoding(
        engine=engine,
        prompt_ids=[1, 2, 3],
        drafter=drafter,
        max_new_tokens=limit,
        stop_ids=frozenset({STOP}),
        sampling=sampling or SamplingParams(),
        **kwargs,  # type: ignore[arg-type]
    )
    for _ in decode_alone(decoding):
        pass
    assert engine.n_open == 0
    return decoding


def corrupted(ids: Sequence[int], rng: random.Random) -> list[int]:
    """The ids with some cut, some changed, some doubled: what a draft source looks like when it is not quite right."""
    out: list[int] = []
    for token in ids:
        draw = rng.random()
        out += (
            [] if draw < 0.1 else [rng.randrange(VOCAB)] if draw < 0.2 else [token, token] if draw < 0.25 else [token]
        )
    return out or [0]


@settings(max_examples=150, deadline=None, print_blob=True)
@given(
    seed=st.integers(0, 2**32),
    window=st.integers(1, 40),
    limit=st.integers(1, 80),
    temperature=st.sampled_from([0.0, 0.7, 1.5]),
    n_levels=st.sampled_from([None, 2]),
)
def test_every_drafter_gives_the_undrafted_output(
    seed: int, window: int, limit: int, temperature: float, n_levels: int | None
) -> None:
    rng = random.Random(seed)
    sampling = SamplingParams(temperature, seed)
    plain = decode(NoDraft(), limit=limit, sampling=sampling, n_levels=n_levels)
    answer = plain.output_ids
    mixed = context(corrupted(answer, rng), corrupted(answer, rng), corrupted(answer[::2], rng))
    drafters: list[Drafter] = [
        RandomDraft(VOCAB, seed=seed, answer=answer),
        AlwaysWrong(answer, VOCAB),
        MergedEdit(context(answer, answer, answer)),
    ]
    draft_engine = FakeEngine(hashed(VOCAB, n_levels=3), max_draft=rng.choice([0, 3, 16]))
    with_model = replace(mixed, open_draft_engine=lambda: DraftEngine(draft_engine, VOCAB), max_new_tokens=limit)
    names = rng.sample([*drafter_names(has_draft_model=True)], 12)
    drafters += [open_drafter(name, with_model) for name in names]
    for drafter in drafters:
        drafted = decode(drafter, limit=limit, sampling=sampling, window=window, n_levels=n_levels)
        assert drafted.output_ids == answer, f"{type(drafter).__name__} seed={seed}"
        assert drafted.finish_reason == plain.finish_reason
        stats = drafted.stats
        assert stats.passes <= plain.stats.passes
        assert len(answer) - stats.passes <= stats.accepted_tokens <= len(answer) - stats.passes + 1
        assert stats.accepted_tokens <= stats.drafted_tokens
        assert sum(stats.accepted_by_source.values()) == stats.accepted_tokens
    assert draft_engine.n_open == 0


def test_a_right_draft_is_accepted_whole() -> None:
    answer = [int(i) for i in np.random.default_rng(5).choice([i for i in range(VOCAB) if i != STOP], 50)]
    engine = FakeEngine(scripted(3, answer, VOCAB), max_draft=16)
    drafter = MergedEdit(context(answer, [0], [0]))
    decoding = Decoding(engine, [1, 2, 3], drafter, len(answer), frozenset({STOP}))
    sizes = [len(step.ids) for step in decode_alone(decoding)]
    assert sizes == [15, 17, 17, 1]  # the first window shares its pass with the prompt
    assert (decoding.stats.rejections, decoding.stats.accepted_tokens) == (0, 46)
    assert decoding.stats.accepted_by_source == {"predicted": 46}


def test_always_wrong_accepts_nothing() -> None:
    answer = decode(NoDraft(), limit=40).output_ids
    drafted = decode(AlwaysWrong(answer, VOCAB), limit=40)
    assert drafted.stats.accepted_tokens == 0
    assert drafted.stats.passes == len(answer)


def test_the_end_token_inside_a_draft_ends_the_output() -> None:
    answer = [5, 6, STOP, 9, 9, 9]
    decoding = Decoding(
        engine=FakeEngine(scripted(2, answer, VOCAB), max_draft=8),
        prompt_ids=[1, 2],
        drafter=RandomDraftExactly(answer),
        max_new_tokens=50,
        stop_ids=frozenset({STOP}),
    )
    steps = list(decode_alone(decoding))
    assert [step.ids for step in steps] == [[5, 6, STOP]]
    assert (decoding.stats.drafted_tokens, decoding.stats.accepted_tokens, decoding.stats.rejections) == (3, 3, 0)
    assert decoding.finish_reason is FinishReason.STOP


def test_the_limit_inside_a_draft_is_kept_exactly() -> None:
    answer = [5] * 30
    for limit in range(1, 20):
        decoding = Decoding(
            engine=FakeEngine(scripted(2, answer, VOCAB), max_draft=8),
            prompt_ids=[1, 2],
            drafter=RandomDraftExactly(answer),
            max_new_tokens=limit,
            stop_ids=frozenset({STOP}),
        )
        assert sum(len(step.ids) for step in decode_alone(decoding)) == limit
        assert decoding.finish_reason is FinishReason.LENGTH


class RandomDraftExactly(RandomDraft):
    """Drafts the right answer, always in full."""

    def __init__(self, answer: Sequence[int]) -> None:
        super().__init__(VOCAB, answer=answer)

    def propose(self, output_ids: Sequence[int], limit: int):  # type: ignore[no-untyped-def]
        from apply_service.protocols import Draft

        return Draft(self._answer[len(output_ids) : len(output_ids) + limit], 1.0, "exact")


class OnlyEven:
    """A constraint of one line: even tokens, or the stop token."""

    def masks(self, output_ids: Sequence[int], draft_ids: Sequence[int]) -> list[TokenSet | None]:
        return [np.array([0, 2, 4, STOP, 8, 10, 12], np.int64)] * (len(draft_ids) + 1)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_constraint_holds_and_keeps_the_law(temperature: float) -> None:
    sampling = SamplingParams(temperature, 3)
    plain = decode(NoDraft(), sampling=sampling, constraint=OnlyEven())
    drafted = decode(
        RandomDraft(VOCAB, seed=1, answer=plain.output_ids), sampling=sampling, constraint=OnlyEven(), window=5
    )
    assert drafted.output_ids == plain.output_ids
    assert all(token % 2 == 0 or token == STOP for token in plain.output_ids)


def test_cancelling_stops_within_a_pass_and_frees_the_session() -> None:
    engine = FakeEngine(scripted(1, [5] * 100, VOCAB))
    asked = iter([False, False, True])
    decoding = Decoding(engine, [1], NoDraft(), 100, frozenset({STOP}), deadline=CancelledWhen(lambda: next(asked)))
    with pytest.raises(Cancelled):
        list(decode_alone(decoding))
    assert (engine.n_steps, engine.n_open) == (2, 0)


def test_a_passed_deadline_is_its_own_error() -> None:
    engine = FakeEngine(scripted(1, [5] * 100, VOCAB))
    with pytest.raises(DeadlineExceeded):
        list(decode_alone(Decoding(engine, [1], NoDraft(), 100, frozenset({STOP}), deadline=Deadline(0.0))))
    assert engine.n_open == 0


def test_closing_the_generator_frees_the_session() -> None:
    engine = FakeEngine(scripted(1, [5] * 100, VOCAB))
    steps = decode_alone(Decoding(engine, [1], NoDraft(), 100, frozenset({STOP})))
    next(steps)
    assert engine.n_open == 1
    steps.close()
    assert engine.n_open == 0


def test_a_failing_pass_frees_the_session() -> None:
    class Broken(FakeEngine):
        def step(self, windows):  # type: ignore[no-untyped-def]
            raise RuntimeError("device lost")

    engine = Broken(scripted(1, [5], VOCAB))
    with pytest.raises(RuntimeError, match="device lost"):
        list(decode_alone(Decoding(engine, [1], NoDraft(), 10, frozenset({STOP}))))
    assert engine.n_open == 0


class Closing(NoDraft):
    """Counts how often it is closed."""

    n_closed = 0

    def close(self) -> None:
        self.n_closed += 1


@pytest.mark.parametrize("way_out", ["to the end", "closed early", "cancelled", "not admitted"])
def test_the_drafter_is_closed_on_every_way_out(way_out: str) -> None:
    engine = FakeEngine(scripted(1, [5] * 100, VOCAB), context_limit=5 if way_out == "not admitted" else 1000)
    asked = iter([False, False, way_out == "cancelled", *[False] * 100])
    drafter = Closing()
    steps = decode_alone(
        Decoding(engine, [1], drafter, 9, frozenset({STOP}), deadline=CancelledWhen(lambda: next(asked)))
    )
    if way_out == "closed early":
        next(steps)
        steps.close()
    else:
        with contextlib.suppress(Cancelled, ContextLimitExceeded):
            list(steps)
    assert drafter.n_closed == 1


def test_what_does_not_fit_is_refused_before_any_pass() -> None:
    engine = FakeEngine(scripted(1, [5], VOCAB), context_limit=10)
    with pytest.raises(ContextLimitExceeded) as caught:
        list(decode_alone(Decoding(engine, [1] * 5, NoDraft(), 6, frozenset({STOP}))))
    assert (caught.value.value, caught.value.limit) == (11, 10)
    assert engine.n_steps == 0


def test_gumbel_samples_follow_the_softmax() -> None:
    """4,000 draws at different positions from one row: frequencies within five standard errors of the probabilities."""
    import torch

    from apply_service.engine.layout import WindowRows
    from apply_service.engine.sampling import choose

    logits = torch.tensor([0.0, 1.0, 2.0, -1.0])
    n = 4000
    drawn = choose(logits.repeat(n, 1), [WindowRows(0, n, 0, SamplingParams(1.0, 11))])
    found = torch.bincount(drawn, minlength=4) / n
    wanted = torch.softmax(logits, 0)
    assert torch.all((found - wanted).abs() < 5 * torch.sqrt(wanted * (1 - wanted) / n))


def test_seeds_differ() -> None:
    runs = {tuple(decode(NoDraft(), sampling=SamplingParams(1.0, seed)).output_ids) for seed in range(5)}
    assert len(runs) > 1


@settings(max_examples=80, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32), window=st.integers(1, 60))
def test_realigning_by_text_keeps_the_law(seed: int, window: int) -> None:
    """Sources of real text in a vocabulary whose tokens straddle the cuts, so that drafts go on from the middle of a
    token."""
    rng = random.Random(seed)
    words = ["def ", "add", "(a, b):\n", "    return ", "a + b", "\n", "class ", "Thing:", "value = 1", "é🙂"]
    answer_text = "".join(rng.choices(words, k=40))
    texts = ["".join(rng.choices(words, k=3)) + answer_text[rng.randrange(20) :: 1] for _ in range(3)]
    tokenizer = _tiny()
    answer = [*tokenizer.encode(answer_text).ids, 999]
    made = [DraftSource(name, text, *_arrays(tokenizer.encode(text))) for name, text in zip(NAMES, texts, strict=True)]
    zeros = np.zeros(len(made[0].ids) + 1, np.int64)
    sources = DraftSources(
        made[0], made[1], made[2], zeros, zeros, lambda text: tokenizer.encode(text).ids, tokenizer.decode
    )
    found = DraftContext(sources)
    for drafter in (Original(found), OriginalSnippet(found), MergedEdit(found)):
        engine = ScriptedEngine(answer, max_draft=window)
        decoding = Decoding(engine, [0], drafter, len(answer) + 3, frozenset({999}))
        for _ in decode_alone(decoding):
            pass
        assert decoding.output_ids == answer, f"{type(drafter).__name__} seed={seed}"


NAMES: tuple[Literal["predicted", "original", "update"], ...] = ("predicted", "original", "update")


@cache
def _tiny() -> ContentTokenizer:
    return ContentTokenizer(tiny_tokenizer().backend_tokenizer.to_str())


def _arrays(encoded: Encoded) -> tuple[TokenIds, TokenIds]:
    return np.array(encoded.ids, np.int64), encoded.starts


def test_bytes_round_trip() -> None:
    text = "é 日本 🙂\r\n"
    encoded = encode_bytes(text)
    assert decode_bytes([*encoded.ids, END]) == text
    assert [text[a:b] for a, b in zip(encoded.starts, encoded.starts[1:], strict=False) if a < b] == list(text)
    assert max(encoded.ids) < N_VOCAB

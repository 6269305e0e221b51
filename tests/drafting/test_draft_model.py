"""The draft model's session: in step with the output, freed on every way out, and never in the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest

from apply_service.decoding.verify import Decoding
from apply_service.drafting.drafter import NoDraft, open_drafter
from apply_service.drafting.model import MAX_DRAFTED, DraftModel
from apply_service.engine.torch_local import TorchEngine
from apply_service.errors import Cancelled
from apply_service.protocols import DraftContext, DraftEngine, Engine, SamplingParams
from tests.adversarial import told
from tests.decoding.alone import decode_alone
from tests.doubles import CancelledWhen
from tests.drafting.simulation import job
from tests.engine.tiny_models import tiny_model
from tests.fake_engine import FakeEngine, FakeSession, hashed
from tests.plain_bytes import PlainBytes

VOCAB = 13
PROMPT = [1, 2, 3, 4, 5]


class Watched(FakeEngine):
    """Keeps its sessions at hand."""

    sessions: tuple[FakeSession, ...] = ()

    def open(self, prompt_ids: Sequence[int], max_new_tokens: int, *, owner: str = "") -> FakeSession | None:
        session = cast("FakeSession | None", super().open(prompt_ids, max_new_tokens, owner=owner))
        if session is not None:
            self.sessions = (*self.sessions, session)
        return session


def context(engine: Engine, *, n_vocab: int = VOCAB, prompt_ids: Sequence[int] = PROMPT) -> DraftContext:
    sources = PlainBytes().encode_sources(job("", "", ""))
    return DraftContext(sources, prompt_ids, lambda: DraftEngine(engine, n_vocab), max_new_tokens=60)


def greedy(prompt_and_output: Sequence[int], n_tokens: int) -> list[int]:
    """What a model of `hashed(VOCAB)` logits writes, one token at a time."""
    logits, ids = hashed(VOCAB), list(prompt_and_output)
    for _ in range(n_tokens):
        ids.append(int(np.argmax(logits(ids))))
    return ids[len(prompt_and_output) :]


@pytest.mark.parametrize("max_draft", [0, 1, 2, 63])
def test_it_drafts_what_its_model_would_write(max_draft: int) -> None:
    drafter = DraftModel(context(FakeEngine(hashed(VOCAB), max_draft=max_draft)))
    output = [7, 7, 3, 1]
    for size in (0, 1, 3, 4):
        drafted = drafter.propose(output[:size], 5).token_ids
        assert list(drafted) == greedy(PROMPT + output[:size], len(drafted))
        assert 1 <= len(drafted) <= 5


def test_the_cache_holds_the_prompt_the_output_and_the_draft_and_nothing_else() -> None:
    engine = Watched(hashed(VOCAB))
    drafter = DraftModel(context(engine))
    output: list[int] = []
    rng = np.random.default_rng(3)
    for n_new in (1, 4, 2, 9, 1, 1):
        drafted = list(drafter.propose(output, 6).token_ids)
        (session,) = engine.sessions
        assert session.ids == PROMPT + output + drafted[:-1]
        n_accepted = min(n_new - 1, len(drafted))
        drafter.observe(told(n_accepted, 0))
        output += drafted[:n_accepted] + [int(token) for token in rng.integers(0, VOCAB, n_new - n_accepted)]


def test_after_an_accepted_draft_only_what_is_new_is_read() -> None:
    engine = FakeEngine(hashed(VOCAB))
    drafter = DraftModel(context(engine))
    drafted = list(drafter.propose([], 4).token_ids)
    n_steps = engine.n_steps
    again = drafter.propose([*drafted, 5], 3).token_ids
    assert engine.n_steps - n_steps == len(again), "one pass a token, the first of them reads two tokens"


def test_it_opens_nothing_before_it_is_asked() -> None:
    engine = FakeEngine(hashed(VOCAB))
    DraftModel(context(engine)).close()
    assert engine.n_open == 0


def test_closing_frees_the_session_and_ends_its_drafts() -> None:
    engine = FakeEngine(hashed(VOCAB))
    drafter = DraftModel(context(engine))
    assert drafter.propose([], 3).token_ids
    assert engine.n_open == 1
    drafter.close()
    drafter.close()
    assert engine.n_open == 0
    assert not drafter.propose([1], 3).token_ids
    assert engine.n_open == 0


def test_a_sequence_too_long_for_it_gets_no_drafts() -> None:
    drafter = DraftModel(context(FakeEngine(hashed(VOCAB), context_limit=60 + len(PROMPT) + MAX_DRAFTED - 1)))
    assert not drafter.propose([], 3).token_ids


def test_without_room_it_waits_for_it() -> None:
    engine = FakeEngine(hashed(VOCAB), max_open=1)
    holder = engine.open([1], 1)
    drafter = DraftModel(context(engine))
    assert not drafter.propose([], 3).token_ids
    assert holder is not None
    holder.close()
    assert drafter.propose([4], 3).token_ids


def test_ids_that_only_one_of_the_models_knows_are_neither_drafted_nor_read() -> None:
    engine = Watched(hashed(VOCAB))
    n_vocab = max(PROMPT) + 1
    drafter = DraftModel(context(engine, n_vocab=n_vocab))
    output: list[int] = []
    for _ in range(12):
        drafted = drafter.propose(output, 6).token_ids
        assert all(token < n_vocab for token in drafted)
        output.append(0)
    assert not drafter.propose([*output, n_vocab], 6).token_ids
    assert all(token < n_vocab for token in engine.sessions[0].ids)


@pytest.mark.parametrize("way_out", ["to the end", "closed early", "cancelled", "failed"])
@pytest.mark.parametrize("name", ["draft_model", "merged_edit+draft_model"])
def test_its_session_is_freed_on_every_way_out(name: str, way_out: str) -> None:
    class Failing(FakeEngine):
        def step(self, parts):  # type: ignore[no-untyped-def]
            if way_out == "failed" and self.n_steps == 3:
                raise RuntimeError("device lost")
            return super().step(parts)

    engine, target = FakeEngine(hashed(VOCAB, seed=1)), Failing(hashed(VOCAB))
    asked = iter([False] * 3 + [way_out == "cancelled"] + [False] * 99)
    decoding = Decoding(
        target,
        PROMPT,
        open_drafter(name, context(engine)),
        40,
        frozenset(),
        deadline=CancelledWhen(lambda: next(asked)),
    )
    steps = decode_alone(decoding)
    if way_out == "to the end":
        assert len([token for step in steps for token in step.ids]) == 40
    elif way_out == "closed early":
        next(steps)
        next(steps)
        assert engine.n_open == 1
        steps.close()
    else:
        with pytest.raises(Cancelled if way_out == "cancelled" else RuntimeError):
            list(steps)
    assert (engine.n_open, target.n_open) == (0, 0)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("name", ["draft_model", "original+draft_model"])
def test_the_law_holds_with_real_models(name: str, temperature: float) -> None:
    """The same weights as the target's but for a few: it drafts well, not perfectly."""
    target = TorchEngine(tiny_model("qwen2"), name="target", buckets=(4, 8, 16))
    small = TorchEngine(tiny_model("qwen2", seed=0 if temperature else 1), name="draft", buckets=(4, 8, 16))
    sampling, prompt = SamplingParams(temperature, 5), [int(i) for i in np.random.default_rng(2).integers(0, 250, 40)]

    def decode(drafter: NoDraft | None) -> Decoding:
        made = drafter or open_drafter(name, context(small, n_vocab=512, prompt_ids=prompt))
        decoding = Decoding(target, prompt, made, 40, frozenset(), sampling)
        for _ in decode_alone(decoding):
            pass
        return decoding

    plain, drafted = decode(NoDraft()), decode(None)
    assert drafted.output_ids == plain.output_ids
    assert drafted.stats.drafted_tokens > 0
    small.check_integrity()
    target.check_integrity()


def test_a_model_that_drafts_for_itself_is_always_right() -> None:
    model = tiny_model("qwen2")
    target, small = (TorchEngine(model, name=name, buckets=(4, 8, 16)) for name in ("target", "draft"))
    prompt = list(range(20))
    decoding = Decoding(target, prompt, DraftModel(context(small, n_vocab=512, prompt_ids=prompt)), 40, frozenset())
    for _ in decode_alone(decoding):
        pass
    assert decoding.stats.rejections == 0
    assert decoding.stats.passes < 20

"""The torch engine: right against Hugging Face's own forward, and the lossless law on real forwards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from apply_service.decoding.scheduler import Scheduler
from apply_service.decoding.verify import Decoding
from apply_service.drafting.copy import MergedEdit
from apply_service.drafting.drafter import NoDraft
from apply_service.engine.self_test import SelfTest, run_self_test
from apply_service.engine.torch_local import TorchEngine
from apply_service.errors import Cancelled, ContextLimitExceeded, EngineFailure
from apply_service.protocols import Drafter, Prefill, SamplingParams, Session, Verification, Window
from tests.adversarial import AlwaysWrong, RandomDraft
from tests.decoding.alone import decode_alone
from tests.decoding.test_parity import context
from tests.doubles import CancelledWhen
from tests.engine.tiny_models import CONFIGS, tiny_model, with_ties

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
N_VOCAB = 512


def ids_of(n: int, seed: int = 0) -> list[int]:
    return torch.randint(0, N_VOCAB, (n,), generator=torch.Generator().manual_seed(seed)).tolist()


def skip_without(device: str) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("family", CONFIGS)
def test_logits_are_those_of_the_plain_forward(family: str, device: str) -> None:
    """Prefill and windows over our slots against one forward of the same weights through the library's own
    attention."""
    skip_without(device)
    ids = ids_of(60)
    with torch.inference_mode():
        wanted = tiny_model(family, attention="eager").to(device)(torch.tensor([ids], device=device)).logits[0]
    engine = TorchEngine(tiny_model(family).to(device), name=family, buckets=(4, 16, 32))
    session, neighbour = opened(engine, ids[:41], 40), opened(engine, ids[::-1], 9)
    with torch.inference_mode(), session:
        for start, size in ((40, 3), (43, 1), (44, 16)):
            parts = [
                Window(neighbour, ids[0], ids[1:5], SamplingParams()),
                Window(session, ids[start], ids[start + 1 : start + size], SamplingParams()),
            ]
            logits, layout = engine.logits(parts, 32)
            found = logits[layout.windows[1].first :][:size]
            torch.testing.assert_close(found, wanted[start : start + size], rtol=1e-3, atol=1e-4)
            session.length += size


def opened(engine: TorchEngine, prompt: Sequence[int], limit: int) -> Session:
    """A session whose prompt has been read."""
    session = engine.open(prompt, limit)
    assert isinstance(session, Session)
    while session.n_pending:
        engine.step([Prefill(session, min(session.n_pending, engine.prefill_grain))])
    return session


def verify(engine: TorchEngine, *windows: Window) -> list[Verification]:
    return [answer for answer in engine.step(windows) if answer is not None]


def decode(
    engine: TorchEngine, drafter: Drafter, prompt: Sequence[int], sampling: SamplingParams, limit: int
) -> Decoding:
    decoding = Decoding(engine, list(prompt), drafter, limit, frozenset({3}), sampling)
    for _ in decode_alone(decoding):
        pass
    return decoding


def skip_where_tolerant(found: SelfTest, device: str) -> None:
    """Parity bit for bit is promised where the self-test finds it; some processors' kernels differ for some shapes."""
    if device == "cpu" and found.determinism != "bitwise":
        pytest.skip(f"this processor's kernels differ between passes: {found.differing_rows}")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_parity_on_real_forwards(family: str, dtype: torch.dtype, device: str, temperature: float) -> None:
    skip_without(device)
    model = with_ties(tiny_model(family, dtype=dtype)).to(device)
    found = run_self_test(TorchEngine(model, name=family, buckets=(4, 8, 32)))
    engine = TorchEngine(model, name=family, buckets=found.buckets, determinism=found.determinism)
    skip_where_tolerant(found, device)
    for prompt_length, limit in ((5, 40), (37, 23)):
        prompt, sampling = ids_of(prompt_length), SamplingParams(temperature, 9)
        answer = decode(engine, NoDraft(), prompt, sampling, limit).output_ids
        drafters: list[Drafter] = [
            RandomDraft(N_VOCAB, seed=1, answer=answer),
            AlwaysWrong(answer, N_VOCAB),
            MergedEdit(context(answer, answer[5:], answer[::2])),
        ]
        for drafter in drafters:
            assert decode(engine, drafter, prompt, sampling, limit).output_ids == answer, type(drafter).__name__


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_logits_are_bit_equal_at_the_buckets_the_self_test_allows(dtype: torch.dtype) -> None:
    """One position's logits, reached by different windows in every allowed bucket, agree in every bit."""
    model = tiny_model("qwen2", dtype=dtype)
    buckets = run_self_test(TorchEngine(model, name="q", buckets=(1, 2, 4, 8, 16, 64))).buckets
    assert max(buckets) == 64
    engine = TorchEngine(model, name="q", buckets=buckets)
    ids = ids_of(50, seed=4)
    rows = []
    with torch.inference_mode():
        for bucket in buckets:
            for first in range(max(0, 40 - bucket + 1), 41, 7):
                session = opened(engine, ids[: first + 1], 60)
                window = Window(session, ids[first], ids[first + 1 : 41], SamplingParams())
                rows.append(engine.logits([window], bucket)[0][40 - first])
                session.close()
    assert len(rows) > 10
    assert all(torch.equal(row, rows[0]) for row in rows)


def test_the_self_test_leaves_out_a_bucket_that_differs() -> None:
    """A model made to differ: its output depends on how many rows a pass has."""
    model = tiny_model("llama")
    engine = TorchEngine(model, name="odd", buckets=(4, 32))
    honest = engine.head
    engine.head = lambda hidden: honest(hidden) + (hidden.shape[1] == 4)  # type: ignore[method-assign]
    found = run_self_test(engine)
    assert found.buckets == (32,)
    assert found.differing_rows[4] == 1.0


def test_the_self_test_sees_several_key_lengths() -> None:
    """Passes of few rows attend to fewer blocks of keys than passes of many; the law has to hold between them."""
    engine = TorchEngine(tiny_model("llama"), name="l", buckets=(4, 256))
    seen, honest = set(), engine._n_keys
    engine._n_keys = lambda session, n: seen.add((len(session.slots), honest(session, n))) or honest(session, n)  # type: ignore[method-assign, assignment, func-returns-value]
    assert 256 in run_self_test(engine).buckets
    assert len({n_keys for capacity, n_keys in seen if capacity == max(c for c, _ in seen)}) > 1


def test_parity_across_a_block_of_keys() -> None:
    """Drafted and undrafted decoding around position 512, where another block of keys comes in."""
    engine = TorchEngine(with_ties(tiny_model("qwen2")), name="q", buckets=(4, 64))
    prompt, sampling = ids_of(490), SamplingParams()
    answer = decode(engine, NoDraft(), prompt, sampling, 50).output_ids
    drafted = decode(engine, RandomDraft(N_VOCAB, seed=2, answer=answer), prompt, sampling, 50)
    assert drafted.output_ids == answer
    assert drafted.stats.prefill_passes == 7


def test_prefill_can_be_stopped() -> None:
    engine = TorchEngine(tiny_model("llama"), name="l", buckets=(16,))
    polls = iter([False, False, True])
    decoding = Decoding(engine, ids_of(200), NoDraft(), 5, frozenset(), deadline=CancelledWhen(lambda: next(polls)))
    with pytest.raises(Cancelled):
        list(decode_alone(decoding))


def test_rejected_rows_leave_no_trace() -> None:
    engine = TorchEngine(tiny_model("llama"), name="l", buckets=(16,))
    ids = ids_of(20)
    clean, dirty = opened(engine, ids, 40), opened(engine, ids, 40)
    engine.step([Window(dirty, ids[-1], [(i + 1) % N_VOCAB for i in ids_of(10, 5)], SamplingParams())])
    dirty.rewind(dirty.length - clean.length)
    window = [Window(session, ids[-1], ids_of(6, 7), SamplingParams()) for session in (clean, dirty)]
    assert verify(engine, window[0]) == verify(engine, window[1])


def test_masks_choose_among_the_allowed() -> None:
    engine = TorchEngine(tiny_model("llama"), name="l", buckets=(4, 16))
    ids = ids_of(12)
    free = verify(engine, Window(opened(engine, ids, 20), ids[-1], [], SamplingParams()))[0].choices[0]
    allowed = np.array([i for i in range(N_VOCAB) if i != free], np.int64)
    session = opened(engine, ids, 20)
    masked = verify(engine, Window(session, ids[-1], [], SamplingParams(), [allowed]))[0].choices[0]
    assert masked != free
    forced = verify(engine, Window(opened(engine, ids, 20), ids[-1], [], SamplingParams(), [np.array([77])]))[0]
    assert list(forced.choices) == [77]


def test_plain_gives_the_same_text_on_a_clear_model() -> None:
    """The baseline runs other shapes, so equality is not the law; on a random model with clear choices it holds."""
    engine = TorchEngine(tiny_model("llama", seed=3), name="l", buckets=(16,))
    prompt = ids_of(9)
    drafted = decode(engine, NoDraft(), prompt, SamplingParams(), 20).output_ids
    assert decode(engine.plain(), NoDraft(), prompt, SamplingParams(), 20).output_ids == drafted


def test_what_does_not_fit_names_value_and_limit() -> None:
    engine = TorchEngine(tiny_model("llama"), name="l")
    with pytest.raises(ContextLimitExceeded) as caught:
        engine.open([1] * 2000, 100)
    assert (caught.value.value, caught.value.limit) == (2100, 2048)


def test_a_closed_session_gives_its_slots_back() -> None:
    engine = TorchEngine(tiny_model("llama"), name="l")
    n_free = engine.pool.n_free
    session = engine.open([1, 2, 3], 10)
    assert session is not None
    with session:
        assert engine.pool.n_free == n_free - len(session.slots)
    session.close()
    assert engine.pool.n_free == n_free


def poisoned(token: int) -> TorchEngine:
    """An engine whose model gives no number from `token` on."""
    model = tiny_model("qwen2")
    with torch.no_grad():
        model.get_input_embeddings().weight[token] = float("nan")
    return TorchEngine(model, name="q", buckets=(4, 16), prefix_cache_bytes=2**20)


def test_a_choice_made_of_no_number_is_an_error_of_that_sequence_alone() -> None:
    engine = poisoned(99)
    good, bad = [token % 99 for token in ids_of(70, 1)], [*ids_of(69, 2), 99]
    wanted = decode(engine, NoDraft(), good, SamplingParams(), 10).output_ids
    scheduler = Scheduler()
    lost, kept = (Decoding(engine, ids, NoDraft(), 10, frozenset({3})) for ids in ([*bad, 5], good))
    error: object = None
    while kept.finish_reason is None:
        pair = [one for one in (lost, kept) if one.finish_reason is None and not one.is_closed]
        error = next((out for out in scheduler.run_pass(pair) if isinstance(out, BaseException)), error)
    assert isinstance(error, EngineFailure)
    assert kept.output_ids == wanted
    engine.check_integrity()
    assert opened(engine, [*bad, 5], 10).n_cached == 0, "and what it has read is kept for nobody"


@pytest.mark.parametrize("wrong", [N_VOCAB, -1])
def test_a_token_beyond_the_vocabulary_is_an_error_of_that_sequence_alone(wrong: int) -> None:
    engine = TorchEngine(tiny_model("llama"), name="l", buckets=(4, 32))
    wanted = decode(engine, NoDraft(), ids_of(9), SamplingParams(), 10).output_ids
    decodings = [Decoding(engine, ids, NoDraft(), 10, frozenset({3})) for ids in (ids_of(9), [5, wrong, 6])]
    scheduler = Scheduler()
    _, error = scheduler.run_pass(decodings)
    assert isinstance(error, EngineFailure)
    while decodings[0].finish_reason is None:
        scheduler.run_pass(decodings[:1])
    assert decodings[0].output_ids == wanted
    engine.check_integrity()


def test_slots_that_are_nobodys_are_noticed() -> None:
    engine = TorchEngine(tiny_model("llama"), name="l")
    engine.check_integrity()
    session = engine.open([1, 2, 3], 10)
    assert session is not None
    with pytest.raises(EngineFailure, match="512 slots of the KV cache are in use, but 0 should be"):
        engine.check_integrity()
    session.close()
    engine.check_integrity()

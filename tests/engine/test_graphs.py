"""Passes that are recorded once and replayed: they read their inputs from the device alone, and give what the same
passes give step by step.  On a CPU a recording is a function that is called again with what it was made from."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from apply_eval.replay import ReplayEngine
from apply_service.drafting.drafter import NoDraft
from apply_service.engine.attention import Kernels
from apply_service.engine.layout import Layout
from apply_service.engine.passes import Passes, PassInputs, PassKey, PassOutput, open_passes
from apply_service.engine.torch_local import TorchEngine
from apply_service.errors import MissingDependency
from apply_service.protocols import Drafter, Prefill, SamplingParams, Window
from tests.adversarial import AlwaysWrong, RandomDraft
from tests.decoding.mixes import Mix, check, random_asks, undrafted
from tests.engine.plain_kernels import PLAIN
from tests.engine.test_torch_local import N_VOCAB, decode, ids_of
from tests.engine.tiny_models import CONFIGS, tiny_model

CPU = torch.device("cpu")
BUCKETS = (8, 32)


def record(compute: Callable[[], PassOutput]) -> tuple[PassOutput, Callable[[], None]]:
    """What a CUDA capture is but for the speed: later calls see no argument, and outputs stay where they are."""
    output = compute()

    def replay() -> None:
        for old, new in zip(output, compute(), strict=True):
            if old is not None and new is not None:
                old.copy_(new)

    return output, replay


def graphed(family: str, engine_type: type[TorchEngine] = TorchEngine, **options: Any) -> Any:
    """An engine whose passes are recorded, with the kernels' double."""
    engine = engine_type(tiny_model(family), name=family, buckets=BUCKETS, kernels=PLAIN, **options)
    engine.passes = Passes(CPU, record)
    return engine


@pytest.mark.parametrize("family", CONFIGS)
def test_replayed_passes_decode_what_passes_one_by_one_decode(family: str) -> None:
    engine, plain = graphed(family), TorchEngine(tiny_model(family), name=family, buckets=BUCKETS)
    for prompt_length in (5, 37):
        wanted = decode(plain, NoDraft(), ids_of(prompt_length), SamplingParams(), 30).output_ids
        drafters: list[Drafter] = [NoDraft(), RandomDraft(N_VOCAB, seed=1, answer=wanted), AlwaysWrong(wanted, N_VOCAB)]
        for drafter in drafters:
            found = decode(engine, drafter, ids_of(prompt_length), SamplingParams(), 30)
            assert found.output_ids == wanted, type(drafter).__name__
    assert 1 < len(engine.passes.keys) < 12
    engine.check_integrity()


def test_mixes_with_masks_and_temperatures() -> None:
    """Their passes end with the logits, and what follows is computed step by step."""
    engine = graphed("qwen2", prefix_cache_bytes=2**18)
    rng = random.Random(3)
    asks = random_asks(rng, 8, n_vocab=N_VOCAB, longest=60, limit=12)
    answers = [undrafted(engine, ask, frozenset({3})) for ask in asks]
    check(Mix(engine, asks, answers, n_vocab=N_VOCAB, seed=5), answers, frozenset({3}), seed=3)
    assert {key.is_greedy for key in engine.passes.keys} == {True, False}
    engine.check_integrity()


def test_a_replay_target_writes_the_answer_of_each_prompt() -> None:
    engine = graphed("llama", ReplayEngine)
    answers = {n: ids_of(20, seed=n) for n in (4, 9)}
    for n, answer in answers.items():
        engine.answers.expect(ids_of(n), answer)
    for n, answer in answers.items():
        drafter = RandomDraft(N_VOCAB, seed=1, answer=answer)
        assert decode(engine, drafter, ids_of(n), SamplingParams(), 20).output_ids[:20] == _ended(answer)


def _ended(answer: list[int]) -> list[int]:
    return answer[: answer.index(3) + 1] if 3 in answer else answer


def test_a_pass_asks_the_device_nothing_on_its_way() -> None:
    """Tensors without contents raise wherever the host would have to wait for a value; a capture could not go on."""
    for family in CONFIGS:
        engine = TorchEngine(tiny_model(family), name=family, buckets=BUCKETS, kernels=SHAPES)
        with FakeTensorMode(allow_non_fake_inputs=True), torch.inference_mode():
            inputs = PassInputs(PassKey(8, 8, 8, 1, 1, True), CPU)
            table = engine._compute(inputs, EMPTY).table
        assert table is not None
        assert tuple(table.shape) == (2, 8)


EMPTY = Layout(np.zeros(8, np.int64), np.zeros(8, np.int64), (), (), np.zeros(0, np.int64))


def _made(query: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
    return query.new_zeros((query.shape[1], query.shape[0], query.shape[2]))


SHAPES = Kernels(lambda *_: None, _made)
"""Kernels that only make what they would return."""


def test_windows_of_any_length_in_one_row_count_are_one_kind_of_pass() -> None:
    engine = graphed("llama", cuda_graphs="auto")
    for n_rows in (1, 3, 8):
        with engine.open(ids_of(4), 20) as session:
            engine.step([Prefill(session, 3)])
            engine.step([Window(session, 5, [6] * (n_rows - 1), SamplingParams())])
    assert len([key for key in engine.passes.keys if key.n_head_rows]) == 1
    assert engine.passes.n_captured == len(engine.passes.keys)


def test_the_logits_of_all_kinds_of_passes_lie_in_one_place() -> None:
    passes = Passes(CPU, record)
    outputs = [passes.run(passes.inputs(PassKey(n, n, n, 0, 0, False)), logits_of(n)) for n in (2, 4, 3)]
    places = [one.logits.untyped_storage().data_ptr() for one in outputs if one.logits is not None]
    assert places[1] == places[2]
    assert outputs[2].logits is not None
    assert torch.equal(outputs[2].logits, DRAWN[:3])


DRAWN = torch.randn(4, 7, generator=torch.Generator().manual_seed(0))


def logits_of(n_rows: int) -> Callable[[], PassOutput]:
    return lambda: PassOutput(DRAWN[:n_rows] * 1, None)


def test_the_least_recently_used_recording_goes_first() -> None:
    passes = Passes(CPU, record, max_graphs=2)
    keys = [PassKey(n, 0, 0, 0, 0, False) for n in (1, 2, 3)]
    for i in (0, 1, 0, 2, 2):
        passes.run(passes.inputs(keys[i]), lambda: PassOutput(DRAWN * 1, None))
    assert passes.keys == (keys[0], keys[2])


def test_graphs_without_a_device_for_them() -> None:
    passes, why = open_passes("auto", CPU, has_kernels=True)
    assert passes.capture is None
    assert why == "no CUDA device"
    with pytest.raises(MissingDependency, match="no CUDA device"):
        open_passes("on", CPU, has_kernels=True)
    assert open_passes("off", CPU, has_kernels=True)[1] == "cuda_graphs is off"

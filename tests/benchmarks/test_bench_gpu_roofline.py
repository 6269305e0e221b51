"""The roofline against figures computed by hand for published shapes on an H200, and the metering of passes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from apply_service.engine.fake import FakeEngine, hashed
from apply_service.engine.replay import _of_shape
from apply_service.engine.replay_shapes import find_shape
from apply_service.protocols import Prefill, SamplingParams, Window
from benchmarks.bench_gpu_roofline import KNOWN, Card, MeteredEngine, PassWork, Roofline, card_of

H200 = KNOWN[0]
CONTEXT = 3_000
BY_HAND = {
    ("qwen2.5-coder-1.5b", 1): 0.74,
    ("qwen2.5-coder-1.5b", 512): 2.33,
    ("qwen2.5-coder-7b", 1): 3.33,
    ("qwen2.5-coder-7b", 128): 3.33,
    ("qwen2.5-coder-7b", 256): 4.97,
    ("qwen2.5-coder-32b", 1): 15.1,
    ("llama-3-70b", 1): 32.6,
    ("llama-3-70b", 1024): 190.0,
}
"""Milliseconds of a pass of so many rows over a context of 3,000."""


def on_meta(name: str) -> Any:
    with torch.device("meta"):
        return _of_shape(find_shape(name), torch.bfloat16)


@pytest.mark.parametrize(("name", "n_rows"), list(BY_HAND))
def test_passes_of_published_shapes(name: str, n_rows: int) -> None:
    found = Roofline.of(on_meta(name), H200).pass_s(PassWork(n_rows, CONTEXT, n_rows * CONTEXT))
    assert 1e3 * found == pytest.approx(BY_HAND[name, n_rows], rel=0.06)


def test_prompts_are_read_at_the_rate_of_the_arithmetic() -> None:
    found = Roofline.of(on_meta("qwen2.5-coder-7b"), H200).prompt_s([2_500])
    assert 1e3 * found == pytest.approx(45, rel=0.1)


def test_the_longer_of_bytes_and_operations_counts() -> None:
    card = Card("toy", bytes_s=100.0, flop_s=10.0, fp8_flop_s=20.0, source="")
    toy = Roofline(card, weight_bytes=200, parameters=5, slot_bytes=10, product_flop=1, is_fp8=False)
    assert toy.pass_s(PassWork(1, 10, 0)) == 3.0  # 300 bytes; 10 operations take 1 s
    assert toy.pass_s(PassWork(4, 10, 20)) == 6.0  # 40 operations and 20 with keys
    fp8 = Roofline(card, weight_bytes=100, parameters=5, slot_bytes=10, product_flop=1, is_fp8=True)
    assert fp8.pass_s(PassWork(4, 0, 20)) == 4.0  # the weights' 40 at twice the rate, the keys' 20 as before
    assert toy.decode_s([PassWork(1, 10, 0), PassWork(4, 10, 20)]) == 9.0


def test_a_card_of_no_known_name_is_measured() -> None:
    found = card_of(torch.device("cpu"), "some processor")
    assert found.name == "some processor"
    assert found.bytes_s > 1e6
    assert found.flop_s > 1e6
    assert card_of(torch.device("cpu"), "NVIDIA H200") is H200


def test_passes_with_windows_are_noted_with_what_they_read() -> None:
    engine = FakeEngine(hashed(13), max_draft=8)
    metered = MeteredEngine(engine)
    first, second = metered.open([1, 2, 3], 20), metered.open([1, 2, 3, 4, 5], 20)
    assert first is not None
    assert second is not None
    with first, second:
        metered.step([Prefill(first, 2)])
        assert metered.works == []
        metered.step([Prefill(second, 4)])
        metered.step([Window(first, 3, [1, 2], SamplingParams()), Window(second, 5, [], SamplingParams())])
    assert metered.works == [PassWork(3 + 1, 5 + 5, 3 * 5 + 1 * 5)]
    assert metered.name == engine.name

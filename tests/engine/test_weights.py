"""Whole models in 8 bits: close to the float32 model, lossless among neighbours, never whole on the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, MixtralConfig

from apply_service.engine import self_test as self_test_store
from apply_service.engine.eight_bit import EightBitLinear
from apply_service.engine.self_test import SelfTest, find_self_test, run_self_test
from apply_service.engine.torch_local import TorchEngine
from apply_service.engine.weights import (
    PIECE,
    PackedLinear,
    Weights,
    bring,
    multiply_in_pieces,
    pack_matrices,
    weight_bytes,
)
from apply_service.errors import ModelNotLoadable
from apply_service.models import embedded_directory
from benchmarks.gpu.measure import bytes_read, format_of
from tests.engine.test_mixes import play
from tests.engine.tiny_models import tiny_model, with_ties

CPU = torch.device("cpu")
FORMATS: list[Weights] = ["fp8", "int8"]
LOGITS_ERROR = {"own": 0.0, "fp8": 0.15, "int8": 0.05}
"""Of the norm of the embedded model's logits on random prompts, against the float32 model; bfloat16 alone costs
0.076."""
SAME_CHOICES = {"own": 1.0, "fp8": 0.88, "int8": 0.96}
"""Share of its choices there that stay; of bfloat16 0.945."""


@cache
def embedded_logits(weights: Weights) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(embedded_directory(), dtype=torch.float32).eval()
    ids = torch.randint(0, 300, (1, 200), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        logits: torch.Tensor = bring(model, weights, CPU, join=True)(ids).logits[0]
    return logits


@pytest.mark.parametrize("weights", ["own", *FORMATS])
def test_a_trained_model_says_nearly_the_same(weights: Weights) -> None:
    model = AutoModelForCausalLM.from_pretrained(embedded_directory(), dtype=torch.float32).eval()
    ids = torch.randint(0, 300, (1, 200), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        wanted = model(ids).logits[0]
    found = embedded_logits(weights)
    assert float((found - wanted).norm() / wanted.norm()) <= LOGITS_ERROR[weights] + 1e-4
    assert float((found.argmax(-1) == wanted.argmax(-1)).float().mean()) >= SAME_CHOICES[weights]


@pytest.mark.parametrize("weights", FORMATS)
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_the_lossless_law_holds(family: str, weights: Weights) -> None:
    model = bring(with_ties(tiny_model(family)), weights, CPU, join=True)
    found = run_self_test(TorchEngine(model, name=family, buckets=(4, 8, 32, 64)))
    assert found.determinism == "bitwise"
    oracle = TorchEngine(
        model,
        name=family,
        buckets=found.buckets,
        determinism=found.determinism,
        query_grain=found.query_grain,
    )
    play(oracle, 5, n_asks=4, longest=90, limit=20)


@pytest.mark.parametrize("weights", FORMATS)
def test_embedding_norms_and_head_stay_as_they_are(weights: Weights) -> None:
    before, after = tiny_model("qwen2"), bring(tiny_model("qwen2"), weights, CPU)
    for name in ("model.embed_tokens", "lm_head", "model.norm"):
        assert torch.equal(after.get_submodule(name).weight, before.get_submodule(name).weight)
    assert isinstance(after.model.layers[1].mlp.down_proj, EightBitLinear)
    assert format_of(after) == weights
    assert format_of(before) == "float32"


@pytest.mark.parametrize("weights", ["own", *FORMATS])
def test_the_count_of_bytes_beforehand_is_that_of_the_model_afterwards(weights: Weights) -> None:
    model = tiny_model("qwen2", dtype=torch.bfloat16)
    expected = weight_bytes(model, weights)
    assert sum(p.numel() * p.itemsize for p in bring(model, weights, CPU, join=True).parameters()) == expected


def test_a_pass_reads_all_but_an_embedding_that_is_no_head() -> None:
    untied, tied = tiny_model("qwen2"), tiny_model("llama")
    assert bytes_read(untied) == 4 * (sum(p.numel() for p in untied.parameters()) - 512 * 96)
    assert bytes_read(tied) == 4 * sum(p.numel() for p in tied.parameters())


def test_one_layer_at_a_time_is_whole() -> None:
    """What `fill` is given has no memory yet; all that came before it is in 8 bits already."""
    with torch.device("meta"):
        model = tiny_model("qwen2")
    whole: list[int] = []

    def fill(part: nn.Module) -> None:
        whole.append(sum(_is_whole(m) for layer in model.model.layers for m in layer.modules()))
        _fill(model, part)

    bring(model, "fp8", CPU, fill=fill)
    assert whole == [0, 0, 0]
    assert all(p.device.type == "cpu" for p in model.parameters())


def _is_whole(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) and module.weight.device.type != "meta"


def _fill(model: Any, part: nn.Module) -> None:
    for module in part.modules():
        if any(tensor.device.type == "meta" for tensor in module.parameters(recurse=False)):
            module.to_empty(device=CPU, recurse=False)
            model._init_weights(module)


@pytest.mark.parametrize("make", [lambda: _mixture()])
def test_a_model_whose_weights_lie_elsewhere_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(ModelNotLoadable, match="fp8"):
        bring(make(), "fp8", CPU)


def _mixture() -> Any:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = MixtralConfig(**sizes, num_key_value_heads=1, num_local_experts=8, vocab_size=64)
    return AutoModelForCausalLM.from_config(config)


HAS_BFLOAT16 = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="this CPU has no bfloat16 products"
)


@HAS_BFLOAT16
@pytest.mark.parametrize("has_bias", [True, False])
def test_a_packed_layer_gives_the_products_of_its_matrix(*, has_bias: bool) -> None:
    torch.manual_seed(0)
    plain = nn.Linear(96, 160, bias=has_bias, dtype=torch.bfloat16).requires_grad_(False)
    model = nn.Sequential(plain)
    pack_matrices(model)
    assert model[0] is not plain
    rows = torch.randn(1, 100, 96, dtype=torch.bfloat16)
    found = model(rows)
    assert found.shape == (1, 100, 160)
    assert torch.allclose(found.float(), plain(rows).float(), rtol=2**-7, atol=1e-2)


@HAS_BFLOAT16
def test_rows_in_pieces_do_not_depend_on_how_many_there_are() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(96, 160, dtype=torch.bfloat16).requires_grad_(False))
    pack_matrices(model)
    rows = torch.randn(1, 100, 96, dtype=torch.bfloat16)
    assert multiply_in_pieces(model, PIECE)
    found = model(rows)
    assert multiply_in_pieces(model, None)
    for first in range(0, 100, PIECE):
        piece = slice(first, first + PIECE)
        assert torch.equal(found[:, piece], model(rows[:, piece]))


@HAS_BFLOAT16
def test_pieces_are_taken_only_where_more_row_counts_agree_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    buckets, pieces = (4, 256), list[int | None]()

    def find(model: Any, *_args: Any) -> SelfTest:
        (piece,) = {one.piece for one in model.modules() if isinstance(one, PackedLinear)}
        pieces.append(piece)
        agreeing = buckets if piece or not is_helpless else (256,)
        nothing = dict.fromkeys(buckets, 0.0)
        return SelfTest(agreeing if is_mended else (256,), 4, nothing, nothing)

    monkeypatch.setattr(self_test_store, "find_options", find)
    for is_helpless, is_mended, wanted, tried in (
        (False, True, None, [None]),
        (True, True, PIECE, [None, PIECE]),
        (True, False, None, [None, PIECE]),
    ):
        pieces.clear()
        records = tmp_path / f"{is_helpless} {is_mended}"
        for is_first in (True, False):
            model = tiny_model("llama", dtype=torch.bfloat16)
            assert find_self_test(model, "tiny", buckets, records, {}).piece == wanted
            assert {one.piece for one in model.modules() if isinstance(one, PackedLinear)} == {wanted}
            assert pieces == tried, f"measured at the first start alone, {is_first=}"


def test_other_formats_are_multiplied_as_they_are() -> None:
    model = nn.Sequential(linear := nn.Linear(8, 8))
    pack_matrices(model)
    assert model[0] is linear
    assert not multiply_in_pieces(model, PIECE)

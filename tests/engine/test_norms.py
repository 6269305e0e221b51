"""Norms in one step: the library's results, and the library's way where they are not."""

from __future__ import annotations

import os

import pytest
import torch

from apply_service.engine.weights import fuse_norms, n_fused
from tests.engine.tiny_models import tiny_model

IDS = torch.tensor([[5, 7, 11, 13]])


def plain_normalise(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x.float(), (x.shape[-1],), None, epsilon).to(x.dtype) * weight


@pytest.mark.parametrize(
    ("family", "n_norms"), [("llama", 5), ("qwen2", 5), ("qwen3", 9), ("mistral", 5), ("gemma2", 0)]
)
def test_a_model_gives_what_it_gave(family: str, n_norms: int) -> None:
    """Gemma's norms are of another kind and stay."""
    model = tiny_model(family, attention="eager")
    with torch.inference_mode():
        wanted = model(IDS).logits
        assert fuse_norms(model, plain_normalise) == n_norms == n_fused(model)
        torch.testing.assert_close(model(IDS).logits, wanted, rtol=1e-4, atol=1e-4)
    model(IDS).logits.sum().backward()  # with gradients it is the library's way


def test_wrong_ones_and_broken_ones_are_left_alone() -> None:
    def broken(*_: object) -> torch.Tensor:
        raise RuntimeError("no such instruction")

    model = tiny_model("llama", attention="eager")
    assert fuse_norms(model, lambda x, weight, epsilon: plain_normalise(x, weight, epsilon) * 1.1) == 0
    assert fuse_norms(model, broken) == 0
    assert fuse_norms(model) == 0, "no device for the kernel"


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_kernel_gives_what_the_library_gives(dtype: torch.dtype, device: str) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    if device == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("TRITON_INTERPRET is not 1")
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    from apply_service.engine.triton_kernels import normalise

    norm = LlamaRMSNorm(100, eps=1e-6).to(device, dtype)
    with torch.inference_mode():
        norm.weight.copy_(torch.randn(100))
        x = torch.randn((2, 3, 120)).to(device, dtype)[..., 10:110]
        rtol = 1e-5 if dtype == torch.float32 else 2e-2
        torch.testing.assert_close(normalise(x, norm.weight, 1e-6), norm(x), rtol=rtol, atol=rtol)

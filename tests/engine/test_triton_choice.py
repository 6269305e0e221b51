"""The kernel that chooses, against the choice in plain PyTorch."""

from __future__ import annotations

import os

import pytest
import torch

from apply_service.engine.sampling import choose_greedily

pytest.importorskip("triton", reason="Triton is not installed")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("n_vocab", [5, 4096, 4097, 9000])
def test_the_lowest_of_the_best_and_its_probability(n_vocab: int, dtype: torch.dtype, device: str) -> None:
    """Rounded, so that equals abound, in one block and in several."""
    _skip_where_it_cannot_run(device)
    from apply_service.engine.triton_kernels import choose_best

    logits = (torch.randn((5, n_vocab), generator=torch.Generator().manual_seed(1)) * 2).round().to(device, dtype)
    logits[0] = 0
    logits[1, [3, n_vocab - 1]] = 100
    wanted, wanted_logprobs = choose_greedily(logits)
    choices, logprobs = choose_best(logits[:, :])
    assert choices.tolist() == wanted.tolist()
    torch.testing.assert_close(logprobs, wanted_logprobs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_a_row_that_is_no_number_has_no_log_probability(device: str) -> None:
    _skip_where_it_cannot_run(device)
    from apply_service.engine.triton_kernels import choose_best

    logits = torch.zeros((3, 9000), device=device)
    logits[1, 8000] = float("nan")
    choices, logprobs = choose_best(logits)
    assert logprobs.isnan().tolist() == [False, True, False]
    assert 0 <= int(choices[1]) < 9000


def _skip_where_it_cannot_run(device: str) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    if device == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("TRITON_INTERPRET is not 1")

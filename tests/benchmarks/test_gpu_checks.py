"""What the checks of a GPU count, and that they would see what is wrong; their kernels need the card."""

from __future__ import annotations

import math

import pytest
import torch

from benchmarks.gpu import checks
from benchmarks.gpu.checks import check_matrices, compared, worst_of

CPU = torch.device("cpu")


def test_no_number_is_worse_than_any_error() -> None:
    found = worst_of("x", [(0.1, "here"), (math.nan, "there"), (9.0, "elsewhere")], 1.0, 3)
    assert (found.is_ok, found.note, found.n) == (False, "there", 3)
    assert worst_of("x", [(0.1, "here")], 1.0, 1).is_ok


def test_outputs_are_compared_up_to_their_first_difference() -> None:
    wanted = [[1, 2, 3, 4], [5, 6, 7, 8]]
    same = compared("x", wanted, wanted, 0.0, "")
    assert (same.is_ok, same.worst, same.n) == (True, 0.0, 8)
    other = compared("x", wanted, [[1, 2, 9, 9], [5, 6, 7, 8]], 0.1, "a note")
    assert (other.is_ok, other.worst, other.n) == (False, 1 / 7, 7)
    assert other.note == "1 of 2 outputs; a note; output 0 at token 2: [9] for 3"


def test_attention_that_reads_other_keys_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is stood in for by PyTorch's attention: right, and with one token of each prompt changed."""
    plain = checks._keys_and_values
    monkeypatch.setattr(checks, "_keys_and_values", lambda model, _, plan: plain(model, "sdpa", plan))
    (right,) = checks.check_attention(CPU, torch.float32, seed=0)
    assert (right.is_ok, right.worst, right.n) == (True, 0.0, 6)

    def wrong(model: object, name: str, plan: checks.Plan) -> list[torch.Tensor]:
        changed = [([token ^ 1 for token in prompt[:1]] + prompt[1:], new) for prompt, new in plan]
        return plain(model, "sdpa", plan if name == "sdpa" else changed)

    monkeypatch.setattr(checks, "_keys_and_values", wrong)
    (found,) = checks.check_attention(CPU, torch.float32, seed=0)
    assert found.is_ok is False


def test_a_layer_in_eight_bits_that_is_off_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    (right,) = check_matrices(CPU, "fp8", seed=3)
    assert right.is_ok
    monkeypatch.setattr("benchmarks.gpu.checks.EightBitLinear", lambda linear, _: lambda x: 1.1 * linear(x))
    (found,) = check_matrices(CPU, "fp8", seed=0)
    assert (found.is_ok, found.worst) == (False, pytest.approx(0.1, rel=1e-3))

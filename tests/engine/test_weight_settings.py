"""What the setting `weights` means on a device."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from apply_service.engine import weights as module
from apply_service.engine.weights import Weights, bfloat16_gain, dtype_of, fastest, refuse_format
from apply_service.errors import MissingDependency

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _device: request.param)


@pytest.mark.parametrize("card", [(9, 0), (10, 0)], indirect=True)
@pytest.mark.usefixtures("card")
def test_on_a_card_of_today_all_are_there() -> None:
    for weights in get_args(Weights):
        refuse_format(weights, CUDA)


@pytest.mark.parametrize("card", [(7, 5), (8, 6)], indirect=True)
@pytest.mark.usefixtures("card")
def test_an_older_card_has_no_fp8() -> None:
    refuse_format("int8", CUDA)
    with pytest.raises(MissingDependency, match="fp8"):
        refuse_format("fp8", CUDA)


def test_the_cpu_has_all_of_them_emulated() -> None:
    for weights in get_args(Weights):
        refuse_format(weights, CPU)


def test_auto_number_format_follows_the_device() -> None:
    assert dtype_of("auto", CPU) is torch.float32
    assert dtype_of("auto", CUDA) is torch.bfloat16
    assert dtype_of("float32", CUDA) is torch.float32


@pytest.mark.parametrize(("gain", "dtype"), [(1.3, torch.bfloat16), (1.1, torch.float32), (0.0, torch.float32)])
def test_on_a_cpu_auto_takes_bfloat16_where_windows_are_much_faster(
    gain: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "bfloat16_gain", lambda n_in, n_out: gain if (n_in, n_out) == (896, 4864) else 99.0)
    assert dtype_of("auto", CPU, (896, 4864)) is dtype
    assert dtype_of("float32", CPU, (896, 4864)) is torch.float32
    assert dtype_of("auto", CUDA, (896, 4864)) is torch.bfloat16


def test_a_small_matrix_is_not_timed() -> None:
    assert bfloat16_gain(64, 128) == 0.0


def test_a_format_that_is_timed_has_a_gain_where_the_processor_has_it() -> None:
    assert (bfloat16_gain(1024, 2048) > 0) == torch.ops.mkldnn._is_mkldnn_bf16_supported()


@pytest.mark.parametrize(("budget_s", "n"), [(0.0, 2), (60.0, 5)])
def test_runs_end_with_their_number_or_their_budget(budget_s: float, n: int) -> None:
    runs = list[int]()
    assert fastest(lambda: runs.append(1), least=2, most=5, budget_s=budget_s) >= 0
    assert len(runs) == n

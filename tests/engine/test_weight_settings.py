"""What the setting `weights` means on a device."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from apply_service.engine.weights import Weights, dtype_of, refuse_format
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

"""What the setting `weights` means on a device."""

from __future__ import annotations

import pytest
import torch

from apply_service.engine.weights import candidates, dtype_of
from apply_service.errors import MissingDependency, SettingsError

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _device: request.param)


@pytest.mark.parametrize("card", [(9, 0), (10, 0)], indirect=True)
@pytest.mark.usefixtures("card")
def test_on_a_card_of_today_all_are_there() -> None:
    assert candidates("auto", CUDA) == ("own", "fp8", "int8")
    assert candidates("fp8", CUDA) == ("fp8",)
    assert candidates("bf16", CUDA) == ("own",)


@pytest.mark.parametrize("card", [(7, 5), (8, 6)], indirect=True)
@pytest.mark.usefixtures("card")
def test_an_older_card_has_no_fp8() -> None:
    assert candidates("auto", CUDA) == ("own", "int8")
    with pytest.raises(MissingDependency, match="fp8"):
        candidates("fp8", CUDA)


def test_the_cpu_has_all_of_them_emulated_and_takes_none_by_itself() -> None:
    assert candidates("auto", CPU) == ("own",)
    assert candidates("fp8", CPU) == ("fp8",)
    assert candidates("int8", CPU) == ("int8",)


def test_auto_number_format_follows_the_device() -> None:
    assert dtype_of("auto", "auto", CPU) is torch.float32
    assert dtype_of("auto", "auto", CUDA) is torch.bfloat16
    assert dtype_of("fp8", "auto", CPU) is torch.float32
    assert dtype_of("bf16", "auto", CPU) is torch.bfloat16
    assert dtype_of("int8", "float32", CUDA) is torch.float32


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(SettingsError, match="bfloat16"):
        dtype_of("bf16", "float32", CPU)

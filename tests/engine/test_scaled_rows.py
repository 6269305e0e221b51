"""Rows in 8 bits: rounded to nearest, each by a scale of its own, and broken where the row was."""

from __future__ import annotations

import pytest
import torch

from apply_service.engine.eight_bit import Format, ScaledRows, quantise_in_parts, quantise_rows

FORMATS: list[Format] = ["fp8", "int8"]
ERROR = {"fp8": 1 / 16, "int8": 0.5 / 127}
"""Largest error: of fp8 relative to the number (3 bits of fraction), of int8 relative to the row's largest."""


def restore(rows: ScaledRows) -> torch.Tensor:
    """The numbers that the rows stand for."""
    return rows.values.float() * rows.scales


def random_rows(n_rows: int, n_columns: int) -> torch.Tensor:
    """Rows of very different sizes."""
    x = torch.randn(n_rows, n_columns, generator=torch.Generator().manual_seed(1))
    return x * torch.logspace(-3, 3, n_rows)[:, None]


@pytest.mark.parametrize("number_format", FORMATS)
def test_every_number_is_the_nearest(number_format: Format) -> None:
    x = random_rows(9, 300)
    error = (restore(quantise_rows(x, number_format)) - x).abs()
    largest = x.abs().amax(dim=1, keepdim=True)
    if number_format == "fp8":
        normal = x.abs() > largest * 2**-6 / 448  # below, numbers of e4m3 are evenly spaced
        assert bool((error <= ERROR["fp8"] * x.abs() * 1.001)[normal].all())
    else:
        assert bool((error <= ERROR["int8"] * largest * 1.001).all())


@pytest.mark.parametrize("number_format", FORMATS)
def test_the_largest_of_a_row_stays_itself(number_format: Format) -> None:
    x = random_rows(5, 64)
    found = restore(quantise_rows(x, number_format))
    place = x.abs().argmax(dim=1, keepdim=True)
    torch.testing.assert_close(found.gather(1, place), x.gather(1, place), rtol=1e-6, atol=0)


@pytest.mark.parametrize("number_format", FORMATS)
def test_a_row_is_the_same_in_any_company(number_format: Format) -> None:
    x = random_rows(6, 48)
    together = quantise_rows(x, number_format)
    for i in range(6):
        alone = quantise_rows(x[i : i + 1], number_format)
        assert torch.equal(alone.scales, together.scales[i : i + 1])
        assert torch.equal(alone.values.view(torch.uint8), together.values[i : i + 1].view(torch.uint8))


@pytest.mark.parametrize("number_format", FORMATS)
def test_a_matrix_in_parts_is_the_matrix_at_once(number_format: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apply_service.engine.eight_bit.PART_ROWS", 4)
    x = random_rows(10, 16)
    found, wanted = quantise_in_parts(x, number_format), quantise_rows(x, number_format)
    assert torch.equal(found.values.view(torch.uint8), wanted.values.view(torch.uint8))
    assert torch.equal(found.scales, wanted.scales)


@pytest.mark.parametrize("number_format", FORMATS)
def test_zeros_stay_zeros_and_a_broken_row_stays_broken(number_format: Format) -> None:
    x = torch.ones(3, 32)
    x[0] = 0
    x[1, 7] = float("nan")
    found = restore(quantise_rows(x, number_format))
    assert bool((found[0] == 0).all())
    assert bool(found[1].isnan().all())
    assert bool((found[2] == 1).all())

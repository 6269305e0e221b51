"""Choosing tokens: masks and seeds as they come, good and bad."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from apply_service.engine import numpy_local, sampling
from apply_service.engine.layout import WindowRows
from apply_service.engine.sampling import LOGPROB_ROWS, choose, gumbel_noise, logprobs_of
from apply_service.errors import EngineFailure
from apply_service.protocols import SamplingParams, TokenSet
from tests.engine.test_torch_local import DEVICES, skip_without

GREEDY = SamplingParams()


def test_greedy_takes_the_best_and_of_equals_the_first() -> None:
    logits = torch.tensor([[0.0, 2.0, 2.0], [5.0, 1.0, 5.0]])
    assert choose(logits, [WindowRows(0, 2, 0, GREEDY)]).tolist() == [1, 0]


def test_masks_are_of_their_own_row() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0]] * 5)
    first = WindowRows(0, 3, 0, GREEDY, [None, np.array([0, 1]), np.array([0])])
    second = WindowRows(3, 1, 0, GREEDY, [np.array([0])])
    assert choose(logits, [first, second]).tolist() == [2, 1, 0, 0, 2]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_masked_choice_is_the_best_score_of_those_allowed(temperature: float, device: str) -> None:
    skip_without(device)
    logits = torch.randn(40, 30, generator=torch.Generator().manual_seed(1)).to(device)
    rng = np.random.default_rng(1)
    masks: list[TokenSet | None] = [np.sort(rng.choice(30, rng.integers(1, 12), replace=False)) for _ in range(40)]
    rows = WindowRows(0, 40, 9, SamplingParams(temperature, 5), masks)
    noise = gumbel_noise(5, torch.arange(9, 49, device=device), 30)
    scores = logits if temperature == 0 else logits / temperature + noise
    for row, choice, mask in zip(scores.tolist(), choose(logits, [rows]).tolist(), masks, strict=True):
        assert mask is not None
        assert choice == max(mask.tolist(), key=row.__getitem__)


@pytest.mark.parametrize("mask", [[], [3], [-1, 0], [0, 2**33]])
def test_a_mask_that_allows_nothing_real_is_refused(mask: list[int]) -> None:
    with pytest.raises(EngineFailure, match="allowed tokens"):
        choose(torch.zeros(1, 3), [WindowRows(0, 1, 0, GREEDY, [np.array(mask, np.int64)])])


SPLIT_MIX = (6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821)
"""What implementations of SplitMix64 elsewhere give first for the seed 1234567."""


def test_bits_are_mixed_as_by_split_mix_64() -> None:
    states = [(1234567 + i * numpy_local.GOLDEN) % 2**64 for i in range(1, 6)]
    assert numpy_local._mix(np.array(states, np.uint64)).tolist() == list(SPLIT_MIX)
    signed = torch.from_numpy(np.array(states, np.uint64).view(np.int64))
    assert [bits % 2**64 for bits in sampling._mix(signed).tolist()] == list(SPLIT_MIX)


@pytest.mark.parametrize("device", DEVICES)
def test_noise_is_of_the_seed_the_position_and_the_token_alone(device: str) -> None:
    skip_without(device)
    positions = torch.arange(100, device=device)
    whole = gumbel_noise(7, positions, 50)
    assert torch.equal(gumbel_noise(7, positions[[31, 90]], 50), whole[[31, 90]])
    assert torch.equal(gumbel_noise(7, positions, 20), whole[:, :20])
    assert not torch.equal(gumbel_noise(8, positions, 50), whole)
    assert torch.isfinite(whole).all()


@pytest.mark.parametrize("seed", [2**63, 2**64 - 1, -(2**63), 3 * 2**64 + 5, -(2**70)])
def test_any_integer_is_a_seed(seed: int) -> None:
    noise = gumbel_noise(seed, torch.arange(4), 10)
    assert torch.isfinite(noise).all()
    assert torch.equal(noise, gumbel_noise(seed + 2**64, torch.arange(4), 10))


def test_rows_of_no_window_and_other_windows_do_not_matter() -> None:
    logits = torch.randn(9, 40, generator=torch.Generator().manual_seed(2))
    sampled = WindowRows(3, 2, 17, SamplingParams(1.3, 4))
    alone = choose(logits[3:5], [sampled._replace(first=0)]).tolist()
    beside = choose(
        logits, [WindowRows(0, 3, 5, SamplingParams(0.7, 1)), sampled, WindowRows(5, 2, 90, GREEDY)]
    ).tolist()
    assert beside[3:5] == alone
    assert beside[5:] == logits[5:].argmax(-1).tolist()


def test_logprobs_are_of_the_choice_whatever_stands_beside_it() -> None:
    logits = torch.randn(3 * LOGPROB_ROWS + 5, 300, generator=torch.Generator().manual_seed(2)) * 4
    choices = torch.arange(len(logits)) % 300
    found = logprobs_of(logits, choices)
    exact = torch.log(torch.exp(logits.double())[range(len(logits)), choices] / torch.exp(logits.double()).sum(-1))
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=1e-5)
    alone = torch.cat([logprobs_of(row[None], choice[None]) for row, choice in zip(logits, choices, strict=True)])
    assert torch.equal(found, alone)


def test_a_row_that_is_no_number_has_no_logprob() -> None:
    logits = torch.zeros(3, 10)
    logits[1, 4] = torch.nan
    assert torch.isnan(logprobs_of(logits, torch.tensor([0, 4, 0]))).tolist() == [False, True, False]

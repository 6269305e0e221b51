"""What a pass decides, as tensors: each row's choice, how much of each window's draft it makes stand, and the lengths
that the sessions have then.  The same code runs eagerly on any device and inside a captured graph.

A draft token stands while it equals the choice before it: greedy and Gumbel choices are functions of the prefix, so
this is exact, not a ratio test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from apply_service.engine.device_inputs import PassInputs
from apply_service.engine.replay_answers import BOOST
from apply_service.engine.sampling import choose, logprobs_of
from apply_service.protocols import Window

Chooser = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Logits [n, vocab] -> the best token of each row, the lowest of equals [n] int64, and its log probability [n]."""


class Decision(NamedTuple):
    """What the target decided on one window: the accepted tokens and its own next one, their log probabilities, and
    how many tokens the session holds then."""

    choices: list[int]
    logprobs: list[float]
    length: int


def is_greedy(window: Window) -> bool:
    """Whether the best token of each row is its choice: no temperature, and no mask."""
    return window.sampling.temperature <= 0 and (
        window.allowed is None or all(tokens is None for tokens in window.allowed)
    )


def choose_greedily(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The `Chooser` in plain PyTorch."""
    choices = choose(logits, ())
    return choices, logprobs_of(logits, choices)


def decide(choices: torch.Tensor, logprobs: torch.Tensor, inputs: PassInputs) -> torch.Tensor:
    """All that the host needs of a pass, [4, n] float64 over its first n rows: choice and log probability of each row;
    by window, accepted draft tokens and the session's new length."""
    n = len(choices)
    windows = inputs.windows[:n]
    rows = torch.arange(n, device=choices.device)
    nowhere = torch.full_like(rows, n)
    rejected = torch.where(choices == inputs.next_ids[:n], nowhere, rows)
    firsts = nowhere.scatter_reduce(0, windows, rows, "amin")
    accepted = nowhere.scatter_reduce(0, windows, rejected, "amin") - firsts
    lengths = inputs.positions[firsts.clamp(max=n - 1)] + accepted + 1
    return torch.stack([column.double() for column in (choices, logprobs, accepted, lengths)])


def read_decisions(table: torch.Tensor, firsts: Sequence[int]) -> list[Decision]:
    """The decisions on the windows whose first rows are `firsts`; the one transfer of a pass from the device."""
    choices, logprobs, accepted, lengths = table.tolist()
    found = []
    for i, first in enumerate(firsts):
        stop = first + int(accepted[i]) + 1
        found.append(Decision([int(token) for token in choices[first:stop]], logprobs[first:stop], int(lengths[i])))
    return found


def raise_known(logits: torch.Tensor, known_ids: torch.Tensor) -> torch.Tensor:
    """Make `known_ids` [n] the choices of the rows of `logits` [n, vocab], in place; -1 leaves a row alone."""
    boost = (known_ids >= 0).to(logits.dtype) * BOOST
    return logits.scatter_add_(1, known_ids.clamp(min=0)[:, None], boost[:, None])

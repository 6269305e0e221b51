"""Chooses a token from each row of logits: greedily, or by the Gumbel-max rule.

The argmax of logits / T + Gumbel noise is an exact sample of softmax(logits / T) (Gumbel 1954).  The noise depends only
on the seed, the absolute position and the token id.  So a seed gives the same tokens whatever was drafted, and no
acceptance ratio is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from apply_service.engine.layout import WindowRows
from apply_service.engine.numpy_local import GOLDEN, MIX_1, MIX_2
from apply_service.errors import EngineFailure

_GOLDEN, _MIX_1, _MIX_2 = (constant - 2**64 for constant in (GOLDEN, MIX_1, MIX_2))
"""The constants as signed integers, because PyTorch can't multiply unsigned integers."""

LOGPROB_ROWS = 64
NOISE_TOKENS = 8192
"""At most this many tokens get their noise at a time on a CPU."""

GreedyChoice = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Takes logits [n, vocab], and returns the best token of each row [n] int64 and its log probability [n].  Ties go to
the lowest id."""


def choose(logits: torch.Tensor, windows: Sequence[WindowRows]) -> torch.Tensor:
    """Return the token chosen in each row of `logits` [n_rows, vocab], as [n_rows] int64.  Rows outside all windows are
    greedy.  Ties go to the lowest id."""
    scores = logits.float()
    if any(window.sampling.temperature > 0 for window in windows):
        scores = scores.clone()
    for window in windows:
        temperature, rows = window.sampling.temperature, slice(window.first, window.first + window.n_rows)
        if temperature > 0:
            positions = torch.from_numpy(window.positions).to(logits.device)
            noise = gumbel_noise(window.sampling.seed, positions, logits.shape[-1])
            scores[rows] = scores[rows] / temperature + noise
    choices = scores.argmax(dim=-1)
    masked = [one for window in windows for one in window.masks()]
    if not masked:
        return choices
    # Gather the allowed logits of all masked rows at once, because one mask over the vocabulary for each row would be
    # large.
    table = torch.empty((len(masked), max(len(ids) for _, ids in masked)), dtype=torch.int64)
    for i, (_, ids) in enumerate(masked):
        if not len(ids) or ids[0] < 0 or ids[-1] >= scores.shape[-1]:
            raise EngineFailure(
                "internal fault: the set of allowed tokens is empty, or not of this model", limit=scores.shape[-1]
            )
        table[i, : len(ids)] = torch.from_numpy(ids)
        table[i, len(ids) :] = int(ids[0])
    table = table.to(scores.device)
    index = torch.tensor([row for row, _ in masked], device=scores.device)
    best = scores[index[:, None], table].argmax(dim=-1, keepdim=True)
    return choices.index_copy(0, index, table.gather(1, best)[:, 0])


def choose_greedily(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the best tokens of `logits` and their log probabilities: the `GreedyChoice` of plain PyTorch."""
    choices = choose(logits, ())
    return choices, logprobs_of(logits, choices)


def logprobs_of(logits: torch.Tensor, choices: torch.Tensor) -> torch.Tensor:
    """Return the natural log of the probability of each row's choice at temperature 1, as [n_rows] float32.  A row's
    value does not depend on the other rows.

    A few rows are computed at a time.  For 256 rows of 32,832 logits in one call, allocating the result would take
    longer than everything else (docs/log.md).
    """
    parts = zip(torch.split(logits, LOGPROB_ROWS), torch.split(choices, LOGPROB_ROWS), strict=True)
    return torch.cat([rows.float().log_softmax(-1).gather(1, ids[:, None])[:, 0] for rows, ids in parts])


def gumbel_noise(seed: int, positions: torch.Tensor, n_vocab: int) -> torch.Tensor:
    """Return standard Gumbel noise [n_rows, n_vocab] float32, a pure function of (seed modulo 2**64, position, token
    id).

    On a CPU NOISE_TOKENS tokens are computed at a time, in place: they stay in the cache, and the result is the same.
    """
    seed = (seed + 2**63) % 2**64 - 2**63
    key = _mix(_mix(positions.to(torch.int64) * _GOLDEN + seed) + seed)[:, None]
    tokens = torch.arange(n_vocab, device=positions.device, dtype=torch.int64) * _GOLDEN
    parts = torch.split(tokens, NOISE_TOKENS if positions.device.type == "cpu" else n_vocab)
    return torch.cat([_noise_of(_mix(key + part)) for part in parts], dim=1)


def _noise_of(bits: torch.Tensor) -> torch.Tensor:
    """Return the noise [n_rows, n_tokens] float32 of random bits int64, which are changed."""
    bits >>= 11
    bits &= (1 << 53) - 1
    uniform = bits.to(torch.float64)
    uniform += 0.5
    uniform *= 2.0**-53
    return uniform.log_().neg_().log_().neg_().to(torch.float32)


def _mix(x: torch.Tensor) -> torch.Tensor:
    """Return the output of SplitMix64's finaliser on int64; `x` is changed.

    Products wrap, and masks clear the copies of the sign bit after each shift.
    """
    for shift, factor in ((30, _MIX_1), (27, _MIX_2), (31, 1)):
        high = x >> shift
        high &= (1 << (64 - shift)) - 1
        x ^= high
        x *= factor
    return x

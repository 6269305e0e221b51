"""The choice of a token from a row of logits: greedy, or Gumbel-max with noise that depends on nothing but the seed,
the absolute position and the token id.

Argmax of logits / T + Gumbel noise is an exact sample of softmax(logits / T) (Gumbel 1954).  As the noise is a
function of the position, the same seed gives the same tokens whatever was drafted: no acceptance ratio is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from apply_service.errors import EngineFailure
from apply_service.protocols import SamplingParams, TokenSet

# Odd 64-bit constants of SplitMix64 (Steele, Lea, Flood 2014), as signed integers.
_GOLDEN = -7046029254386353131
_MIX_1 = -4658895280553007687
_MIX_2 = -7723592293110705685

LOGPROB_ROWS = 64


class Rows(NamedTuple):
    """Consecutive rows of a pass that are chosen from in one way: one window.

    `position` is the absolute position of the first row's choice; `allowed[i]` masks row i, None (or no entry) nothing.
    """

    first: int
    n_rows: int
    position: int
    sampling: SamplingParams
    allowed: Sequence[TokenSet | None] | None = None


def choose(logits: torch.Tensor, windows: Sequence[Rows]) -> torch.Tensor:
    """The token chosen in each row.  `logits` [n_rows, vocab] -> [n_rows] int64; rows of no window are greedy.

    Ties go to the lowest id.
    """
    scores = logits.float()
    if any(rows.sampling.temperature > 0 for rows in windows):
        scores = scores.clone()
    for rows in windows:
        if rows.sampling.temperature > 0:
            here = slice(rows.first, rows.first + rows.n_rows)
            positions = torch.arange(rows.position, rows.position + rows.n_rows, device=logits.device)
            noise = gumbel_noise(rows.sampling.seed, positions, logits.shape[-1])
            scores[here] = scores[here] / rows.sampling.temperature + noise
    choices = scores.argmax(dim=-1)
    masked = [
        (rows.first + i, ids)
        for rows in windows
        for i, ids in zip(range(rows.n_rows), rows.allowed or (), strict=False)
        if ids is not None
    ]
    return _masked(scores, choices, masked) if masked else choices


def _masked(scores: torch.Tensor, choices: torch.Tensor, masked: Sequence[tuple[int, TokenSet]]) -> torch.Tensor:
    """Replace the choice of every masked row by the best of its set; one gather for all rows, no vocabulary-sized
    mask."""
    width = max(len(tokens) for _, tokens in masked)
    table = torch.empty((len(masked), width), dtype=torch.int64)
    for i, (_, tokens) in enumerate(masked):
        if not len(tokens) or tokens[0] < 0 or tokens[-1] >= scores.shape[-1]:
            raise EngineFailure("a mask is empty, or not of this vocabulary", limit=scores.shape[-1])
        table[i, : len(tokens)] = torch.from_numpy(tokens)
        table[i, len(tokens) :] = int(tokens[0])
    table = table.to(scores.device)
    index = torch.tensor([row for row, _ in masked], device=scores.device)
    best = scores[index[:, None], table].argmax(dim=-1, keepdim=True)
    return choices.index_copy(0, index, table.gather(1, best)[:, 0])


def logprobs_of(logits: torch.Tensor, choices: torch.Tensor) -> torch.Tensor:
    """Natural log of the probability of each row's choice [n_rows] float32, at temperature 1, whatever row stands
    beside it.

    A few rows at a time: over 256 rows of 32,832 in one call the memory for the result takes longer than the rest
    (docs/log.md).
    """
    parts = zip(torch.split(logits, LOGPROB_ROWS), torch.split(choices, LOGPROB_ROWS), strict=True)
    return torch.cat([rows.float().log_softmax(-1).gather(1, ids[:, None])[:, 0] for rows, ids in parts])


def gumbel_noise(seed: int, positions: torch.Tensor, n_vocab: int) -> torch.Tensor:
    """Standard Gumbel noise [n_rows, n_vocab] float32, a pure function of (seed modulo 2**64, position, token id)."""
    seed = (seed + 2**63) % 2**64 - 2**63
    tokens = torch.arange(n_vocab, device=positions.device, dtype=torch.int64)
    key = _mix(_mix(positions.to(torch.int64) * _GOLDEN + seed) + seed)
    bits = _mix(key[:, None] + tokens[None, :] * _GOLDEN)
    uniform = (((bits >> 11) & ((1 << 53) - 1)).to(torch.float64) + 0.5) * 2.0**-53
    return -torch.log(-torch.log(uniform)).to(torch.float32)


def _mix(x: torch.Tensor) -> torch.Tensor:
    """SplitMix64's finaliser on int64, wrapping; shifts made logical by masking the sign's copies."""
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * _MIX_1
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * _MIX_2
    return x ^ ((x >> 31) & ((1 << 33) - 1))

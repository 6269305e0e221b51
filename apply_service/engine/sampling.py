"""The choice of a token from a row of logits: greedy, or Gumbel-max with noise that depends on nothing but the seed,
the absolute position and the token id.

Argmax of logits / T + Gumbel noise is an exact sample of softmax(logits / T) (Gumbel 1954).  As the noise is a
function of the position, the same seed gives the same tokens whatever was drafted: no acceptance ratio is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from apply_service.protocols import SamplingParams, TokenSet

# Odd 64-bit constants of SplitMix64 (Steele, Lea, Flood 2014), as signed integers.
_GOLDEN = -7046029254386353131
_MIX_1 = -4658895280553007687
_MIX_2 = -7723592293110705685


def choose(
    logits: torch.Tensor, positions: torch.Tensor, sampling: SamplingParams, allowed: Sequence[TokenSet | None] | None
) -> torch.Tensor:
    """The token chosen in each row.  `logits` [n_rows, vocab], `positions` [n_rows] absolute -> [n_rows] int64.

    Ties go to the lowest id.  `allowed` [<= n_rows]: masks of the first rows; later rows are free.
    """
    scores = logits.float()
    if sampling.temperature > 0:
        scores = scores / sampling.temperature + gumbel_noise(sampling.seed, positions, logits.shape[-1])
    choices = scores.argmax(dim=-1)
    if allowed is None or all(tokens is None for tokens in allowed):
        return choices
    return _masked(scores, choices, allowed)


def _masked(scores: torch.Tensor, choices: torch.Tensor, allowed: Sequence[TokenSet | None]) -> torch.Tensor:
    """Replace the choice of every masked row by the best of its set; one gather for all rows, no vocabulary-sized
    mask."""
    rows = [i for i, tokens in enumerate(allowed) if tokens is not None]
    sets = [tokens for tokens in allowed if tokens is not None]
    width = max(len(tokens) for tokens in sets)
    table = torch.empty((len(rows), width), dtype=torch.int64)
    for i, tokens in enumerate(sets):
        table[i, : len(tokens)] = torch.from_numpy(tokens)
        table[i, len(tokens) :] = int(tokens[0])
    table = table.to(scores.device)
    index = torch.tensor(rows, device=scores.device)
    best = scores[index].gather(1, table).argmax(dim=-1, keepdim=True)
    return choices.index_copy(0, index, table.gather(1, best)[:, 0])


def gumbel_noise(seed: int, positions: torch.Tensor, n_vocab: int) -> torch.Tensor:
    """Standard Gumbel noise [n_rows, n_vocab] float32, a pure function of (seed, position, token id)."""
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

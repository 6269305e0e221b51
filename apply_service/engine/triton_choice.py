"""The best token of each row of logits and its log probability, in one reading of the logits.

In plain PyTorch the same takes several passes over a copy in float32, which for a small model on a large vocabulary is
a good part of its time.  Two kernels: `_best_of_block` looks at a stretch of a row, `_best_of_row` at what they found.
"""

# No postponed annotations here: see `triton_attention`.
import torch
import triton
import triton.language as tl

BLOCK = 4096


@triton.jit
def _best_of_block(logits, peaks, places, sums, n_vocab, row_stride, n_blocks, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    columns = part * block + tl.arange(0, block)
    scores = tl.load(logits + row * row_stride + columns, mask=columns < n_vocab, other=float("-inf")).to(tl.float32)
    peak = tl.max(scores, 0)
    here = row * n_blocks + part
    tl.store(peaks + here, peak)
    tl.store(places + here, part * block + tl.argmax(scores, 0))
    tl.store(sums + here, tl.sum(tl.exp(scores - peak), 0))


@triton.jit
def _best_of_row(peaks, places, sums, choices, logprobs, n_blocks, width: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, width)
    is_block = at < n_blocks
    mine = tl.load(peaks + row * n_blocks + at, mask=is_block, other=float("-inf"))
    best = tl.argmax(mine, 0)  # of equals the first, which holds the lower tokens
    peak = tl.max(mine, 0)
    total = tl.sum(tl.load(sums + row * n_blocks + at, mask=is_block, other=0.0) * tl.exp(mine - peak), 0)
    tl.store(choices + row, tl.load(places + row * n_blocks + best))
    tl.store(logprobs + row, -tl.log(total))


def choose_best(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`logits` [n, vocab] -> the best token of each row, the lowest of equals [n] int64, and the natural log of its
    probability [n] float32; NaN where a logit is."""
    n_rows, n_vocab = logits.shape
    n_blocks = triton.cdiv(n_vocab, BLOCK)
    peaks, sums = logits.new_empty((2, n_rows, n_blocks), dtype=torch.float32)
    places = logits.new_empty((n_rows, n_blocks), dtype=torch.int64)
    choices, logprobs = places.new_empty((n_rows,)), peaks.new_empty((n_rows,))
    _best_of_block[(n_rows, n_blocks)](
        logits, peaks, places, sums, n_vocab, logits.stride(0), n_blocks, block=BLOCK, num_warps=8
    )
    _best_of_row[(n_rows,)](
        peaks, places, sums, choices, logprobs, n_blocks, width=triton.next_power_of_2(n_blocks), num_warps=1
    )
    return choices, logprobs

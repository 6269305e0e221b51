"""Computes the attention of a packed pass in Triton: the query rows of each session attend to that session's slots.

It needs no mask tensor and never repeats keys or values for the query heads that share them.  There are two kernels:

- `_attend_split` computes a partial sum: one tile of query tokens (all heads of one KV head) attends to one split, a
  range of `split` absolute positions.
- `_join_splits` adds the partial sums of a row in the order of their positions.

The result of a row depends only on its own position and keys, not on its window or on its neighbours.  There are two
reasons: all tiles have one shape, and absolute positions alone decide which keys are summed together and in which
order.  Tests compare every bit in Triton's interpreter; on a GPU the self-test at the start checks it.

The kernels read lengths from device tensors, so one captured graph serves all lengths.  Importing this module needs
`triton`.  On a CPU the kernels run only with TRITON_INTERPRET=1.
"""

# No postponed annotations here: Triton's interpreter compares a kernel's annotations with `tl.constexpr`.
import torch
import triton
import triton.language as tl

from apply_service.engine.attention import Places, TileShape


@triton.jit
def _store_rows(key, value, keys, values, slots, row_stride, head_stride, value_row_stride, value_head_stride,
                slot_stride, pool_stride,
                n_heads: tl.constexpr, dim: tl.constexpr, block_dim: tl.constexpr):  # fmt: skip
    row = tl.program_id(0)
    slot = tl.load(slots + row)
    if slot >= 0:
        at = tl.arange(0, block_dim)
        for head in range(n_heads):
            target = (slot * 0 + head) * pool_stride + slot * slot_stride + at
            new_key = tl.load(key + row * row_stride + head * head_stride + at, mask=at < dim)
            tl.store(keys + target, new_key, mask=at < dim)
            new_value = tl.load(value + row * value_row_stride + head * value_head_stride + at, mask=at < dim)
            tl.store(values + target, new_value, mask=at < dim)


@triton.jit
def _attend_split(query, keys, values, partial, peaks, sums, positions, tiles, n_rows, n_heads,
                  row_stride, head_stride, slot_stride, pool_stride, scale, cap, window,
                  group: tl.constexpr, dim: tl.constexpr, block_dim: tl.constexpr, block_rows: tl.constexpr,
                  block_keys: tl.constexpr, split: tl.constexpr, is_capped: tl.constexpr, is_sliding: tl.constexpr,
                  precision: tl.constexpr, is_widened: tl.constexpr):  # fmt: skip
    tile = tl.program_id(0)
    kv_head = tl.program_id(1)
    stretch = tl.program_id(2)
    first_row = tl.load(tiles + 3 * tile)
    n_tokens = tl.load(tiles + 3 * tile + 1)
    first_slot = tl.load(tiles + 3 * tile + 2)
    first_position = tl.load(positions + first_row)
    stop = tl.minimum(first_position + n_tokens, (stretch + 1) * split)
    start = first_position * 0 + stretch * split
    if is_sliding:
        # Skip the blocks before the window of the tile's first row: no row of the tile sees them.
        oldest = tl.maximum(first_position - window + 1, 0) // block_keys * block_keys
        start = tl.maximum(start, oldest)
    if (n_tokens > 0) & (start < stop):
        places = tl.arange(0, block_rows)
        tokens = places // group
        is_row = tokens < n_tokens
        heads = kv_head * group + places % group
        rows = first_row + tokens
        row_positions = first_position + tokens
        at = tl.arange(0, block_dim)
        is_dim = at < dim
        q = tl.load(
            query + (rows * row_stride + heads * head_stride)[:, None] + at[None, :],
            mask=is_row[:, None] & is_dim[None, :],
            other=0.0,
        )
        if is_widened:
            q = q.to(tl.float32)
        peak = tl.full([block_rows], float("-inf"), tl.float32)
        total = tl.full([block_rows], 0.0, tl.float32)
        found = tl.full([block_rows, block_dim], 0.0, tl.float32)
        base = (first_slot * 0 + kv_head) * pool_stride + first_slot * slot_stride
        for block in range(start, stop, block_keys):
            key_positions = block + tl.arange(0, block_keys)
            is_key = key_positions < first_position + n_tokens
            places_of_keys = base + key_positions * slot_stride
            k = tl.load(keys + places_of_keys[None, :] + at[:, None], mask=is_key[None, :] & is_dim[:, None], other=0.0)
            if is_widened:
                k = k.to(tl.float32)
            scores = tl.dot(q, k, input_precision=precision) * scale
            if is_capped:
                # tanh(x) = 1 - 2 / (exp(2x) + 1).  It stays right (1 or -1) when exp overflows to infinity or is 0.
                scores = cap * (1.0 - 2.0 / (tl.exp2(scores * (2.0 * 1.4426950408889634 / cap)) + 1.0))
            is_seen = key_positions[None, :] <= row_positions[:, None]
            if is_sliding:
                is_seen = is_seen & (row_positions[:, None] - key_positions[None, :] < window)
            scores = tl.where(is_seen, scores * 1.4426950408889634, float("-inf"))
            new_peak = tl.maximum(peak, tl.max(scores, 1))
            # The peak of a row that has seen no key yet is -inf.  Its weights must be 0, but -inf - -inf is NaN.
            safe_peak = tl.where(new_peak == float("-inf"), 0.0, new_peak)
            weights = tl.exp2(scores - safe_peak[:, None])
            kept = tl.exp2(peak - safe_peak)
            v = tl.load(
                values + places_of_keys[:, None] + at[None, :], mask=is_key[:, None] & is_dim[None, :], other=0.0
            )
            total = total * kept + tl.sum(weights, 1)
            weights = weights.to(v.dtype)
            if is_widened:
                weights = weights.to(tl.float32)
                v = v.to(tl.float32)
            found = found * kept[:, None] + tl.dot(weights, v, input_precision=precision)
            peak = new_peak
        here = (stretch * n_rows + rows) * n_heads + heads
        tl.store(peaks + here, peak, mask=is_row)
        tl.store(sums + here, total, mask=is_row)
        tl.store(partial + here[:, None] * dim + at[None, :], found, mask=is_row[:, None] & is_dim[None, :])


@triton.jit
def _join_splits(partial, peaks, sums, out, positions, slots, n_rows, n_heads, window,
                 group: tl.constexpr, block_group: tl.constexpr, dim: tl.constexpr, block_dim: tl.constexpr,
                 split: tl.constexpr, is_sliding: tl.constexpr):  # fmt: skip
    row = tl.program_id(0)
    members = tl.arange(0, block_group)
    is_head = members < group
    heads = tl.program_id(1) * group + members
    at = tl.arange(0, block_dim)
    is_value = is_head[:, None] & (at < dim)[None, :]
    position = tl.load(positions + row)
    first = position * 0
    if is_sliding:
        first = tl.maximum(position - window + 1, 0) // split
    # Rows of padding come out as zeros.
    stop = tl.where(tl.load(slots + row) >= 0, position // split + 1, first)
    peak = tl.full([block_group], float("-inf"), tl.float32)
    total = tl.full([block_group], 0.0, tl.float32)
    found = tl.full([block_group, block_dim], 0.0, tl.float32)
    for stretch in range(first, stop):
        here = (stretch * n_rows + row) * n_heads + heads
        other = tl.load(peaks + here, mask=is_head, other=float("-inf"))
        new_peak = tl.maximum(peak, other)
        safe_peak = tl.where(new_peak == float("-inf"), 0.0, new_peak)
        kept = tl.exp2(peak - safe_peak)
        added = tl.exp2(other - safe_peak)
        total = total * kept + tl.load(sums + here, mask=is_head, other=0.0) * added
        part = tl.load(partial + here[:, None] * dim + at[None, :], mask=is_value, other=0.0)
        found = found * kept[:, None] + part * added[:, None]
        peak = new_peak
    result = found / tl.where(total > 0, total, 1.0)[:, None]
    target = out + (row * n_heads + heads)[:, None] * dim + at[None, :]
    tl.store(target, result.to(out.dtype.element_ty), mask=is_value)


def store(
    key: torch.Tensor, value: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, slots: torch.Tensor
) -> None:
    """Write the new `key` and `value` [n_kv_heads, n_rows, d] into `keys` and `values` [n_kv_heads, n_slots, d].  A row
    with slot -1 is padding and is skipped."""
    key, value = _dense(key), _dense(value)
    n_heads, n_rows, dim = key.shape
    _store_rows[(n_rows,)](
        key, value, keys, values, slots, key.stride(1), key.stride(0), value.stride(1), value.stride(0),
        keys.stride(1), keys.stride(0),
        n_heads=n_heads, dim=dim, block_dim=triton.next_power_of_2(dim), num_warps=1,
    )  # fmt: skip


def attend_slots(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    places: Places,
    tile: TileShape,
    *,
    scale: float,
    sliding_window: int | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """Return the attention [n_rows, n_heads, d] of `query` [n_heads, n_rows, d] to `keys` and `values`
    [n_kv_heads, n_slots, d].

    Every row sees the keys of its session up to its own position.  These keys must already be stored.  Allocates
    `n_splits * n_rows * n_heads * (d + 2)` float32 for the partial sums.
    """
    query = _dense(query)
    n_heads, n_rows, dim = query.shape
    n_kv_heads, group = keys.shape[0], n_heads // keys.shape[0]
    block_dim = max(16, triton.next_power_of_2(dim))
    options = {"dim": dim, "block_dim": block_dim, "split": tile.split, "is_sliding": sliding_window is not None}
    window = 0 if sliding_window is None else sliding_window
    partial = query.new_empty((places.n_splits, n_rows, n_heads, dim), dtype=torch.float32)
    peaks, sums = query.new_empty((2, places.n_splits, n_rows, n_heads), dtype=torch.float32)
    out = query.new_empty((n_rows, n_heads, dim))
    _attend_split[(len(places.tiles), n_kv_heads, places.n_splits)](
        query, keys, values, partial, peaks, sums, places.positions, places.tiles, n_rows, n_heads,
        query.stride(1), query.stride(0), keys.stride(1), keys.stride(0), scale, softcap or 1.0, window,
        group=group, block_rows=tile.rows, block_keys=tile.keys, is_capped=softcap is not None,
        precision="ieee" if query.dtype == torch.float32 else "tf32",
        is_widened=is_interpreted() and query.dtype == torch.bfloat16, num_warps=tile.warps, num_stages=tile.stages,
        **options,
    )  # fmt: skip
    _join_splits[(n_rows, n_kv_heads)](
        partial, peaks, sums, out, places.positions, places.slots, n_rows, n_heads, window,
        group=group, block_group=triton.next_power_of_2(group), num_warps=4, **options,
    )  # fmt: skip
    return out


def is_interpreted() -> bool:
    """Tell whether the kernels run in Triton's interpreter, which can't multiply bfloat16."""
    return not isinstance(_attend_split, triton.JITFunction)


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor, or a copy if its last dimension is strided: the kernels need the last stride to be 1."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()

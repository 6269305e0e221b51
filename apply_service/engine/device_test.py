"""Whether what a device runs in the place of PyTorch gives PyTorch's results: looked at once, before an engine is used.

That rows keep their bits is `self_test`'s matter; here a broken driver, compiler or capture is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F  # noqa: N812

from apply_service.engine.attention_kernel import KernelAttention
from apply_service.engine.attention_tiles import Places
from apply_service.engine.graphs import EagerPasses
from apply_service.errors import EngineFailure
from apply_service.protocols import Prefill, SamplingParams, Window

if TYPE_CHECKING:
    from apply_service.engine.torch_local import TorchEngine

N_ROWS = 5
POSITIONS = (0, 58, 530)
"""Of the first rows that are compared: an empty cache, one block of keys, two stretches."""
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 3e-2, torch.float16: 1e-2}
"""Of the largest value, for attention."""
REPLAY_TOLERANCE = 2e-2
"""Of the largest logit, for a replayed pass: the same kernels, in whatever variant the libraries choose."""


def check_device_parts(engine: TorchEngine, seed: int = 0) -> None:
    """
    Raises:
        EngineFailure: the attention kernel or a replayed pass is wrong; says by how much.
    """
    if engine.kernel is not None:
        _check("the attention kernel", attention_error(engine.kernel, engine, seed), TOLERANCE[engine.pool.shape.dtype])
    if engine.has_graphs:
        _check("a replayed pass", replay_error(engine, seed), REPLAY_TOLERANCE)


def _check(what: str, error: float, limit: float) -> None:
    if not error <= limit:
        raise EngineFailure(f"{what} differs from what it replaces", value=error, limit=limit)


@torch.inference_mode()
def attention_error(kernel: KernelAttention, engine: TorchEngine, seed: int) -> float:
    """The largest difference of the kernel from plain attention in float32, over random keys and queries of the model's
    shapes, as a share of the largest value."""
    shape = engine.pool.shape
    generator = torch.Generator(shape.device).manual_seed(seed)
    n_slots = max(POSITIONS) + N_ROWS

    def draw(*size: int) -> torch.Tensor:
        drawn = torch.randn(size, generator=generator, device=shape.device)
        return drawn.to(shape.dtype)

    keys, values = (draw(shape.n_kv_heads, n_slots, shape.head_dim) for _ in range(2))
    worst = 0.0
    for position in POSITIONS:
        query = draw(shape.n_kv_heads * kernel.group, N_ROWS, shape.head_dim)
        positions = torch.arange(position, position + N_ROWS, device=shape.device)
        tiles = list(kernel.tile.cut(0, N_ROWS, 0, kernel.group))
        places = Places(
            positions, positions, torch.tensor(tiles, device=shape.device), kernel.tile.n_splits(position + N_ROWS)
        )
        scale = shape.head_dim**-0.5
        found = kernel.kernels.attend_slots(query, keys, values, places, kernel.tile, scale=scale)
        seen = torch.arange(n_slots, device=shape.device)[None] <= positions[:, None]
        k, v = (one.float().repeat_interleave(kernel.group, 0) for one in (keys, values))
        wanted = F.scaled_dot_product_attention(query.float(), k, v, attn_mask=seen, scale=scale).transpose(0, 1)
        worst = max(worst, float((found.float() - wanted).abs().max() / wanted.abs().max()))
    return worst


def replay_error(engine: TorchEngine, seed: int) -> float:
    """The largest difference between the logits of a pass that was captured for another sequence and of the same pass
    step by step, as a share of the largest logit."""
    generator = torch.Generator().manual_seed(seed)
    n_vocab = engine.model.config.get_text_config().vocab_size
    n_rows, drawn = engine.buckets[0], torch.randint(0, n_vocab, (2, 24), generator=generator).tolist()
    found = []
    for ids in drawn:
        session = engine.open(ids[:20], 8)
        assert session is not None
        with session:
            engine.step([Prefill(session, session.n_pending)])
            window = Window(session, ids[20], ids[21:], SamplingParams())
            logits, layout = engine.logits([window], max(n_rows, window.n_rows))
            found = [logits[: layout.n_window_rows].float().clone()]
            graphed, engine.passes = engine.passes, EagerPasses(engine.device)
            logits, layout = engine.logits([window], max(n_rows, window.n_rows))
            found.append(logits[: layout.n_window_rows].float())
            engine.passes = graphed
    return float((found[0] - found[1]).abs().max() / found[1].abs().max())

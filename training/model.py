"""The network to train: a Llama in plain torch whose parameters bear the names of `LlamaForCausalLM`.

It is only for training: batches of whole sequences, no cache.  The service loads the exported weights through
transformers; a test holds the two to the same logits.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, cast

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


@dataclass(frozen=True, slots=True)
class Shape:
    """Size of the network.  Heads are `d_model // n_heads` wide."""

    n_vocab: int
    n_layers: int = 5
    d_model: int = 256
    n_heads: int = 4
    d_ff: int = 512
    rope_theta: float = 2.0**48
    """So that pair i turns by 2^-1.5i a token: the first pairs tell offsets, the last hold still over any file."""
    norm_eps: float = 1e-5
    context: int = 8192

    @property
    def d_head(self) -> int:
        return self.d_model // self.n_heads

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Norm(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape.d_model))
        self._eps = shape.norm_eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + self._eps)
        return (x * scale.to(x.dtype)) * self.weight.to(x.dtype)


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self._n_heads = shape.n_heads
        self.q_proj = nn.Linear(shape.d_model, shape.d_model)
        self.k_proj = nn.Linear(shape.d_model, shape.d_model)
        self.v_proj = nn.Linear(shape.d_model, shape.d_model)
        self.o_proj = nn.Linear(shape.d_model, shape.d_model)

    def forward(self, x: torch.Tensor, turn: Turn) -> torch.Tensor:
        n_rows, n_tokens, _ = x.shape
        q, k, v = (
            project(x).view(n_rows, n_tokens, self._n_heads, -1).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        out = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True)
        return cast(torch.Tensor, self.o_proj(out.transpose(1, 2).reshape(n_rows, n_tokens, -1)))


class FeedForward(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.d_model, shape.d_ff, bias=False)
        self.up_proj = nn.Linear(shape.d_model, shape.d_ff, bias=False)
        self.down_proj = nn.Linear(shape.d_ff, shape.d_model, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return cast(torch.Tensor, self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x)))


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = Norm(shape)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = Norm(shape)
        self.mlp = FeedForward(shape)

    def attend(self, x: torch.Tensor, turn: Turn) -> torch.Tensor:
        return cast(torch.Tensor, x + self.self_attn(self.input_layernorm(x), turn))

    def think(self, x: torch.Tensor) -> torch.Tensor:
        return cast(torch.Tensor, x + self.mlp(self.post_attention_layernorm(x)))


class Turn:
    """Rotary position embedding for given positions [n_rows, n_tokens]."""

    def __init__(self, positions: torch.Tensor, shape: Shape, dtype: torch.dtype) -> None:
        half = shape.d_head // 2
        speeds = shape.rope_theta ** -(torch.arange(half, dtype=torch.float32, device=positions.device) / half)
        angles = positions[:, None, :, None].float() * speeds
        self._cos, self._sin = angles.cos().to(dtype), angles.sin().to(dtype)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * self._cos - second * self._sin, second * self._cos + first * self._sin], dim=-1)


class Body(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.n_vocab, shape.d_model)
        self.layers = nn.ModuleList([Layer(shape) for _ in range(shape.n_layers)])
        self.norm = Norm(shape)


class Network(nn.Module):
    """`dtype` is that of the activations; parameters are float32 and cast where they are used (autocast)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.model = Body(shape)

    def logits(self, ids: torch.Tensor, positions: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """`ids`, `positions` [n_rows, n_tokens]; `rows` [n]: flat places to answer for (all: None) -> [n, vocab].

        The last layer's feed-forward and the head are computed at `rows` alone.
        """
        dtype = torch.get_autocast_dtype(ids.device.type) if torch.is_autocast_enabled(ids.device.type) else None
        x = self.model.embed_tokens(ids)
        x = x if dtype is None else x.to(dtype)
        turn = Turn(positions, self.shape, x.dtype)
        layers = [cast(Layer, layer) for layer in self.model.layers]
        for layer in layers[:-1]:
            x = layer.think(layer.attend(x, turn))
        x = layers[-1].attend(x, turn).reshape(-1, self.shape.d_model)
        x = layers[-1].think(x if rows is None else x[rows])
        return F.linear(self.model.norm(x), self.model.embed_tokens.weight).float()

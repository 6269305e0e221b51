"""Drafts with Medusa (Cai et al. 2024): one head for each of the next tokens, all from the last state of the target.

A head consists of a few residual layers and a matrix over the vocabulary.  A head without a matrix uses that of the
target.  No head knows the tokens that the other heads choose, so each token is right less often than the one before.
Medusa's tree of choices is not built: only the best chain is drafted.

Both public layouts are read.  Head K has `K.J.linear.weight` and `K.N.weight` for the vocabulary, or
`blocks.K.layers.J.weight` and `lm_heads.K.weight`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self, cast

import torch
from torch.nn import functional as F  # noqa: N812

from apply_service.engine.heads.base import Head, fill, read_tensors
from apply_service.engine.torch_local import TorchEngine
from apply_service.errors import ModelNotLoadable
from apply_service.protocols import DraftWriter, SamplingParams, Session

LAYOUTS = (
    (re.compile(r"(\d+)\.(\d+)\.linear\.(weight|bias)"), r"heads.\1.layers.\2.\3"),
    (re.compile(r"blocks\.(\d+)\.layers\.(\d+)\.(weight|bias)"), r"heads.\1.layers.\2.\3"),
    (re.compile(r"(\d+)\.\d+\.weight"), r"heads.\1.vocabulary.weight"),
    (re.compile(r"lm_heads\.(\d+)\.weight"), r"heads.\1.vocabulary.weight"),
)


class MedusaLayers(torch.nn.Module):
    """One head: its layers, and its matrix over the vocabulary (None if the head uses the target's matrix)."""

    def __init__(self, width: int, n_layers: int, *, has_bias: bool, n_vocab: int | None) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width, bias=has_bias) for _ in range(n_layers))
        self.vocabulary = None if n_vocab is None else torch.nn.Linear(width, n_vocab, bias=False)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            states = states + F.silu(layer(states))
        return states


class Medusa(Head):
    name = "medusa"

    def __init__(
        self, engine: TorchEngine, n_heads: int, n_layers: int = 1, *, has_bias: bool = True, n_vocab: int | None = None
    ) -> None:
        super().__init__(engine)
        config = engine.model.config.get_text_config()
        self.watched = (config.num_hidden_layers,)
        self.most = n_heads
        self.heads = torch.nn.ModuleList(
            MedusaLayers(config.hidden_size, n_layers, has_bias=has_bias, n_vocab=n_vocab) for _ in range(n_heads)
        )

    @classmethod
    def load(cls, engine: TorchEngine, _model: Path, folder: Path | None) -> Self:
        tensors: dict[str, torch.Tensor] = {}
        for key, tensor in read_tensors(folder, cls.name).items():
            bare = re.sub(r"^medusa_heads?\.", "", key)
            known = [pattern.sub(new, bare) for pattern, new in LAYOUTS if pattern.fullmatch(bare)]
            if known:
                tensors[known[0]] = tensor
        layers = [key.split(".") for key in tensors if ".layers." in key]
        if not layers:
            message, remedy = "the files have no Medusa heads", "name a folder with Medusa heads as draft_head"
            raise ModelNotLoadable(message, value=str(folder), limit="0.0.linear.weight and so on", remedy=remedy)
        n_heads, n_layers = (1 + max(int(parts[i]) for parts in layers) for i in (1, 3))
        matrix = tensors.get("heads.0.vocabulary.weight")
        has_bias = any(parts[-1] == "bias" for parts in layers)
        n_vocab = None if matrix is None else len(matrix)
        head = cls(engine, n_heads, n_layers, has_bias=has_bias, n_vocab=n_vocab)
        fill(head, tensors, cls.name)
        head.install()
        return head

    def logits(self, states: torch.Tensor, n_tokens: int) -> torch.Tensor:
        """Return the logits [n, n_tokens, vocab] of the first `n_tokens` heads for the target's last states [n, d]."""
        return torch.stack([self.say(states, k) for k in range(min(n_tokens, len(self.heads)))], 1)

    def say(self, states: torch.Tensor, k: int) -> torch.Tensor:
        """Return the logits [n, vocab] of head `k` for `states` [n, d]."""
        head = cast(MedusaLayers, self.heads[k])
        said, vocabulary = head(states), head.vocabulary
        found: torch.Tensor = self.engine.head(said[None]) if vocabulary is None else vocabulary(said)
        return found

    def open(self, session: Session, sampling: SamplingParams) -> DraftWriter:
        return MedusaWriter(self, session, sampling)


class MedusaWriter:
    def __init__(self, head: Medusa, session: Session, sampling: SamplingParams) -> None:
        self._head, self._session, self._sampling = head, session, sampling

    @torch.inference_mode()
    def write(self, output_ids: Sequence[int], n_tokens: int) -> Iterator[int]:  # noqa: ARG002
        n_read = self._session.length
        states = self._head.engine.states(self._session, n_read - 1, n_read)
        yield from self._head.choose(self._head.logits(states, n_tokens)[0], n_read + 1, self._sampling)

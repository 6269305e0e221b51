"""Drafts with prediction layers that a model ships (multi-token prediction: DeepSeek-V3, GLM-4.5, MiMo, Qwen3-Next).

Such a layer is a decoder layer of the model's own kind.  It reads the target's last state and the embedding of the
token after it, both after a norm.  The first prediction layer drafts all tokens.  For the second and later tokens it
reads its own last state.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch

from apply_service.engine.heads.base import HeadCache, RecurrentHead, fill, read_tensors
from apply_service.engine.torch_local import TorchEngine
from apply_service.errors import ModelNotLoadable


class MtpLayout(NamedTuple):
    """The names of the parts in the files, each after `prefix`.  All other tensors with the prefix belong to the
    decoder layer, and `block` is removed from their names."""

    prefix: str
    joined: str
    words: str
    states: str
    norm: str
    block: str
    words_first: bool
    goes_on_normed: bool
    """Whether the next token is drafted from the state after the norm."""


LAYOUTS = (
    MtpLayout("mtp.", "fc", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm", "layers.0.", True, True),
    MtpLayout(
        "model.mtp_layers.0.", "input_proj", "token_layernorm", "hidden_layernorm", "final_layernorm", "", False, True
    ),
    MtpLayout("model.layers.{n_layers}.", "eh_proj", "enorm", "hnorm", "shared_head.norm", "", True, False),
)
SHARED = re.compile(r"(shared_head\.head|embed_tokens|lm_head)\.weight")
"""The tensors that such layers share with the model."""


class Mtp(RecurrentHead):
    name = "mtp"

    def __init__(self, engine: TorchEngine, layout: MtpLayout) -> None:
        super().__init__(engine)
        self._layout = layout
        model = engine.model
        config, like = model.config.get_text_config(), model.base_model.layers[-1]
        width = config.hidden_size
        self.watched = (config.num_hidden_layers,)
        self.block = type(like)(config, layer_idx=config.num_hidden_layers - 1)
        norm: Any = type(self.block.input_layernorm)
        self.joined = torch.nn.Linear(2 * width, width, bias=False)
        self.words, self.states, self.norm = (norm(width, eps=config.rms_norm_eps) for _ in range(3))

    @classmethod
    def load(cls, engine: TorchEngine, model: Path, _folder: Path | None) -> Self:
        n_layers = engine.model.config.get_text_config().num_hidden_layers
        stored = read_tensors(model, cls.name)
        for layout in LAYOUTS:
            prefix = layout.prefix.format(n_layers=n_layers)
            found = {key.removeprefix(prefix): tensor for key, tensor in stored.items() if key.startswith(prefix)}
            if f"{layout.joined}.weight" in found:
                break
        else:
            raise ModelNotLoadable(
                "the model ships no prediction layers",
                value=str(model),
                limit=[layout.prefix.format(n_layers=n_layers) + layout.joined for layout in LAYOUTS],
                remedy="use another drafter",
            )
        parts = {getattr(layout, part): part for part in ("joined", "words", "states", "norm")}
        tensors = {}
        for key, tensor in found.items():
            name, _, end = key.rpartition(".")
            own = f"{parts[name]}.{end}" if name in parts else f"block.{key.removeprefix(layout.block)}"
            if not SHARED.fullmatch(key):
                tensors[own] = tensor
        head = cls(engine, layout)
        fill(head, tensors, cls.name)
        head.install()
        return head

    def fuse(self, states: torch.Tensor) -> torch.Tensor:
        return states

    def read(self, ids: Sequence[int], features: torch.Tensor, cache: HeadCache) -> tuple[torch.Tensor, torch.Tensor]:
        model = self.engine.model
        words = self.words(model.get_input_embeddings()(torch.tensor(ids, device=features.device)))
        states = self.states(features)
        joined = self.joined(torch.cat([words, states] if self._layout.words_first else [states, words], -1))[None]
        positions = torch.arange(cache.length, cache.length + len(ids), device=features.device)[None]
        rotary = model.base_model.rotary_emb(joined, positions)
        out = self.block(joined, position_embeddings=rotary, position_ids=positions, apply_pass=cache)
        out = (out[0] if isinstance(out, tuple) else out)[0]
        normed = self.norm(out)
        return normed, normed if self._layout.goes_on_normed else out

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        return self.engine.head(states[None])

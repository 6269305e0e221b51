"""Drafts with EAGLE-3 (Li et al. 2025): one decoder layer over three hidden states of the target and the next token.

It reads the public layout of the files.  `fc` joins the states of a low, a middle and a high layer.  The decoder layer
(`midlayer`, or `layers.0`) reads them beside the token's embedding.  `lm_head` knows a part of the vocabulary, and
`d2t` gives the ids of this part.  If `mask_hidden` is among the tensors, the head is P-EAGLE's parallel form, which
drafts all tokens in one forward.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch

from apply_service.engine.attention import register
from apply_service.engine.heads.base import HeadCache, RecurrentHead, fill, read_config, read_tensors
from apply_service.engine.torch_local import TorchEngine
from apply_service.errors import ModelNotLoadable

MASK_KEYS = ("ptd_token_id", "pard_token", "mask_token_id")
"""The names that files of the parallel form use for the token that stands for unknown tokens."""
LAYER_KEY = "eagle_aux_hidden_state_layer_ids"
PARALLEL = 8
"""The number of tokens that the parallel form drafts in a forward, unless its files give another number."""


class Eagle3(RecurrentHead):
    name = "eagle3"

    def __init__(self, engine: TorchEngine, config: Mapping[str, Any]) -> None:
        """`config`: the contents of the head's config.json, with at least the sizes of a Llama layer."""
        from transformers import LlamaConfig
        from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding

        super().__init__(engine)
        target = engine.model.config.get_text_config()
        more = config.get("eagle_config") or {}
        n_layers, width = target.num_hidden_layers, target.hidden_size
        default = (2, n_layers // 2, n_layers - 3)
        self.watched = tuple(config.get(LAYER_KEY) or more.get(LAYER_KEY) or default)
        sizes = LlamaConfig.from_dict({**config, "num_hidden_layers": 1}, attn_implementation=register())
        inner, eps = sizes.hidden_size, sizes.rms_norm_eps
        self.fc = torch.nn.Linear(len(self.watched) * width, inner, bias=False)
        self.midlayer = LlamaDecoderLayer(sizes, 0)
        attention = self.midlayer.self_attn
        for name in ("q_proj", "k_proj", "v_proj"):
            old = getattr(attention, name)
            setattr(attention, name, torch.nn.Linear(2 * inner, old.out_features, bias=old.bias is not None))
        self.midlayer.hidden_norm = LlamaRMSNorm(inner, eps)
        self.norm = LlamaRMSNorm(inner, eps)
        n_known = config.get("draft_vocab_size") or sizes.vocab_size
        self.lm_head = torch.nn.Linear(inner, n_known, bias=False)
        self.embed_tokens: torch.nn.Module | None = (
            None if inner == width else torch.nn.Embedding(sizes.vocab_size, inner)
        )
        self.norms_first = bool(config.get("norm_before_residual"))
        self._rotary = [LlamaRotaryEmbedding(sizes)]  # inside a list it is no part of this module, and stays in float32
        self.mask_hidden: torch.nn.Parameter | None = None
        masks = [config[key] for key in MASK_KEYS if config.get(key) is not None]
        if config.get("parallel_drafting") or masks:
            self.mask_hidden = torch.nn.Parameter(torch.zeros(1, len(self.watched) * width))
            self.mask_id = int(masks[0]) if masks else sizes.vocab_size - 1
            self.most = int(config.get("num_speculative_tokens") or PARALLEL)
            self.n_masked = self.most - 1

    @classmethod
    def load(cls, engine: TorchEngine, _model: Path, folder: Path | None) -> Self:
        found = read_tensors(folder, cls.name)
        tensors = {re.sub(r"^layers\.0\.", "midlayer.", key.removeprefix("model.")): found[key] for key in found}
        assert folder is not None
        config = read_config(folder, cls.name)
        head = cls(engine, config)
        if not all(0 <= layer <= len(engine.model.base_model.layers) for layer in head.watched):
            message = "the head reads layers that the model does not have"
            remedy = "use a head that was made for this very model"
            raise ModelNotLoadable(message, value=list(head.watched), remedy=remedy)
        offsets, _ = tensors.pop("d2t", None), tensors.pop("t2d", None)
        if "embed_tokens.weight" in tensors:
            head.embed_tokens = torch.nn.Embedding(*tensors["embed_tokens.weight"].shape)
        if "mask_hidden" in tensors:
            tensors["mask_hidden"] = tensors["mask_hidden"].reshape(1, -1)
        fill(head, tensors, cls.name)
        if offsets is not None:
            head.targets = (torch.arange(len(offsets)) + offsets.long()).to(engine.device)
        head.install()
        return head

    def install(self) -> None:
        super().install()
        self._rotary[0].to(self.engine.device)

    def fuse(self, states: torch.Tensor) -> torch.Tensor:
        fused: torch.Tensor = self.fc(states)
        return fused

    def read(self, ids: Sequence[int], features: torch.Tensor, cache: HeadCache) -> tuple[torch.Tensor, torch.Tensor]:
        embed = self.embed_tokens or self.engine.model.get_input_embeddings()
        words = embed(torch.tensor(ids, device=features.device)).to(features.dtype)
        positions = torch.arange(cache.length, cache.length + len(ids), device=features.device)
        states = self.forward(words[None], features[None], positions[None], apply_pass=cache)[0]
        return self.norm(states), states

    def forward(
        self, words: torch.Tensor, features: torch.Tensor, positions: torch.Tensor, **attention: Any
    ) -> torch.Tensor:
        """Return the states before the norm, from embeddings and features [n_sequences, n, d].  `attention` holds more
        arguments of the layer's attention."""
        layer = self.midlayer
        normed = layer.hidden_norm(features)
        kept = normed if self.norms_first else features
        both = torch.cat([layer.input_layernorm(words), normed], -1)
        rotary = self._rotary[0](words, positions)
        attention = {"attention_mask": None, "position_embeddings": rotary, **attention}
        kept = kept + layer.self_attn(hidden_states=both, **attention)[0]
        out: torch.Tensor = kept + layer.mlp(layer.post_attention_layernorm(kept))
        return out

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.lm_head(states)
        return found

    def mask(self) -> tuple[int, torch.Tensor]:
        assert self.mask_hidden is not None
        return self.mask_id, self.fuse(self.mask_hidden)

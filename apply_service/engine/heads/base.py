"""Drafts with heads: small layers that read the hidden states of the target, in the target's engine.

The passes of the target keep its states beside keys and values (`TorchEngine.watch`).  So a head can draft from
everything that a session has read: prompts, kept prompts and accepted tokens.  A `RecurrentHead` reads pairs of a state
and the token after it, and has keys and values of its own.  While it drafts, it reads states of its own.  At the next
draft these are forgotten, and the target's states are read instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch.nn import functional as F  # noqa: N812

from apply_service.engine.attention import PackedPass
from apply_service.engine.kv_cache import SlotPool, round_up
from apply_service.engine.layout import pack
from apply_service.engine.memory import free_bytes, refuse_too_large
from apply_service.engine.sampling import gumbel_noise
from apply_service.engine.torch_local import KEY_GRAIN, TorchEngine
from apply_service.errors import ModelNotLoadable
from apply_service.protocols import DraftHead, DraftWriter, Prefill, SamplingParams, Session
from apply_service.registry import HEADS, resolve

ROWS_AT_ONCE = 512
"""The most pairs that a head reads in one forward."""
LEAST_COST = 0.02


def open_head(name: str, engine: TorchEngine, model: Path, folder: Path | None) -> DraftHead:
    """Return the head of this name for the target of `engine`.  `model`: the folder of the target.  `folder`: the
    folder of the head's own files, if it has any.

    Raises:
        ModelNotLoadable: the files are missing, unusable, or made for another model.
        ModelTooLarge: there is no memory for the head or for the states.
    """
    head: DraftHead = resolve(HEADS, name).load(engine, model, folder)
    return head


@torch.no_grad()
def read_text(engine: TorchEngine, ids: Sequence[int]) -> Sequence[torch.Tensor]:
    """Return the states [n, d] of one text: the inputs of all layers, and the last layer's output after the norm.  No
    session of the engine is needed."""
    pool = SlotPool(engine.pool.shape, round_up(len(ids), KEY_GRAIN))
    parts = [Prefill(Session([*ids, 0], range(pool.n_slots)), len(ids))]
    layout = pack(parts, len(ids), n_vocab=engine.n_vocab, n_keys=lambda *_: pool.n_slots, query_grain=1)
    output = engine.model.base_model(
        input_ids=torch.tensor([list(ids)], device=engine.device),
        position_ids=torch.tensor(layout.positions, device=engine.device)[None],
        use_cache=False,
        apply_pass=PackedPass(pool, layout.segments),
        output_hidden_states=True,
    )
    return [states[0] for states in output.hidden_states]


class Head(torch.nn.Module):
    """Base class of heads, which draft from the target's states."""

    name: str
    watched: tuple[int, ...]
    """The layers whose states the head needs (`TorchEngine.watched`)."""
    most = 8
    targets: torch.Tensor | None = None
    """The target's ids of the tokens that the head knows [n].  If it is None, the head knows all tokens, with the same
    ids."""

    def __init__(self, engine: TorchEngine) -> None:
        super().__init__()
        self.engine = engine

    def install(self) -> None:
        """Move the weights to the target's device, and let the engine keep the states.  Raises ModelTooLarge if there
        is no memory for the weights and the states."""
        engine, config = self.engine, self.engine.model.config.get_text_config()
        width = len(self.watched) * config.hidden_size
        n_weights = sum(weight.numel() for weight in self.parameters())
        needed = (n_weights + engine.pool.n_slots * width) * engine.pool.shape.dtype.itemsize
        refuse_too_large(f"{self.name}, with the states it needs,", needed, free_bytes(engine.device))
        self.to(engine.device, engine.pool.shape.dtype).eval().requires_grad_(False)
        engine.watch(self.watched)

    @property
    def cost(self) -> float:
        """The cost of a drafted token, as a share of the cost of a pass of the target, counted by the weights that are
        read."""
        n_own, n_target = (sum(w.numel() for w in model.parameters()) for model in (self, self.engine.model))
        return float(max(LEAST_COST, min(1.0, n_own / n_target)))

    def choose(self, logits: torch.Tensor, position: int, sampling: SamplingParams) -> list[int]:
        """Return the tokens chosen from `logits` [n, n_known] for the positions from `position` on, as the target's
        ids.  The noise is the same as the target will draw at these positions."""
        scores = logits.float()
        if sampling.temperature > 0:
            positions = torch.arange(position, position + len(scores), device=scores.device)
            noise = gumbel_noise(sampling.seed, positions, self.engine.n_vocab)
            scores = scores / sampling.temperature + (noise if self.targets is None else noise[:, self.targets])
        chosen = scores.argmax(-1)
        return [int(token) for token in (chosen if self.targets is None else self.targets[chosen])]

    def open(self, session: Session, sampling: SamplingParams) -> DraftWriter:
        raise NotImplementedError


class RecurrentHead(Head):
    """Base class of heads that can draft further tokens from states of their own."""

    n_masked = 0
    """The number of tokens that one forward drafts from `mask` besides the next token.  With 0, each token takes one
    forward."""

    def fuse(self, states: torch.Tensor) -> torch.Tensor:
        """Return the features [n, d_head] that the layer reads, made from the target's `states` [n, n_watched * d]."""
        raise NotImplementedError

    def read(self, ids: Sequence[int], features: torch.Tensor, cache: HeadCache) -> tuple[torch.Tensor, torch.Tensor]:
        """Read pairs of a feature and the token after it, and store their keys and values at the end of `cache`.

        Returns the states for the logits [n, d], and the features for the next pairs [n, d_head].
        """
        raise NotImplementedError

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return the logits [n, n_known] of `states` [n, d]."""
        raise NotImplementedError

    def mask(self) -> tuple[int, torch.Tensor]:
        """Return the token and the feature [1, d_head] that stand for unknown tokens and features."""
        raise NotImplementedError

    def open(self, session: Session, sampling: SamplingParams) -> DraftWriter:
        return RecurrentWriter(self, session, sampling)


class HeadCache:
    """The keys and values of one sequence in a head's layer.  `attention.attend` takes it as its `apply_pass`.

    The first `length` positions are kept.  New pairs overwrite everything after them.
    """

    def __init__(self) -> None:
        self.length = 0
        self._keys = self._values = torch.zeros(0)

    def attend(
        self,
        _layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        scale: float,
        sliding_window: int | None,
        softcap: float | None,
    ) -> torch.Tensor:
        if softcap is not None:
            raise NotImplementedError("a soft cap in the attention of a head")
        stop = self.length + key.shape[1]
        if self._keys.dim() != 3 or stop > self._keys.shape[1]:
            self._keys, self._values = self._grown(self._keys, key, stop), self._grown(self._values, value, stop)
        self._keys[:, self.length : stop], self._values[:, self.length : stop] = key, value
        rows = torch.arange(self.length, stop, device=key.device)[:, None]
        keys = torch.arange(stop, device=key.device)[None]
        visible = keys <= rows if sliding_window is None else (keys <= rows) & (rows - keys < sliding_window)
        known, told = self._keys[None, :, :stop], self._values[None, :, :stop]
        found = F.scaled_dot_product_attention(query[None], known, told, visible, scale=scale, enable_gqa=True)
        return found[0].transpose(0, 1)

    def _grown(self, old: torch.Tensor, new: torch.Tensor, n: int) -> torch.Tensor:
        room = new.new_empty((new.shape[0], max(ROWS_AT_ONCE, 2 * n), new.shape[2]))
        if self.length:
            room[:, : self.length] = old[:, : self.length]
        return room


class RecurrentWriter:
    """Writes the drafts of a `RecurrentHead` for one sequence."""

    def __init__(self, head: RecurrentHead, session: Session, sampling: SamplingParams) -> None:
        self._head, self._session, self._sampling = head, session, sampling
        self._cache = HeadCache()

    @torch.inference_mode()
    def write(self, output_ids: Sequence[int], n_tokens: int) -> Iterator[int]:
        head, session, cache = self._head, self._session, self._cache
        n_read, n_prompt = session.length, len(session.prompt_ids)
        start = min(cache.length, n_read - 1)
        ids = [*session.prompt_ids[start + 1 :], *output_ids[max(0, start + 1 - n_prompt) :]]
        first = start
        while first < n_read:
            stop = min(n_read, first + ROWS_AT_ONCE)
            cache.length = first
            fed, features = ids[first - start : stop - start], head.fuse(head.engine.states(session, first, stop))
            n_masked = min(head.n_masked, n_tokens - 1) if stop == n_read else 0
            if n_masked:
                token, feature = head.mask()
                fed, features = fed + [token] * n_masked, torch.cat([features, feature.expand(n_masked, -1)])
            states, features = head.read(fed, features, cache)
            first = stop
        cache.length = n_read
        drafted = head.choose(head.logits(states[-1 - n_masked :]), n_read + 1, self._sampling)
        yield from drafted
        for n_written in range(len(drafted), 1 if head.n_masked else n_tokens):
            cache.length = n_read + n_written - 1
            states, features = head.read(drafted, features[-1:], cache)
            cache.length = n_read
            drafted = head.choose(head.logits(states[-1:]), n_read + 1 + n_written, self._sampling)
            yield from drafted


def read_tensors(folder: Path | None, name: str) -> dict[str, torch.Tensor]:
    """Return all tensors in the safetensors files of `folder`.  Raises ModelNotLoadable if there are no such files, or
    a file can't be read."""
    remedy = f"set draft_head to a folder with the files of {name}, as safetensors"
    files = [] if folder is None else sorted(folder.glob("*.safetensors"))
    try:
        tensors = {key: tensor for file in files for key, tensor in load_file(file).items()}
    except (OSError, SafetensorError) as error:
        message = f"the files of {name} can't be read: {error}"
        raise ModelNotLoadable(message, value=str(folder), remedy=remedy) from error
    if not tensors:
        raise ModelNotLoadable(f"{name} has no weights", value=str(folder), limit="*.safetensors", remedy=remedy)
    return tensors


def read_config(folder: Path, name: str) -> dict[str, Any]:
    """Return the contents of config.json in `folder`.  Raises ModelNotLoadable if the file can't be read."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        message, remedy = f"config.json of {name} can't be read: {error}", "download the files again"
        raise ModelNotLoadable(message, value=str(folder), remedy=remedy) from error
    return config


def fill(module: torch.nn.Module, tensors: dict[str, torch.Tensor], name: str) -> None:
    """Load all weights of `module` from `tensors`.  Raises ModelNotLoadable if tensors are missing or unknown, or have
    other sizes."""
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise ModelNotLoadable(
            f"the files of {name} do not fit this model: {' '.join(str(error).split())[:300]}",
            value=sorted(tensors)[:8],
            remedy=f"use files of {name} that were made for this very model",
        ) from error

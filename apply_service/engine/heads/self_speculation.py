"""Drafts by early exit: the target's own first layers, its last norm and its head write the draft.

These layers read and write the target's own keys and values, so nothing is read twice.  The next pass overwrites the
keys and values of a draft.  The first prompt decides after which layer to exit: the exit must agree with the whole
model often enough for its cost.  In a model that was not trained for early exit (LayerSkip, Elhoushi et al. 2024),
early exits seldom agree.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import torch

from apply_service.engine.heads.base import read_text
from apply_service.engine.torch_local import TorchEngine
from apply_service.protocols import DraftWriter, SamplingParams, Session, Window

MOST = 6
N_CALIBRATED = 128
"""The number of tokens of the first prompt on which exits are compared."""
log = logging.getLogger(__name__)


class SelfSpeculation:
    """Drafts from the best exit.  `cost` is the cost of this exit; before the first prompt it is a guess."""

    name = "self_speculation"
    most = MOST

    def __init__(self, engine: TorchEngine) -> None:
        self._engine = engine
        self._exit: TorchEngine | None = None
        self.cost = 0.5

    @classmethod
    def load(cls, engine: TorchEngine, _model: Path, _folder: Path | None) -> Self:
        return cls(engine)

    def open(self, session: Session, sampling: SamplingParams) -> DraftWriter:
        if self._exit is None:
            shares = agreement(self._engine, session.prompt_ids[-N_CALIBRATED:])
            costs = exit_costs(self._engine.model)
            gains = [expected_gain(share, cost) for share, cost in zip(shares, costs, strict=True)]
            best = max(range(len(gains)), key=gains.__getitem__)
            self.cost = costs[best]
            # The engine of the first layers shares all weights and slots with the whole one.
            whole, model = self._engine, copy.copy(self._engine.model)
            inner = copy.copy(model.base_model)
            inner._modules = {**inner._modules, "layers": inner.layers[: best + 1]}
            model._modules = {**model._modules, model.base_model_prefix: inner}
            self._exit = TorchEngine(
                model,
                name=whole.name,
                buckets=whole.buckets,
                padded=False,
                pool=whole.pool,
                attention=whole.attention,
                cuda_graphs="on" if whole.has_graphs else "off",
            )
            told = f"early exit after layer {best + 1}: agrees on {shares[best]:.0%}, costs {costs[best]:.0%} of a pass"
            log.info("%s; expected to write %.2f times as fast as without drafts", told, gains[best])
        return ExitWriter(self._exit, session, sampling)


class ExitWriter:
    def __init__(self, engine: TorchEngine, session: Session, sampling: SamplingParams) -> None:
        self._engine, self._session, self._sampling = engine, session, sampling

    def write(self, output_ids: Sequence[int], n_tokens: int) -> Iterator[int]:
        session = self._session
        # A second session over the same slots.  It is never closed, so the slots stay with the target's session.
        inner = Session(session.prompt_ids, session.slots, n_cached=session.length)
        last_id = output_ids[-1] if output_ids else session.prompt_ids[-1]
        for _ in range(n_tokens):
            (answer,) = self._engine.step([Window(inner, last_id, (), self._sampling)])
            assert answer is not None
            last_id = answer.choices[0]
            yield last_id


@torch.inference_mode()
def agreement(engine: TorchEngine, ids: Sequence[int]) -> list[float]:
    """Return how often an exit chooses the same token as the whole model after the tokens `ids`.  There is one share
    for an exit after each layer but the last."""
    states = read_text(engine, ids)
    wanted = engine.head(states[-1][None]).argmax(-1)
    exits = [engine.head(engine.model.base_model.norm(one)[None]).argmax(-1) for one in states[1:-1]]
    return [float((one == wanted).float().mean()) for one in exits]


def exit_costs(model: Any) -> list[float]:
    """Return the cost of an exit after each layer but the last, as a share of a pass, counted by the weights that are
    read."""
    layer, head = (
        sum(weight.numel() for weight in part.parameters())
        for part in (model.base_model.layers[0], model.get_output_embeddings())
    )
    n_layers = len(model.base_model.layers)
    return [((n + 1) * layer + head) / (n_layers * layer + head) for n in range(n_layers - 1)]


def expected_gain(share: float, cost: float) -> float:
    """Return the expected speed-up with the best draft length.  The target accepts each token with probability `share`,
    and a drafted token costs `cost` passes."""
    return max(sum(share**i for i in range(n + 1)) / (1 + n * cost) for n in range(1, MOST + 1))

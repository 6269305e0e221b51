"""Checkpoints of a run: safetensors and JSON, nothing pickled.

Holds all that an exact continuation needs: parameters, both optimizers' states, the data's place and the counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from training.batch import Place


class Described(Protocol):
    def as_dict(self) -> dict[str, Any]: ...


class Kept(Protocol):
    """What a checkpoint holds of a network: all of it, or what learns."""

    @property
    def shape(self) -> Described: ...
    def state_dict(self) -> dict[str, torch.Tensor]: ...
    def load_state_dict(self, state: dict[str, torch.Tensor], /) -> object: ...


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    place: Place = field(default_factory=Place)

    def after(self, *, tokens: int, seconds: float, place: Place) -> Progress:
        return replace(
            self, step=self.step + 1, tokens=self.tokens + tokens, seconds=self.seconds + seconds, place=place
        )


def save_checkpoint(path: Path, network: Kept, optimizers: Sequence[torch.optim.Optimizer], progress: Progress) -> None:
    """Write atomically: a killed run leaves the checkpoint before."""
    tensors = {f"network/{name}": value.contiguous() for name, value in network.state_dict().items()}
    for at, optimizer in enumerate(optimizers):
        for key, values in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer/{at}/{key}/{name}": torch.as_tensor(value) for name, value in values.items()}
    metadata = {"progress": json.dumps(asdict(progress)), "shape": json.dumps(network.shape.as_dict())}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    save_file(tensors, partial, metadata=metadata)
    os.replace(partial, path)


def load_checkpoint(path: Path, network: Kept, optimizers: Sequence[torch.optim.Optimizer] = ()) -> Progress:
    """Fill `network` and `optimizers` in place."""
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    prefix = "network/"
    network.load_state_dict({name[len(prefix) :]: v for name, v in tensors.items() if name.startswith(prefix)})
    for at, optimizer in enumerate(optimizers):
        optimizer.load_state_dict(
            {"state": _state_of(tensors, at), "param_groups": optimizer.state_dict()["param_groups"]}
        )
    raw = json.loads(metadata["progress"])
    return Progress(raw["step"], raw["tokens"], raw["seconds"], Place(*raw["place"]))


def _state_of(tensors: dict[str, torch.Tensor], optimizer: int) -> dict[int, dict[str, Any]]:
    state: dict[int, dict[str, Any]] = {}
    for name, value in tensors.items():
        kind, *rest = name.split("/")
        if kind == "optimizer" and int(rest[0]) == optimizer:
            state.setdefault(int(rest[1]), {})[rest[2]] = value
    return state

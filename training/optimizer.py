"""Muon for the matrices, AdamW for the rest.

Muon (Jordan 2024; scaled as in Liu et al. 2025, "Muon is scalable") makes every update orthogonal, so that directions
which the circuits do not use yet are learnt as fast as those they do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from training.initialisation import FREE_DIMS
from training.model import Network

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic iteration (Jordan 2024)."""
FROZEN = ("model.layers.0.self_attn", "model.layers.1.self_attn")
SLOW = ("model.layers.2.self_attn",)
SLOW_RATE = 0.1


Groups = list[dict[str, Any]]


class Muon(torch.optim.Optimizer):
    """Momentum, made orthogonal; the update's elements have a root mean square of 0.2 lr, as AdamW's."""

    def __init__(self, parameters: Groups, *, lr: float, momentum: float = 0.95, decay: float) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state, lr, momentum = self.state[parameter], group["lr"], group["momentum"]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(parameter)
                average: torch.Tensor = state["momentum"]
                average.lerp_(parameter.grad, 1 - momentum)
                update = orthogonalise(parameter.grad.lerp(average, momentum))
                parameter.mul_(1 - lr * group["decay"])
                parameter.add_(update, alpha=-0.2 * lr * max(parameter.shape) ** 0.5)


def orthogonalise(matrix: torch.Tensor, *, steps: int = 5) -> torch.Tensor:
    """The nearest orthogonal matrix, roughly: singular values end between 0.7 and 1.2."""
    a, b, c = NEWTON_SCHULZ
    x = matrix.bfloat16()
    is_tall = x.shape[0] > x.shape[1]
    x = x.T if is_tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    whole: torch.Tensor = x.T if is_tall else x
    return whole.to(matrix.dtype)


def build_optimizers(
    network: Network, *, lr: float, decay: float = 0.01, has_circuits: bool = True
) -> list[torch.optim.Optimizer]:
    """Everything learns but the circuits: the attention of layers 0 and 1 and the embedding's slots stay as they are,
    and the matching heads of layer 2 move slowly.  Muon's updates have one size whatever the gradient's: at the common
    rate they wear finished circuits down.  Without circuits there is nothing to spare."""
    embedding = network.model.embed_tokens.weight
    frozen, slowed = (FROZEN, SLOW) if has_circuits else ((), ())
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(not name.startswith(frozen))
    if has_circuits:
        learns = torch.zeros(network.shape.d_model, device=embedding.device)
        learns[list(FREE_DIMS)] = 1.0
        embedding.register_hook(lambda gradient: gradient * learns)  # type: ignore[no-untyped-call]
    named = [(name, p) for name, p in network.named_parameters() if p.requires_grad and p is not embedding]
    matrices = [p for name, p in named if p.ndim == 2 and not name.startswith(slowed)]
    slow = [p for name, p in named if p.ndim == 2 and name.startswith(slowed)]
    vectors = [p for _, p in named if p.ndim == 1]
    groups: Groups = [{"params": matrices}, {"params": slow, "lr": lr * SLOW_RATE}]
    muon = Muon(groups, lr=lr, decay=decay)
    rest: Groups = [{"params": [embedding]}, {"params": vectors}]
    adam = torch.optim.AdamW(rest, lr=lr, betas=(0.9, 0.98), weight_decay=0.0)
    return [muon, adam]


def set_rate(optimizers: Iterable[torch.optim.Optimizer], factor: float) -> None:
    """Scale every group's rate to `factor` of what it was built with."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            base = group.setdefault("base_lr", group["lr"])
            group["lr"] = base * factor

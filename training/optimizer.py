"""Muon for the matrices, AdamW for the rest.

Muon (Jordan 2024; scaled as in Liu et al. 2025, "Muon is scalable") makes every update orthogonal, so that directions
which the circuits do not use yet are learnt as fast as those they do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import nn

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic iteration (Jordan 2024)."""


class Muon(torch.optim.Optimizer):
    """Momentum, made orthogonal; the update's elements have a root mean square of 0.2 lr, as AdamW's."""

    def __init__(self, parameters: Iterable[nn.Parameter], *, lr: float, momentum: float = 0.95, decay: float) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group["lr"], group["momentum"], group["decay"])

    def _update(self, parameter: nn.Parameter, grad: torch.Tensor, lr: float, momentum: float, decay: float) -> None:
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        average: torch.Tensor = state["momentum"]
        average.lerp_(grad, 1 - momentum)
        update = orthogonalise(grad.lerp(average, momentum))
        parameter.mul_(1 - lr * decay)
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


def build_optimizers(network: nn.Module, *, lr: float, decay: float = 0.01) -> list[torch.optim.Optimizer]:
    """The embedding moves at half the rate: its rows are codes that circuits compare."""
    matrices = [p for name, p in network.named_parameters() if p.ndim == 2 and "embed" not in name]
    embedding = [p for name, p in network.named_parameters() if "embed" in name]
    vectors = [p for p in network.parameters() if p.ndim == 1]
    groups = [{"params": embedding, "lr": lr / 2}, {"params": vectors, "lr": lr}]
    adam = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98), weight_decay=0.0)
    return [Muon(matrices, lr=lr, decay=decay), adam]


def set_rate(optimizers: Iterable[torch.optim.Optimizer], factor: float) -> None:
    """Scale every group's rate to `factor` of what it was built with."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            base = group.setdefault("base_lr", group["lr"])
            group["lr"] = base * factor

"""Rotary frequencies that neighbours can't change.

The library chooses those of `longrope` (Phi 3 and 4) in every forward by the largest position in it.  In a packed pass
that is some neighbour's position: a long sequence would change what a short one beside it reads, and a sequence that
grows over the limit would mix both kinds in its cache.  So the choice is made once, by what the engine admits, as other
servers do.  The library's `dynamic` frequencies change past the context limit only, which no sequence reaches.
"""

from __future__ import annotations

from typing import Any, cast

import torch

LONGROPE = "longrope"
FIXED = "fixed"
"""None of the kinds that the library changes in a forward."""


@torch.no_grad()
def fix_frequencies(model: Any, context_limit: int) -> None:
    """Have `model` use its frequencies for long sequences at every length where `context_limit` allows long ones, else
    those for short ones.  A second call does nothing."""
    for module in model.modules():
        kind = getattr(module, "rope_type", None)
        if kind == LONGROPE:
            _choose(module, context_limit, {})
            module.rope_type = FIXED
        elif isinstance(kind, dict) and LONGROPE in kind.values():
            for layer_type in [name for name, one in kind.items() if one == LONGROPE]:
                _choose(module, context_limit, {"layer_type": layer_type})
            module.rope_type = {name: FIXED if one == LONGROPE else one for name, one in kind.items()}


def _choose(rotary: torch.nn.Module, context_limit: int, options: dict[str, str]) -> None:
    """Show the module the last position that may come: it chooses by that, and is asked no more."""
    device = next(rotary.buffers()).device
    rotary(torch.zeros(1, device=device), torch.tensor([[context_limit - 1]], device=device), **cast(Any, options))

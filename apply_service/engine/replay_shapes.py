"""The shapes that a replay target can take: sizes of published models, and tiny ones for a CPU.

Reads the data file beside the replay tokenizer and counts, without torch; `engine.replay` makes the model itself.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from apply_service.errors import UnknownModel

PREFIX = "replay:"
SHAPES_FILE = "shapes.toml"


@dataclass(frozen=True, slots=True)
class ReplayShape:
    """Everything that the time of a forward depends on.  `weights` is the number format of the linear layers where it
    is not the model's own."""

    name: str
    family: Literal["llama", "qwen2"]
    n_vocab: int
    d_model: int
    d_ff: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_head: int
    tied: bool
    context: int
    source: str
    weights: Literal["own", "fp8"] = "own"
    published_params: float | None = None

    @property
    def n_params(self) -> int:
        """Weights in all, embeddings included."""
        d_query, d_kv = self.n_heads * self.d_head, self.n_kv_heads * self.d_head
        biases = d_query + 2 * d_kv if self.family == "qwen2" else 0
        attention = self.d_model * (2 * d_query + 2 * d_kv) + biases
        layer = attention + 3 * self.d_model * self.d_ff + 2 * self.d_model
        embeddings = self.n_vocab * self.d_model * (1 if self.tied else 2)
        return embeddings + self.n_layers * layer + self.d_model


def replay_directory() -> Path:
    """Where the shapes and the tokenizer of the replay target lie."""
    return Path(__file__).parent.parent / "models" / "replay"


@cache
def read_shapes() -> Mapping[str, ReplayShape]:
    """All shapes by name, in the order of the file."""
    table: dict[str, dict[str, Any]] = tomllib.loads((replay_directory() / SHAPES_FILE).read_text(encoding="utf-8"))
    return {name: ReplayShape(name, **values) for name, values in table.items()}


def find_shape(model: str) -> ReplayShape:
    """The shape that `model` ("replay:NAME") names.

    Raises:
        UnknownModel: no such shape.
    """
    shapes = read_shapes()
    name = model.removeprefix(PREFIX)
    if name not in shapes:
        limit = [PREFIX + known for known in shapes]
        raise UnknownModel("no such shape to replay", value=model, limit=limit, remedy="name one of these")
    return shapes[name]

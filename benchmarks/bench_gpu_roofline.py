"""What the card could do at best: bytes that a pass moves over its bandwidth, operations over its rate of them,
whichever takes longer (Williams, Waterman, Patterson 2009, "Roofline")."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch

from apply_service.engine.kv_cache import KVShape
from apply_service.engine.weights.conversion import bytes_read, format_of, multiplied_parameters
from apply_service.protocols import Engine, Part, Session, Verification, Window


@dataclass(frozen=True, slots=True)
class Card:
    """Rates of a device: bytes a second, and operations a second in 16 and in 8 bits.  `source` says whose figures."""

    name: str
    bytes_s: float
    flop_s: float
    fp8_flop_s: float
    source: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


KNOWN = (Card("H200", 4.3e12, 790e12, 1400e12, "assumed: less than the data sheet says"),)


def card_of(device: torch.device, name: str) -> Card:
    """The known figures, else what a copy and a matrix product take now."""
    known = next((card for card in KNOWN if card.name in name), None)
    if known is not None:
        return known
    flop_s = _matrix_rate(device)
    return Card(name, _copy_rate(device), flop_s, flop_s, "measured at the start of the run: one copy, one product")


def _copy_rate(device: torch.device) -> float:
    source = torch.ones(2**28 if device.type == "cuda" else 2**25, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * source.numel() / _fastest_s(lambda: target.copy_(source), device)


def _matrix_rate(device: torch.device) -> float:
    n = 8192 if device.type == "cuda" else 512
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    left, right = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
    return 2 * n**3 / _fastest_s(lambda: left @ right, device)


def _fastest_s(act: Any, device: torch.device) -> float:
    times = []
    for _ in range(6):
        started_s = time.perf_counter()
        act()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started_s)
    return min(times)


class PassWork(NamedTuple):
    """What one pass does: rows, keys read (summed over its sequences), and products of a row with a key."""

    n_rows: int
    n_keys: int
    n_products: int


@dataclass(frozen=True, slots=True)
class Roofline:
    """The least time of passes of one model on one card."""

    card: Card
    weight_bytes: int
    parameters: int
    slot_bytes: int
    product_flop: int
    """Operations of one row with one key, over all layers."""
    is_fp8: bool

    @classmethod
    def of(cls, model: Any, card: Card) -> Roofline:
        config = model.config.get_text_config()
        parameter = next(model.parameters())
        shape = KVShape.of(config, parameter.dtype, parameter.device)
        return cls(
            card=card,
            weight_bytes=bytes_read(model),
            parameters=multiplied_parameters(model),
            slot_bytes=shape.bytes_per_slot,
            product_flop=4 * config.num_attention_heads * shape.head_dim * shape.n_layers,
            is_fp8=format_of(model) == "fp8",
        )

    def pass_s(self, work: PassWork) -> float:
        """Seconds of one pass: every weight and every key is read once, every row multiplied with all weights."""
        moved = self.weight_bytes + work.n_keys * self.slot_bytes
        flop = 2 * self.parameters * work.n_rows
        rate = self.card.fp8_flop_s if self.is_fp8 else self.card.flop_s
        return max(moved / self.card.bytes_s, flop / rate + work.n_products * self.product_flop / self.card.flop_s)

    def prompt_s(self, lengths: Iterable[int]) -> float:
        """Seconds to read prompts, all in one pass."""
        known = list(lengths)
        return self.pass_s(PassWork(sum(known), sum(known), sum(n * n // 2 for n in known)))

    def decode_s(self, works: Iterable[PassWork]) -> float:
        return sum(map(self.pass_s, works))


class MeteredEngine:
    """An engine that notes the work of each pass with windows in `works`; all else is the engine's own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.works: list[PassWork] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def open(self, prompt_ids: Sequence[int], max_new_tokens: int, *, owner: str = "") -> Session | None:
        return self._engine.open(prompt_ids, max_new_tokens, owner=owner)

    def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]:
        if any(isinstance(part, Window) for part in parts):
            sizes = [(part.n_rows, part.session.length + part.n_rows) for part in parts]
            self.works.append(
                PassWork(sum(n for n, _ in sizes), sum(keys for _, keys in sizes), sum(n * keys for n, keys in sizes))
            )
        return self._engine.step(parts)

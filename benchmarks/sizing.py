"""How many edits a second a device makes: the roofline of a model, and what an edit asks of it.

Arithmetic, no measurement: what an edit asks (tokens read, rows verified, passes) is counted in a committed result of
`benchmarks.bench`; the time of a row comes from a device's bandwidth and operations a second.  `docs/sizing_parts.py`
writes the tables of docs/sizing.md from it, `sizing_simulation` adds what happens when many ask at once.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apply_service.engine.replay_shapes import ReplayShape

DRAFTER = "merged_edit"
CONTEXT = 3_000
"""Tokens that attention looks back at, everywhere below."""
OVERHEAD_S = 0.0004
"""Of a pass, beside the forward: assumed."""


@dataclass(frozen=True, slots=True)
class Device:
    """What bounds a pass: bytes a second from memory, and operations a second by the weights' number format."""

    name: str
    bytes_per_s: float
    flops: Mapping[str, float]


H200 = Device("H200", 4.3e12, {"bf16": 790e12, "fp8": 1_400e12})
"""Assumed: what kernels may reach of the data sheet's 4.8 TB/s and 989 TFLOP/s."""


@dataclass(frozen=True, slots=True)
class Roofline:
    """A model on a device: a pass of n rows takes `max(memory_s, n * row_s)`."""

    memory_s: float
    row_s: float

    @classmethod
    def of(cls, shape: ReplayShape, device: Device, *, context: int = CONTEXT) -> Roofline:
        """For 16-bit keys and values; `shape.weights` says how wide the weights are.  A pass reads all weights but the
        table of input embeddings, and the keys and values of one sequence."""
        is_fp8 = shape.weights == "fp8"
        n_read = shape.n_params - (0 if shape.tied else shape.n_vocab * shape.d_model)
        kv_bytes = context * shape.n_layers * 2 * shape.n_kv_heads * shape.d_head * 2
        attention_flops = 4 * shape.n_layers * shape.n_heads * shape.d_head * context
        return cls(
            (n_read * (1 if is_fp8 else 2) + kv_bytes) / device.bytes_per_s,
            2 * n_read / device.flops["fp8" if is_fp8 else "bf16"] + attention_flops / device.flops["bf16"],
        )

    @property
    def knee(self) -> float:
        """Rows up to which a pass costs no more than one row."""
        return self.memory_s / self.row_s

    def pass_s(self, n_rows: float) -> float:
        """Seconds of a pass, overhead not counted."""
        return max(self.memory_s, n_rows * self.row_s)


@dataclass(frozen=True, slots=True)
class Edit:
    """What a mean edit asks of an engine."""

    prompt_tokens: float
    output_tokens: float
    rows: float
    """Verified: what was drafted, and one more a pass."""
    passes: float

    def alone_s(self, roof: Roofline, *, cached: float, overhead_s: float = OVERHEAD_S) -> float:
        """Seconds with the device to itself: the prompt in one go, then pass after pass."""
        read_s = roof.pass_s(self.prompt_tokens * (1 - cached)) + overhead_s
        return read_s + self.passes * (roof.pass_s(self.rows / self.passes) + overhead_s)

    def undrafted_s(self, roof: Roofline, *, cached: float, overhead_s: float = OVERHEAD_S) -> float:
        """As `alone_s`, one token a pass."""
        read_s = roof.pass_s(self.prompt_tokens * (1 - cached)) + overhead_s
        return read_s + self.output_tokens * (roof.memory_s + overhead_s)

    def device_s(self, roof: Roofline, *, cached: float, overhead_s: float = OVERHEAD_S) -> float:
        """Seconds of a device that always has passes of the knee's length to do, shared among many edits."""
        n_rows = self.prompt_tokens * (1 - cached) + self.rows
        return n_rows * (roof.row_s + overhead_s / roof.knee)


def count_edit(result: Mapping[str, Any]) -> Edit:
    """The mean edit in a result of `benchmarks.bench`."""
    samples = samples_alone(result)
    passes = statistics.fmean(one["passes"] for one in samples)
    drafted = statistics.fmean(one["drafted"] for one in samples)
    return Edit(
        statistics.fmean(one["n_prompt_tokens"] for one in samples),
        statistics.fmean(one["n_tokens"] for one in samples),
        drafted + passes,
        passes,
    )


def samples_alone(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Edits of a result of `benchmarks.bench` that were made one at a time, with our drafter."""
    return [one for one in result["samples"] if one["contender"] == DRAFTER and one["batch"] == 1]


def predicted_s(sample: Mapping[str, Any], pass_s: Mapping[int, float]) -> tuple[float, float]:
    """Seconds to the first token and seconds of all passes of such an edit, from the seconds of a pass by its rows."""
    longest = max(pass_s)
    whole, rest = divmod(sample["n_prompt_tokens"], longest)
    read_s = whole * pass_s[longest] + (time_of(rest, pass_s) if rest else 0.0)
    n_rows = (sample["drafted"] + sample["passes"]) / sample["passes"]
    return read_s + time_of(n_rows, pass_s), sample["passes"] * time_of(n_rows, pass_s)


def time_of(n_rows: float, pass_s: Mapping[int, float]) -> float:
    """Seconds of a pass that is padded to the next row count that was measured."""
    return pass_s[min((n for n in pass_s if n >= n_rows), default=max(pass_s))]

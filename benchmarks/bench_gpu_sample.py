"""What one run of `benchmarks.bench_gpu` is: a sample, and the least that it could have taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.bench_sample import Sample


@dataclass(frozen=True, slots=True)
class Measured:
    """A run, and the least times that its passes and prompts could have taken on this card."""

    sample: Sample
    ideal_decode_s: float
    ideal_end_to_end_s: float
    captures: int = 0
    """Kinds of passes that were captured while it ran: what they took is in its times."""

    def as_json(self) -> dict[str, Any]:
        ideals = {"ideal_decode_s": self.ideal_decode_s, "ideal_end_to_end_s": self.ideal_end_to_end_s}
        rounded = {name: round(value, 6) for name, value in ideals.items()}
        return self.sample.as_json() | rounded | {"captures": self.captures}


def sample_of(row: Mapping[str, Any]) -> Measured:
    """What `Measured.as_json` wrote, also before it counted captures."""
    values = dict(row)
    decode_s, whole_s = values.pop("ideal_decode_s"), values.pop("ideal_end_to_end_s")
    captures = values.pop("captures", 0)
    return Measured(Sample(**values), decode_s, whole_s, captures)

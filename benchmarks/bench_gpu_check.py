"""What a check of `benchmarks.bench_gpu` found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Check:
    """`worst` is compared with `limit`; `n` things were looked at.  `is_ok` None: it could not run, `note` says why."""

    name: str
    is_ok: bool | None
    worst: float | None = None
    limit: float | None = None
    n: int = 0
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

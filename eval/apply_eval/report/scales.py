"""From data to drawing: positions and ticks along an axis."""

from __future__ import annotations

import math
from dataclasses import dataclass

NICE = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Linear:
    """`low..high` onto `start..stop` (which may fall)."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low or 1.0
        return self.start + (value - self.low) / span * (self.stop - self.start)

    def ticks(self, n: int = 5) -> list[float]:
        """About `n` round values inside."""
        rough = (self.high - self.low or 1.0) / n
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * nice for nice in NICE if power * nice >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(i * step, 10) for i in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class Log:
    """As `Linear`, by powers of ten; all values above zero."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        low, high = math.log10(self.low), math.log10(self.high)
        return self.start + (math.log10(value) - low) / ((high - low) or 1.0) * (self.stop - self.start)

    def ticks(self) -> list[float]:
        """1, 2 and 5 of every power of ten inside; powers alone where that is many."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        digits = (1, 2, 5) if len(powers) <= 3 else (1,)
        return [d * 10.0**p for p in powers for d in digits if self.low * 0.999 <= d * 10.0**p <= self.high * 1.001]


def round_up(value: float) -> float:
    """The next round number, for the end of an axis that starts at zero."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(
        power * nice for nice in (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0) if power * nice >= value * 0.999
    )

"""Measures, when a model has been loaded, how long batches of several rows take, and how often they choose another
token than the same model one token at a time.

llama.cpp promises no equal bits for batches of different sizes: its kernels change with the rows.  So its determinism
is `tolerant`, and this counts how often that changes a choice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apply_service.protocols import Prefill, SamplingParams, Window

if TYPE_CHECKING:
    from apply_service.engine.llama_cpp.engine import LlamaEngine

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Row counts that a pass may aim at."""
MEASURED = (2, 4, 8, 16, 32, 64, 128, 256)
MOST_ROWS = SIZES[-1]
N_PROMPT = 24
N_PROBES = 12
"""Rows that are compared with one token at a time."""
BUDGET_S = 0.9
SINGLES_S = 0.25
"""The time that single tokens may take of that; two are measured in any case."""
SAMPLE = b"""def total(items, discount=0):
    cost = sum(item.price * item.quantity for item in items)
    if discount:
        cost = cost * (1 - discount)
    return round(cost, 2)


class Basket:
    def __init__(self, owner):
        self.owner = owner
        self.items = []

    def add(self, item, quantity=1):
        if quantity < 1:
            raise ValueError("quantity must be positive")
        self.items.append((item, quantity))
"""


class RowTest(NamedTuple):
    """Seconds of a batch by its rows, and over `n_compared` rows the shares whose logits had other bits, and whose best
    token was another, than one token at a time."""

    seconds: Mapping[int, float]
    n_compared: int
    differing_rows: float
    flipped_choices: float

    @property
    def speedup_limit(self) -> float:
        """How many times as many rows a second as single tokens the best measured batch computes."""
        return max(n_rows / seconds for n_rows, seconds in self.seconds.items()) * self.seconds[1]


def measure_rows(engine: LlamaEngine, most_rows: int, ids: Sequence[int]) -> RowTest:
    """Run single tokens of `ids`, then ever larger batches of the same, as far as `BUDGET_S` allows."""
    started = time.perf_counter()
    ids = [*ids] * (1 + (N_PROMPT + 1 + most_rows) // max(1, len(ids)))
    n_prompt = min(N_PROMPT, engine.context_limit // 4)
    most_rows = min(most_rows, engine.context_limit - n_prompt - 1)
    session = engine.open(ids[: n_prompt + 1], most_rows)
    assert session is not None, "a new engine has room"
    with session:
        session.is_sound = False  # nothing of it is to be kept
        while session.n_pending:
            engine.step([Prefill(session, min(session.n_pending, most_rows))])
        ids = ids[n_prompt:]

        def run(first: int, n_rows: int) -> tuple[float, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
            session.length = n_prompt + first
            window = Window(session, ids[first], ids[first + 1 : first + n_rows], SamplingParams())
            begun = time.perf_counter()
            logits = engine.logits([window])[0]
            return time.perf_counter() - begun, logits[:N_PROBES].copy()

        singles = list[tuple[float, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]]()
        while len(singles) < min(N_PROBES, most_rows) and (
            len(singles) < 2 or time.perf_counter() - started < SINGLES_S
        ):
            singles.append(run(len(singles), 1))
        alone = np.concatenate([logits for _, logits in singles])
        seconds = {1: min(took for took, _ in singles)}
        n_compared = n_differing = n_flipped = 0
        for n_rows in [size for size in MEASURED if size <= most_rows]:
            took, logits = run(0, n_rows)
            seconds[n_rows] = took
            n_rows = min(n_rows, len(alone))
            n_compared += n_rows
            n_differing += int((logits[:n_rows] != alone[:n_rows]).any(-1).sum())
            n_flipped += int((logits[:n_rows].argmax(-1) != alone[:n_rows].argmax(-1)).sum())
            if time.perf_counter() - started + 1.8 * took > BUDGET_S:
                break
        session.length = n_prompt
    n_all = max(1, n_compared)
    return RowTest(seconds, n_compared, n_differing / n_all, n_flipped / n_all)


def pass_times_of(seconds: Mapping[int, float], most_rows: int) -> dict[int, float]:
    """The times of all row counts that a pass may have, relative to one row: measured, between two measured ones, or on
    from the last two.  More rows never take less time."""
    known = sorted(seconds)
    sizes = sorted({size for size in SIZES if size < most_rows} | {most_rows})
    times = np.interp(sizes, known, [seconds[n_rows] for n_rows in known])
    if len(known) > 1:
        slope = max(0.0, (seconds[known[-1]] - seconds[known[-2]]) / (known[-1] - known[-2]))
        times += slope * np.clip(np.array(sizes) - known[-1], 0, None)
    else:
        times *= np.array(sizes) / known[0]
    times = np.maximum.accumulate(times) / seconds[1]
    return dict(zip(sizes, times.tolist(), strict=True))

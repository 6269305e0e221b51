"""Measures, when a model has been loaded, how long batches of several rows take, and how often they choose another
token than the same model one token at a time.

llama.cpp promises no equal bits for batches of different sizes: its kernels change with the rows.  So its determinism
is `tolerant`, and this counts how often that changes a choice.  For some files and processors all batches up to a size
have the same bits; then windows are no larger.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from apply_service.engine.layout import Layout
from apply_service.protocols import Part, Prefill, SamplingParams, Session, Verification, Window

Logits = npt.NDArray[np.float32]

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Row counts that a pass may aim at."""
MEASURED = (2, 4, 8, 16, 32, 48, 64, 128, 256)
MOST_ROWS = SIZES[-1]
N_PROMPT = 24
N_PROBES = 12
"""Rows that are compared with one token at a time."""
BUDGET_S = 0.9
LEAST_EXACT = 16
WORTH = 0.75
"""Windows have only exact sizes if the largest of them has so many rows, and reaches so much of the most rows a second
that any size reaches."""
ENOUGH = 0.9
"""Of the most rows a second, for windows to have no more rows."""
MOST_SLOWER = 1.4
"""So many times as long may one thread take for a single token."""
SINGLES_S = 0.2
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
    """What was found.

    `seconds`: of a batch, by its rows; of this thread's processor time, where there is no GPU.  `flipped_choices`: over
    `n_compared` rows, the share whose best token was another than one token at a time.  `exact_rows`: in batches of up
    to so many rows no row had another bit.  `single_threads`: the threads that compute a single token.
    """

    seconds: Mapping[int, float]
    n_compared: int
    flipped_choices: float
    exact_rows: int
    single_threads: int

    @property
    def speedup_limit(self) -> float:
        """How many times as many rows a second as single tokens the best measured batch computes."""
        return max(n_rows / seconds for n_rows, seconds in self.seconds.items()) * self.seconds[1]

    @property
    def is_exact(self) -> bool:
        """Whether windows should have no more than `exact_rows`: these are many, and nearly as fast as any number."""
        if self.exact_rows < LEAST_EXACT:
            return False
        times = pass_times_of(self.seconds, MOST_ROWS)
        best = max(n_rows / seconds for n_rows, seconds in times.items())
        return self.exact_rows / times[self.exact_rows] >= WORTH * best


class RowEngine(Protocol):
    """What is measured: see `engine.LlamaEngine`."""

    context_limit: int
    n_threads: int

    @property
    def is_on_gpu(self) -> bool: ...
    def open(self, prompt_ids: Sequence[int], max_new_tokens: int, *, owner: str = "") -> Session | None: ...
    def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]: ...
    def logits(self, parts: Sequence[Part]) -> tuple[Logits, Layout]: ...
    def compute_single_tokens_with(self, n_threads: int) -> None: ...


class RowProbe:
    """Known tokens after a prompt that was read, in batches of any size."""

    def __init__(self, engine: RowEngine, session: Session, ids: Sequence[int]) -> None:
        self._engine, self._session, self._ids = engine, session, ids
        self._start = session.length
        # Other processes do not count, which may take the processor away for most of a batch.
        self.clock = time.perf_counter if engine.is_on_gpu else time.thread_time

    def run(self, first: int, n_rows: int) -> tuple[float, Logits]:
        """Seconds of a batch, and the logits of its first rows."""
        self._session.length = self._start + first
        window = Window(self._session, self._ids[first], self._ids[first + 1 : first + n_rows], SamplingParams())
        begun = self.clock()
        logits = self._engine.logits([window])[0]
        return self.clock() - begun, logits[:N_PROBES].copy()

    def alone(self, most: int, budget_s: float) -> tuple[float, Logits]:
        """Seconds of a single token, the median, and the logits of up to `most` after each other."""
        started, found = self.clock(), list[tuple[float, Logits]]()
        while len(found) < most and (len(found) < 2 or self.clock() - started < budget_s):
            found.append(self.run(len(found), 1))
        return statistics.median(seconds for seconds, _ in found), np.concatenate([logits for _, logits in found])


def measure_rows(engine: RowEngine, most_rows: int, ids: Sequence[int]) -> RowTest:
    """Run single tokens of `ids`, then ever larger batches of the same, as far as `BUDGET_S` allows.

    From 512 cells on, several threads add up the attention of a single token in another order than that of a batch.  So
    one thread computes it where batches are then exact, and it is hardly slower.
    """
    ids = [*ids] * (1 + (N_PROMPT + 1 + most_rows) // max(1, len(ids)))
    n_prompt = min(N_PROMPT, engine.context_limit // 4)
    most_rows = min(most_rows, engine.context_limit - n_prompt - 1)
    session = engine.open(ids[: n_prompt + 1], most_rows)
    assert session is not None, "a new engine has room"
    with session:
        session.is_sound = False  # nothing of it is to be kept
        while session.n_pending:
            engine.step([Prefill(session, min(session.n_pending, most_rows))])
        probe = RowProbe(engine, session, ids[n_prompt:])
        started = probe.clock()
        n_probes, threads = min(N_PROBES, most_rows), engine.n_threads
        single, alone = probe.alone(n_probes, SINGLES_S)
        batches = dict[int, tuple[float, Logits]]()
        for n_rows in [size for size in MEASURED if size <= most_rows]:
            batches[n_rows] = probe.run(0, n_rows)
            if probe.clock() - started + 1.8 * batches[n_rows][0] > BUDGET_S:
                break
        exact = _exact_rows(alone, batches) if threads == 1 else 1
        if threads > 1:
            engine.compute_single_tokens_with(1)
            slower, other = probe.alone(n_probes, SINGLES_S)
            if slower <= MOST_SLOWER * single and (found := _exact_rows(other, batches)) > 1:
                single, alone, threads, exact = slower, other, 1, found
            engine.compute_single_tokens_with(threads)
        session.length = n_prompt
    test = RowTest({1: single} | {n: seconds for n, (seconds, _) in batches.items()}, 0, 0.0, exact, threads)
    used = [logits for n, (_, logits) in batches.items() if n <= exact or not test.is_exact]
    n_compared = sum(min(len(logits), len(alone)) for logits in used)
    n_flipped = sum(int((one[: len(alone)].argmax(-1) != alone[: len(one)].argmax(-1)).sum()) for one in used)
    return test._replace(n_compared=n_compared, flipped_choices=n_flipped / max(1, n_compared))


def _exact_rows(alone: Logits, batches: Mapping[int, tuple[float, Logits]]) -> int:
    """The rows of the largest batch such that it and all smaller ones have the bits of single tokens."""
    exact = 1
    for n_rows, (_, logits) in batches.items():
        if not np.array_equal(logits[: len(alone)], alone[: len(logits)]):
            break
        exact = n_rows
    return exact


def most_worthwhile(times: Mapping[int, float]) -> int:
    """The fewest rows, but at least `LEAST_EXACT`, that are nearly as fast as any number: a wrong draft costs all rows
    of its window."""
    sizes = {n_rows: n_rows / time for n_rows, time in times.items() if n_rows >= min(LEAST_EXACT, max(times))}
    return min(n_rows for n_rows, speed in sizes.items() if speed >= ENOUGH * max(sizes.values()))


def pass_times_of(seconds: Mapping[int, float], most_rows: int) -> dict[int, float]:
    """The times of all row counts that a pass may have, relative to one row: measured, between two measured ones, or on
    from the last two.  More rows never take less time, nor more than as many single ones."""
    known = sorted(seconds)
    sizes = sorted({size for size in SIZES if size < most_rows} | {most_rows})
    times = np.interp(sizes, known, [seconds[n_rows] for n_rows in known])
    if len(known) > 1:
        slope = max(0.0, (seconds[known[-1]] - seconds[known[-2]]) / (known[-1] - known[-2]))
        times += slope * np.clip(np.array(sizes) - known[-1], 0, None)
    else:
        times *= np.array(sizes) / known[0]
    times = np.minimum(np.maximum.accumulate(times) / seconds[1], sizes)
    return dict(zip(sizes, times.tolist(), strict=True))

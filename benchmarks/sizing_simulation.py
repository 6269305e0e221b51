"""A fleet in numbers: arrivals, routing by file, prefix caches, shared passes, queues, autoscaling as on Ray Serve.

No model runs here.  Time goes from pass to pass: a pass takes what `Cost` says of its rows, and the rows are shared
among the edits of an engine as the scheduler shares them (half for prompts while there are any).  `sizing_runs` asks it
questions, `sizing_check` holds it against a real server.
"""

from __future__ import annotations

import heapq
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from apply_service.deploy.affinity import Overflow


@dataclass(frozen=True, slots=True)
class Job:
    """One edit as it arrives."""

    at_s: float
    file: int
    prompt_tokens: int
    output_tokens: int
    n_breaks: int = 0
    """Passes that a wrong draft costs beside those that the output needs."""
    host_s: float = 0.0
    """Of the processor before the first pass: the merge is predicted, the prompt written."""
    row_cost: float = 1.0
    """What one of its rows adds to a pass, in the unit that `Cost` counts in: rows, unless said otherwise."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of a pass by the cost of its rows, and how many rows it may have."""

    pass_s: Callable[[float], float]
    max_rows: int
    max_active: int = 64


@dataclass(frozen=True, slots=True)
class Scaling:
    """As `AutoscalingConfig` of Ray Serve; `start_s` is how long a new engine takes to load its model."""

    least: int
    most: int
    target_ongoing: float = 8.0
    upscale_delay_s: float = 15.0
    downscale_delay_s: float = 600.0
    look_back_s: float = 30.0
    start_s: float = 60.0
    every_s: float = 1.0


@dataclass(slots=True)
class Running:
    """One edit in an engine."""

    job: Job
    read_left: int
    write_left: int
    breaks_left: int


@dataclass(frozen=True, slots=True)
class Answered:
    job: Job
    seconds: float
    is_hit: bool
    engine: int


@dataclass(slots=True)
class Engine:
    """One replica: its queue, what it works on, and which files it remembers."""

    number: int
    ready_s: float
    cost: Cost
    cache_files: int
    waiting: deque[tuple[Job, bool]] = field(default_factory=deque)
    active: list[tuple[Running, bool]] = field(default_factory=list)
    files: OrderedDict[int, None] = field(default_factory=OrderedDict)
    is_draining: bool = False
    is_passing: bool = False

    @property
    def n_ongoing(self) -> int:
        return len(self.waiting) + len(self.active)

    def take(self, job: Job) -> None:
        """Queue an edit; whether the prefix cache holds its file is decided as it comes."""
        is_hit = job.file in self.files
        self.files[job.file] = None
        self.files.move_to_end(job.file)
        while len(self.files) > self.cache_files:
            self.files.popitem(last=False)
        self.waiting.append((job, is_hit))

    def run_pass(self, cached_share: float) -> tuple[float, list[tuple[Job, bool]]]:
        """Seconds of the next pass, and the edits that end with it."""
        host_s = 0.0
        while self.waiting and len(self.active) < self.cost.max_active:
            job, is_hit = self.waiting.popleft()
            to_read = round(job.prompt_tokens * (1 - cached_share * is_hit))
            self.active.append((Running(job, to_read, job.output_tokens, job.n_breaks), is_hit))
            host_s += job.host_s
        seconds = host_s + self.cost.pass_s(self._advance())
        ended = [(one.job, is_hit) for one, is_hit in self.active if one.write_left <= 0]
        self.active = [(one, is_hit) for one, is_hit in self.active if one.write_left > 0]
        return seconds, ended

    def _advance(self) -> float:
        """One pass for all; what its rows cost."""
        reading = [one for one, _ in self.active if one.read_left > 0]
        writing = [one for one, _ in self.active if one.read_left <= 0]
        budget = self.cost.max_rows // 2 if reading else self.cost.max_rows
        n_rows, cost = _write(writing, budget) if writing else (0, 0.0)
        for one in reading:
            n_read = min(one.read_left, self.cost.max_rows - n_rows)
            one.read_left -= n_read
            n_rows += n_read
            cost += n_read * one.job.row_cost
        return cost


def _write(writing: Sequence[Running], budget: int) -> tuple[int, float]:
    """A window for each, of equal length: how many rows, and their cost.  A wrong draft costs half of its window."""
    share, n_rows, cost = max(1, budget // len(writing)), 0, 0.0
    for one in writing:
        window = min(share, one.write_left)
        n_rows += window
        cost += window * one.job.row_cost
        if one.breaks_left and one.write_left > window:
            one.breaks_left -= 1
            window = max(1, window // 2)
        one.write_left -= window
    return n_rows, cost


# -- the fleet ---------------------------------------------------------------------------------------------------------
Routing = Literal["file", "least load"]


@dataclass(slots=True)
class Fleet:
    """Engines behind one ingress."""

    cost: Cost
    scaling: Scaling
    routing: Routing = "file"
    overflow: Overflow = field(default_factory=Overflow)
    cache_files: int = 1_000
    cached_share: float = 0.5
    dice: random.Random = field(default_factory=lambda: random.Random(0))
    now_s: float = 0.0
    engines: list[Engine] = field(default_factory=list)
    answered: list[Answered] = field(default_factory=list)
    engine_s: float = 0.0
    """Seconds that engines existed, all together."""
    busy_s: float = 0.0
    """Of these, in passes."""
    _events: list[tuple[float, int, str, object]] = field(default_factory=list)
    _n_events: int = 0
    _n_engines: int = 0
    _loads: deque[tuple[float, int]] = field(default_factory=deque)
    _wanted_since: tuple[int, float] | None = None

    def run(self, jobs: Sequence[Job]) -> list[Answered]:
        """All jobs, to their end."""
        for _ in range(self.scaling.least):
            self._start(0.0)
        for job in jobs:
            self._plan(job.at_s, "job", job)
        self._plan(self.scaling.every_s, "scale", None)
        while len(self.answered) < len(jobs):
            at_s, _, kind, what = heapq.heappop(self._events)
            self.engine_s += (at_s - self.now_s) * len(self.engines)
            self.now_s = at_s
            self._happen(kind, what)
        return self.answered

    def _plan(self, at_s: float, kind: str, what: object) -> None:
        self._n_events += 1
        heapq.heappush(self._events, (at_s, self._n_events, kind, what))

    def _happen(self, kind: str, what: object) -> None:
        if kind == "scale":
            self._scale()
            self._plan(self.now_s + self.scaling.every_s, "scale", None)
        elif isinstance(what, Job):
            engine = self._choose(what)
            engine.take(what)
            self._pass(engine)
        elif isinstance(what, Engine):
            what.is_passing = False
            self._pass(what)
        elif isinstance(what, tuple):
            engine, ended = what
            self.answered += [Answered(job, self.now_s - job.at_s, is_hit, engine.number) for job, is_hit in ended]

    def _pass(self, engine: Engine) -> None:
        """Let an engine that is ready and has something to do make its next pass."""
        if engine.is_passing:
            return
        if engine.ready_s > self.now_s:
            engine.is_passing = True
            self._plan(engine.ready_s, "pass", engine)
        elif engine.n_ongoing:
            seconds, ended = engine.run_pass(self.cached_share)
            engine.is_passing = True
            self.busy_s += seconds
            self._plan(self.now_s + seconds, "ended", (engine, ended))
            self._plan(self.now_s + seconds, "pass", engine)
        elif engine.is_draining:
            self.engines.remove(engine)

    def _choose(self, job: Job) -> Engine:
        ready = [e for e in self.engines if not e.is_draining and e.ready_s <= self.now_s]
        open_ones = ready or [e for e in self.engines if not e.is_draining]
        if self.routing == "least load":
            return min(self.dice.sample(open_ones, min(2, len(open_ones))), key=lambda e: e.n_ongoing)
        ranked = sorted(open_ones, key=lambda e: hash((job.file, e.number)))  # of numbers: the same in every process
        return ranked[self.overflow.order([e.n_ongoing for e in ranked])[0]]

    # -- autoscaling ---------------------------------------------------------------------------------------------------
    def _start(self, start_s: float) -> None:
        self._n_engines += 1
        self.engines.append(Engine(self._n_engines, self.now_s + start_s, self.cost, self.cache_files))

    def _scale(self) -> None:
        """Ongoing edits, averaged over the look-back, over the target: so many engines, once that has been so for the
        delay."""
        open_ones = [e for e in self.engines if not e.is_draining]
        self._loads.append((self.now_s, sum(e.n_ongoing for e in self.engines)))
        while self._loads[0][0] < self.now_s - self.scaling.look_back_s:
            self._loads.popleft()
        mean = sum(load for _, load in self._loads) / len(self._loads)
        wanted = min(max(-int(-mean // self.scaling.target_ongoing), self.scaling.least), self.scaling.most)
        step = (wanted > len(open_ones)) - (wanted < len(open_ones))
        if self._wanted_since is None or self._wanted_since[0] != step:
            self._wanted_since = (step, self.now_s)
        delay_s = self.scaling.upscale_delay_s if step > 0 else self.scaling.downscale_delay_s
        if step and self.now_s - self._wanted_since[1] >= delay_s:
            self._resize(wanted, open_ones)
            self._wanted_since = None

    def _resize(self, wanted: int, open_ones: Sequence[Engine]) -> None:
        for _ in range(wanted - len(open_ones)):
            self._start(self.scaling.start_s)
        for engine in sorted(open_ones, key=lambda e: e.n_ongoing)[: max(0, len(open_ones) - wanted)]:
            engine.is_draining = True
            self._pass(engine)


# -- arrivals ----------------------------------------------------------------------------------------------------------
def poisson(rates: Callable[[float], float], most: float, seconds: float, dice: random.Random) -> Iterator[float]:
    """Times of arrivals at a rate that changes with time and is never above `most` a second (thinning)."""
    now_s = 0.0
    while (now_s := now_s + dice.expovariate(most)) < seconds:
        if dice.random() * most <= rates(now_s):
            yield now_s

"""Edits at an engine in this process, timed by the processor: what else the machine does meanwhile does not count.

The clock is the processor time of this process; while the engine is idle it jumps to the next arrival.  HTTP is not in
it.  For `sizing_check --in-process`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from apply_eval.datasets import EditRecord
from apply_service.build import build_runtime, open_service
from apply_service.service import Service
from apply_service.settings import Settings
from apply_service.ticket import Ticket
from apply_service.types import ApplyRequest, ApplyResult, FinalEvent
from benchmarks.sizing_fit import Asked

POLL_S = 0.002
APART_S = 1e6
"""Between edits that are to be made alone."""
LONGEST_S = 86_400.0


class ProcessorClock:
    """Seconds of processor time, and those that were skipped."""

    def __init__(self) -> None:
        self._skipped_s = -time.process_time()

    @property
    def now_s(self) -> float:
        return time.process_time() + self._skipped_s

    def skip_to(self, at_s: float) -> None:
        """Nothing happens until then."""
        self._skipped_s += max(0.0, at_s - self.now_s)


class TimedEngine:
    """An engine with the embedded model, one thread.  A service of its own for each run."""

    def __init__(self) -> None:
        self._settings = Settings(torch_threads=1, default_timeout_s=LONGEST_S, max_timeout_s=LONGEST_S)
        self._runtime = build_runtime(self._settings)
        self._runtime.load(self._settings.model)

    def alone(self, records: Sequence[EditRecord]) -> list[Asked]:
        """Each edit with the engine to itself."""
        return self._run(records, [APART_S * i for i in range(len(records))])

    def as_they_come(self, records: Sequence[EditRecord], times: Sequence[float], dice: random.Random) -> list[Asked]:
        """An edit at each of the times, chosen at random."""
        return self._run([dice.choice(records) for _ in times], times)

    def _run(self, records: Sequence[EditRecord], times: Sequence[float]) -> list[Asked]:
        clock, ended_s, tickets = ProcessorClock(), dict[Ticket, float](), list[Ticket]()
        with open_service(self._runtime, self._settings) as service:
            service.observe(lambda ticket: ended_s.update({ticket: clock.now_s}))
            for record, at_s in zip(records, times, strict=True):
                _wait_until(at_s, clock, service)
                request = ApplyRequest(record.before, record.update, path=record.path, strategy="model")
                tickets.append(service.submit(request))
            service.wait_until_idle(LONGEST_S)
        asked = []
        for ticket, at_s in zip(tickets, times, strict=True):
            if isinstance(ticket.terminal, FinalEvent):
                asked.append(_asked(ticket.terminal.result, at_s, ended_s[ticket] - at_s))
        return asked


def _wait_until(at_s: float, clock: ProcessorClock, service: Service) -> None:
    while clock.now_s < at_s:
        if service.wait_until_idle(POLL_S):
            clock.skip_to(at_s)


def _asked(result: ApplyResult, at_s: float, seconds: float) -> Asked:
    stats = result.stats
    n_rows = stats.prompt_tokens - stats.cached_prompt_tokens + stats.drafted_tokens + stats.passes
    return Asked(
        at_s,
        seconds,
        stats.prompt_tokens,
        stats.cached_prompt_tokens,
        stats.completion_tokens,
        stats.rejections,
        n_rows,
        max(1, len(result.windows)),
    )

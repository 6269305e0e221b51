"""Many sequences decoded together: one packed pass after the other, which any sequence may join or leave.

A pass holds a window of every sequence that writes and chunks of the prompts that are still being read.  An error
belongs to the sequence that caused it; its neighbours go on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from apply_service.decoding.verify import Decoding, Step
from apply_service.decoding.window_policy import Want, share_rows
from apply_service.errors import Overloaded
from apply_service.protocols import Engine, Part, Prefill, Verification

Outcome = Step | BaseException | None
"""What a pass did for a sequence: tokens, an error that ends it, or nothing yet (its prompt is being read, or it waits
for room)."""


@dataclass(frozen=True, slots=True)
class NextPass:
    """What a task yields when it needs a pass: its decodings that are to have part in it, none of them finished."""

    decodings: tuple[Decoding, ...]


Answer = tuple[Step | None, ...] | BaseException
"""What a task is sent for its decodings."""

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Entry:
    """One sequence in one pass."""

    decoding: Decoding
    part: Part | None = None
    answer: Verification | None = None
    outcome: Outcome = None

    @property
    def is_failed(self) -> bool:
        return isinstance(self.outcome, BaseException)

    @property
    def n_pending(self) -> int:
        """Tokens of its prompt still to be read."""
        return 0 if self.decoding.session is None else self.decoding.session.n_pending

    def attempt(self, act: Callable[[], T]) -> T | None:
        """`act`, whose error is this sequence's own; also one that is no `Exception`, as a panic of native code is."""
        try:
            return act()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.outcome = error
            return None

    def take(self, seconds: float) -> None:
        """Commit what the pass, which took so long, did for this sequence."""
        answer = self.answer
        if answer is None:
            self.decoding.count_prefill(seconds)
        else:
            self.outcome = self.attempt(lambda: self.decoding.commit(answer, seconds)) or self.outcome

    def release(self) -> None:
        """Free what an ended sequence holds; where that fails as well, the first error stays."""
        before = self.outcome
        self.attempt(self.decoding.close)
        if isinstance(before, BaseException):
            self.outcome = before


def _log_failure(error: Exception) -> None:
    log.warning("a pass of several sequences failed, each goes on alone: %s: %s", type(error).__name__, error)


class Scheduler:
    """Runs passes.  One thread at a time.  `on_failure` is called with the error of a pass of several sequences that
    failed, before each of them is run alone, which is slow; what it raises ends `run_pass`."""

    def __init__(self, on_failure: Callable[[Exception], None] = _log_failure) -> None:
        self._n_passes = 0
        self._on_failure = on_failure

    def run_pass(self, decodings: Sequence[Decoding]) -> list[Outcome]:
        """One pass on each engine; what it did for each of `decodings`, in order, none of which is finished.

        They are admitted in order: none overtakes one that waits for room.  One that ends or fails has freed its slots.
        """
        self._n_passes += 1
        entries = [Entry(decoding) for decoding in decodings]
        for entry in entries:
            entry.attempt(entry.decoding.deadline.check)
        for engine in {id(decoding.engine): decoding.engine for decoding in decodings}.values():
            self._run_on(engine, [one for one in entries if one.decoding.engine is engine and not one.is_failed])
        for entry in entries:
            if entry.is_failed or entry.decoding.finish_reason is not None:
                entry.release()
        return [entry.outcome for entry in entries]

    def _run_on(self, engine: Engine, entries: Sequence[Entry]) -> None:
        started = time.perf_counter()
        self._plan(engine, _admitted(entries))
        planned = [entry for entry in entries if entry.part is not None]
        if not planned:
            return
        self._step(engine, planned)
        seconds = time.perf_counter() - started
        for entry in planned:
            entry.decoding.last_pass = self._n_passes
            if not entry.is_failed:
                entry.take(seconds)

    def _plan(self, engine: Engine, entries: Sequence[Entry]) -> None:
        """Give each sequence its part of the pass: windows to those that write, the longest unserved first, chunks of
        their prompts to those that are still being read."""
        max_rows = window_rows = max(engine.pass_times)
        reading = [entry for entry in entries if entry.n_pending]
        # In one half of the passes the first to come is read first, in the other the one with least left to read, so
        # that neither a long prompt nor a stream of short ones holds up the others.
        if self._n_passes // 2 % 2:
            reading.sort(key=lambda entry: entry.n_pending)
        if reading:
            # Half of the rows are for windows where a chunk of a prompt fits beside them, else all and none in turn.
            window_rows = min(max_rows // 2, max_rows - min(engine.prefill_grain, reading[0].n_pending))
            window_rows = window_rows if window_rows > 0 else max_rows * (self._n_passes % 2)
        writing = sorted(
            (entry for entry in entries if not entry.n_pending),
            key=lambda entry: (entry.decoding.last_pass, entry.decoding.stats.passes),
        )
        n_used = _plan_windows(engine, writing[:window_rows], window_rows)
        _plan_prefills(engine, reading, max_rows - n_used)

    def _step(self, engine: Engine, entries: Sequence[Entry]) -> None:
        """The forward.  Where it fails, each sequence alone, so that only those that cause it fail."""
        try:
            answers = engine.step([entry.part for entry in entries if entry.part is not None])
        except Exception as error:
            if len(entries) == 1:
                entries[0].outcome = error
                return
            self._on_failure(error)
            for entry in entries:
                self._step(engine, [entry])
            return
        for entry, answer in zip(entries, answers, strict=True):
            entry.answer = answer


def _admitted(entries: Sequence[Entry]) -> list[Entry]:
    """Those that have their slots; from the first that must wait for some on, none gets any."""
    found, is_waiting = [], False
    for entry in entries:
        if is_waiting and entry.decoding.session is None:
            continue
        if entry.attempt(entry.decoding.admit):
            found.append(entry)
        else:
            is_waiting = is_waiting or not entry.is_failed
    return found


def _plan_windows(engine: Engine, entries: Sequence[Entry], max_rows: int) -> int:
    """A window for each of `entries`, its draft cut to its share; how many rows they take together."""
    drafts = [(entry, entry.attempt(entry.decoding.propose)) for entry in entries]
    writing = [(entry, draft) for entry, draft in drafts if draft is not None]
    if not writing:
        return 0
    wants = [Want(len(draft.token_ids), draft.expected_acceptance) for _, draft in writing]
    for (entry, _), n_drafted in zip(writing, share_rows(wants, engine.pass_times, max_rows), strict=True):
        entry.part = entry.attempt(partial(entry.decoding.window, n_drafted))
    return sum(entry.part.n_rows for entry, _ in writing if entry.part is not None)


def _plan_prefills(engine: Engine, entries: Sequence[Entry], n_rows: int) -> None:
    """As many whole chunks of the prompts, in this order, as rows are left."""
    for entry in entries:
        session, n_read = entry.decoding.session, entry.n_pending
        if n_read > n_rows:
            n_read = n_rows // engine.prefill_grain * engine.prefill_grain
        if session is not None and n_read > 0:
            entry.part = Prefill(session, n_read)
            n_rows -= n_read


# -- one sequence at a time -------------------------------------------------------------------------------------------
def drive_alone(task: Generator[T | NextPass, tuple[Step | None, ...] | None, None]) -> Generator[T]:
    """What `task` yields besides its decodings; these get their passes here, with no neighbours.  Closing it closes the
    task.

    Raises:
        Overloaded: the engine has no room, as others hold it.
    """
    scheduler = Scheduler()
    outcome: Answer | None = None
    try:
        while True:
            item = task.throw(outcome) if isinstance(outcome, BaseException) else task.send(outcome)
            outcome = None
            if not isinstance(item, NextPass):
                yield item
                continue
            outcome = joined(scheduler.run_pass(item.decodings))
            if not isinstance(outcome, BaseException) and all(one.session is None for one in item.decodings):
                outcome = Overloaded("the engine has no room", remedy="wait until other requests have ended")
    except StopIteration:
        return
    finally:
        task.close()


def joined(outcomes: Sequence[Outcome]) -> Answer:
    """What a task is sent for the decodings it asked a pass for: its steps, or the first error."""
    error = next((outcome for outcome in outcomes if isinstance(outcome, BaseException)), None)
    return tuple(one for one in outcomes if not isinstance(one, BaseException)) if error is None else error


def decode_alone(decoding: Decoding) -> Generator[Step]:
    """The steps of one decoding, alone in its passes; closes it on every way out.

    Raises:
        ApplyError: see `Decoding`; what the engine raises goes on to the caller.
    """
    return drive_alone(_steps(decoding))


def _steps(decoding: Decoding) -> Generator[Step | NextPass, tuple[Step | None, ...] | None, None]:
    with decoding:
        while decoding.finish_reason is None:
            (step,) = (yield NextPass((decoding,))) or (None,)
            if step is not None:
                yield step

"""Many sequences decoded together: one packed pass after the other, which any sequence may join or leave.

A pass holds a window of every sequence that writes and chunks of the prompts that are still being read.  An error
belongs to the sequence that caused it; its neighbours go on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
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
class Turn:
    """One sequence in one pass."""

    decoding: Decoding
    part: Part | None = None
    answer: Verification | None = None
    outcome: Outcome = None

    def attempt(self, act: Callable[[], T]) -> T | None:
        """`act`, whose error is this sequence's own; also one that is no `Exception`, as a panic of native code is."""
        try:
            return act()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.outcome = error
            return None

    def release(self) -> None:
        """Free what an ended sequence holds; where that fails as well, the first error stays."""
        before = self.outcome
        self.attempt(self.decoding.close)
        if isinstance(before, BaseException):
            self.outcome = before

    @property
    def is_failed(self) -> bool:
        return isinstance(self.outcome, BaseException)

    @property
    def is_reading(self) -> bool:
        return _n_pending(self) > 0


def _log_failure(error: Exception) -> None:
    log.warning("a pass of several sequences failed, each goes on alone: %s: %s", type(error).__name__, error)


class Scheduler:
    """Runs passes.  One thread at a time.  `on_failure` is told of a pass of several sequences that failed, before each
    of them is run alone, which is slow; what it raises ends `run_pass`."""

    def __init__(self, on_failure: Callable[[Exception], None] = _log_failure) -> None:
        self._n_passes = 0
        self._on_failure = on_failure

    def run_pass(self, decodings: Sequence[Decoding]) -> list[Outcome]:
        """One pass on each engine; what it did for each of `decodings`, in order, none of which is finished.

        They are admitted in order: none overtakes one that waits for room.  One that ends or fails has freed its slots.
        """
        self._n_passes += 1
        turns = [Turn(decoding) for decoding in decodings]
        for turn in turns:
            turn.attempt(turn.decoding.deadline.check)
        engines = {id(turn.decoding.engine): turn.decoding.engine for turn in turns}
        for key, engine in engines.items():
            mine = [turn for turn in turns if id(turn.decoding.engine) == key and not turn.is_failed]
            self._run_on(engine, _admitted(mine))
        for turn in turns:
            if turn.is_failed or turn.decoding.finish_reason is not None:
                turn.release()
        return [turn.outcome for turn in turns]

    def _run_on(self, engine: Engine, turns: Sequence[Turn]) -> None:
        started = time.perf_counter()
        self._plan(engine, turns)
        planned = [turn for turn in turns if turn.part is not None]
        if not planned:
            return
        _step(engine, planned, self._on_failure)
        seconds = time.perf_counter() - started
        for turn in planned:
            turn.decoding.last_pass = self._n_passes
            _take(turn, seconds)

    def _plan(self, engine: Engine, turns: Sequence[Turn]) -> None:
        """Give each sequence its part of the pass, those that have waited longest for theirs first."""
        max_rows = max(engine.pass_times)
        reading = self._readers(turns)
        writing = sorted((turn for turn in turns if not turn.is_reading), key=_last_served)
        window_rows = self._window_rows(engine, reading[0], max_rows) if reading else max_rows
        n_used = _plan_windows(engine, writing[:window_rows], window_rows)
        _plan_prefills(engine, reading, max_rows - n_used)

    def _readers(self, turns: Sequence[Turn]) -> list[Turn]:
        """Whose prompts are being read: in one half of the passes the first to come is first, in the other the one with
        least left to read, so that neither a long prompt nor a stream of short ones holds up the others."""
        reading = [turn for turn in turns if turn.is_reading]
        return sorted(reading, key=_n_pending) if self._n_passes // 2 % 2 else reading

    def _window_rows(self, engine: Engine, reader: Turn, max_rows: int) -> int:
        """Rows for windows while prompts are being read: half of them, as long as a chunk of a prompt fits beside them,
        else all and none in turn."""
        rows = min(max_rows // 2, max_rows - min(engine.prefill_grain, _n_pending(reader)))
        return rows if rows > 0 else max_rows * (self._n_passes % 2)


def _n_pending(turn: Turn) -> int:
    """Tokens of its prompt still to be read."""
    return 0 if turn.decoding.session is None else turn.decoding.session.n_pending


def _last_served(turn: Turn) -> tuple[int, int]:
    """Sorts those first that were served longest ago, and of these those served least often."""
    return turn.decoding.last_pass, turn.decoding.stats.passes


def _admitted(turns: Iterable[Turn]) -> list[Turn]:
    """Those that have their slots; from the first that must wait for some on, none gets any."""
    found, waits = [], False
    for turn in turns:
        if waits and turn.decoding.session is None:
            continue
        if turn.attempt(turn.decoding.admit):
            found.append(turn)
        else:
            waits = waits or not turn.is_failed
    return found


def _plan_windows(engine: Engine, turns: Sequence[Turn], max_rows: int) -> int:
    """A window for each of `turns`, its draft cut to its share; how many rows they take together."""
    drafts = {turn: turn.attempt(turn.decoding.propose) for turn in turns}
    writing = [(turn, draft) for turn, draft in drafts.items() if draft is not None]
    if not writing:
        return 0
    wants = [Want(len(draft.token_ids), draft.expected_acceptance) for _, draft in writing]
    for (turn, _), n_drafted in zip(writing, share_rows(wants, engine.pass_times, max_rows), strict=True):
        turn.part = turn.attempt(lambda turn=turn, n=n_drafted: turn.decoding.window(n))  # type: ignore[misc]
    return sum(turn.part.n_rows for turn, _ in writing if turn.part is not None)


def _plan_prefills(engine: Engine, turns: Iterable[Turn], n_rows: int) -> None:
    """As many whole chunks of the prompts, in this order, as rows are left."""
    for turn in turns:
        session = turn.decoding.session
        assert session is not None
        n_read = min(session.n_pending, n_rows // engine.prefill_grain * engine.prefill_grain)
        if session.n_pending <= n_rows:
            n_read = session.n_pending
        if n_read > 0:
            turn.part = Prefill(session, n_read)
            n_rows -= n_read


def _step(engine: Engine, turns: Sequence[Turn], on_failure: Callable[[Exception], None]) -> None:
    """The forward.  Where it fails, each sequence alone, so that only those that cause it fail."""
    try:
        answers = engine.step([turn.part for turn in turns if turn.part is not None])
    except Exception as error:
        if len(turns) == 1:
            turns[0].outcome = error
            return
        on_failure(error)
        for turn in turns:
            _step(engine, [turn], on_failure)
        return
    for turn, answer in zip(turns, answers, strict=True):
        turn.answer = answer


def _take(turn: Turn, seconds: float) -> None:
    if turn.is_failed:
        return
    if turn.answer is None:
        turn.decoding.count_prefill(seconds)
        return
    answer = turn.answer
    turn.outcome = turn.attempt(lambda: turn.decoding.commit(answer, seconds)) or turn.outcome


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

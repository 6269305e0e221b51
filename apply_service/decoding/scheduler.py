"""Decodes many sequences together, in packed passes.  A sequence may join or leave before any pass.

A pass holds a window of each sequence that is writing, and chunks of the prompts that are still being read.  An error
ends only the sequence that caused it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from apply_service.decoding.verify import Decoding, Step
from apply_service.errors import Overloaded
from apply_service.protocols import Draft, Engine, Part, Prefill, Verification, Window

PassResult = Step | BaseException | None
"""What a pass did for a sequence: tokens, or an error that ends it, or None (its prompt is being read, or it waits for
room)."""

Answer = tuple[Step | None, ...] | BaseException
"""What a task receives after its pass: a step for each decoding, or an error."""

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NextPass:
    """A task's request for a pass: the decodings to serve.  No finished decoding is among them."""

    decodings: tuple[Decoding, ...]


@dataclass(slots=True, eq=False)
class Entry:
    """One sequence in one pass."""

    decoding: Decoding
    part: Part | None = None
    n_read: int = 0
    """The number of rows of `part` that read the prompt."""
    answer: Verification | None = None
    outcome: PassResult = None

    @property
    def is_failed(self) -> bool:
        return isinstance(self.outcome, BaseException)

    @property
    def n_pending(self) -> int:
        """The number of prompt tokens still to be read."""
        return 0 if self.decoding.session is None else self.decoding.session.n_pending

    @property
    def n_rows(self) -> int:
        """The number of rows of this sequence in the pass."""
        return 0 if self.part is None else self.part.n_rows

    def take(self, seconds: float) -> None:
        """Commit the answer of a pass that took `seconds`, and count this time."""
        decoding, answer = self.decoding, self.answer
        if answer is not None:
            # If a pass both reads the end of a prompt and writes, its time is split by rows.
            read_s = seconds * self.n_read / (self.n_read + len(answer.choices))
            decoding.stats.prefill_s += read_s
            step = self.attempt(partial(decoding.commit, answer, seconds - read_s))
            self.outcome = self.outcome if step is None else step
        elif not self.is_failed:
            decoding.stats.prefill_passes += 1
            decoding.stats.prefill_s += seconds

    def attempt(self, act: Callable[[], T]) -> T | None:
        """Return the result of `act`.  If it raises, the error becomes this sequence's outcome, even a `BaseException`
        such as a panic in native code."""
        try:
            return act()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.outcome = error
            return None


def admit(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that have room in the engine, in order.  No entry overtakes an entry that waits for room."""
    admitted, is_waiting = [], False
    for entry in entries:
        if is_waiting and entry.decoding.session is None:
            continue
        if entry.attempt(entry.decoding.admit):
            admitted.append(entry)
        elif not entry.is_failed:
            is_waiting = True
    return admitted


class Scheduler:
    """Runs passes, on one thread at a time.

    If a pass of several sequences fails, `on_failure` gets the error; without `on_failure`, the error is logged.  After
    that, each sequence runs alone, which is slow.  An error that `on_failure` raises ends `run_pass`.
    """

    def __init__(self, on_failure: Callable[[Exception], None] | None = None) -> None:
        self._n_passes = 0
        self._on_failure = on_failure

    def run_pass(self, decodings: Sequence[Decoding], *, only_read: bool = False) -> list[PassResult]:
        """Run one pass on each engine, and return the outcomes of `decodings`, in order.  `only_read`: read prompts and
        write nothing.

        All decodings must be unfinished.  They are admitted in order: no decoding overtakes one that waits for room.  A
        decoding that ends or fails frees its slots.
        """
        self._n_passes += 1
        entries = [Entry(decoding) for decoding in decodings]
        for entry in entries:
            entry.attempt(entry.decoding.deadline.check)
        for engine in {id(decoding.engine): decoding.engine for decoding in decodings}.values():
            started = time.perf_counter()
            mine = [one for one in entries if one.decoding.engine is engine and not one.is_failed]
            self._plan(engine, mine, only_read=only_read)
            planned = [one for one in entries if one.decoding.engine is engine and one.part is not None]
            if planned:
                self._step(engine, planned)
            seconds = time.perf_counter() - started
            for entry in planned:
                entry.decoding.last_pass = self._n_passes
                entry.take(seconds)
        for entry in entries:
            if entry.is_failed or entry.decoding.finish_reason is not None:
                first = entry.outcome
                entry.attempt(entry.decoding.close)
                if isinstance(first, BaseException):
                    entry.outcome = first
        return [entry.outcome for entry in entries]

    def _plan(self, engine: Engine, entries: Sequence[Entry], *, only_read: bool) -> None:
        """Give each admitted sequence its part of the pass.

        A sequence that writes gets a window, with its draft cut to its share of the rows.  Sequences that have waited
        longest come first.  A sequence that reads gets a chunk of its prompt.  If the chunk ends the prompt, the rows
        after the chunk hold the sequence's first window.
        """
        admitted = admit(entries)
        max_rows = window_rows = max(engine.pass_times)
        reading = [entry for entry in admitted if entry.n_pending]
        # Half of the passes read the oldest prompt first, and the other half the prompt with the fewest tokens left.
        # So neither a long prompt nor a stream of short prompts holds up the others.
        if self._n_passes // 2 % 2:
            reading.sort(key=lambda entry: entry.n_pending)
        if reading:
            # Windows get half of the rows, or fewer if the first prompt's chunk needs more than the other half.  If the
            # chunk leaves no row, windows get all rows in one pass and none in the next.
            window_rows = min(max_rows // 2, max_rows - min(engine.prefill_grain, reading[0].n_pending))
            window_rows = window_rows if window_rows > 0 else max_rows * (self._n_passes % 2)
        writing = [entry for entry in admitted if not entry.n_pending and not only_read]
        writing.sort(key=lambda entry: (entry.decoding.last_pass, entry.decoding.stats.passes))
        n_left = max_rows
        proposed = [(entry, entry.attempt(entry.decoding.propose)) for entry in writing[:window_rows]]
        drafts = {entry: draft for entry, draft in proposed if draft is not None}
        if drafts:
            shares = share_rows([*drafts.values()], engine.pass_times, window_rows)
            for entry, n_drafted in zip(drafts, shares, strict=True):
                entry.part = entry.attempt(partial(entry.decoding.window, n_drafted))
                n_left -= entry.n_rows
        for entry in reading:
            entry.n_read = entry.n_pending
            if entry.n_read < n_left and not only_read:
                n_used = max_rows - n_left + entry.n_read
                entry.part = entry.attempt(partial(first_window, entry.decoding, engine.pass_times, n_used))
            elif (n_read := whole_chunks(entry.n_read, n_left, engine.prefill_grain)) > 0:
                assert entry.decoding.session is not None
                entry.part, entry.n_read = Prefill(entry.decoding.session, n_read), n_read
            n_left -= entry.n_rows

    def _step(self, engine: Engine, entries: Sequence[Entry]) -> None:
        """Run the forward.  If it fails, run each sequence alone, so that only the faulty sequences fail."""
        try:
            answers = engine.step([entry.part for entry in entries if entry.part is not None])
        except Exception as error:
            if len(entries) == 1:
                entries[0].outcome = error
                return
            if self._on_failure is not None:
                self._on_failure(error)
            else:
                log.warning(
                    "a pass of several sequences failed, each goes on alone: %s: %s", type(error).__name__, error
                )
            for entry in entries:
                self._step(engine, [entry])
            return
        for entry, answer in zip(entries, answers, strict=True):
            entry.answer = answer


# -- the size of a pass ------------------------------------------------------------------------------------------------
# All sequences that write share the rows of a pass.  If each draft token is accepted with probability a, token i is
# committed with probability a^i.  So rows go to the tokens with the highest a^i first.  The pass gets the size with the
# most expected tokens per second (docs/drafting.md).
CERTAIN = 0.9995
"""A draft's acceptance is at most this.  With 1.0 the first of several equal drafts would get all rows, because all its
tokens would count the same.  Below 1.0 equal drafts share the rows evenly."""
LADDER = np.log(CERTAIN) * 2.0 ** np.arange(24)
"""Descending thresholds for the probability that a token is committed, as natural logs."""


def share_rows(drafts: Sequence[Draft], pass_times: Mapping[int, float], max_rows: int) -> list[int]:
    """Return the number of tokens of each draft that go into the pass.

    Every sequence has one more row, for its last token.  All rows together fit in `max_rows` and in the chosen size of
    the pass.  `max_rows` must be at least the number of sequences.
    """
    n_own = len(drafts)
    n_rows = max_rows - n_own
    lengths = np.array([min(len(draft.token_ids), max(0, n_rows)) for draft in drafts], dtype=np.int64)
    chances = np.nan_to_num(np.array([draft.expected_acceptance for draft in drafts], np.float64)).clip(0.0, CERTAIN)
    if lengths.sum() > n_rows:
        # Sort only the likeliest tokens, which are those above the highest threshold that enough tokens pass.
        with np.errstate(divide="ignore"):
            passing = np.minimum(np.floor(LADDER[:, None] / np.log(chances)), lengths).astype(np.int64)
        is_enough = passing.sum(axis=1) >= n_rows
        lengths = passing[np.argmax(is_enough)] if is_enough.any() else lengths
    owners = np.repeat(np.arange(n_own), lengths)
    places = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths) + 1
    values = chances[owners] ** places
    order = np.argsort(-values, kind="stable")[:n_rows]
    expected = n_own + np.concatenate([[0.0], np.cumsum(values[order])])  # [n]: tokens with the n best drafted
    room = {size: min(len(order), size - n_own) for size in sorted(pass_times) if n_own <= size <= max_rows}
    # If no size fits, all rows are used.
    n_shared = len(order) if not room else room[max(room, key=lambda size: expected[room[size]] / pass_times[size])]
    return [int(n) for n in np.bincount(owners[order[:n_shared]], minlength=n_own)]


def first_window(decoding: Decoding, pass_times: Mapping[int, float], n_used: int) -> Window:
    """Return the window of a sequence that reads the end of its prompt in this pass.  `n_used` rows of the pass are
    already taken."""
    sizes = {size - n_used: seconds for size, seconds in pass_times.items() if size > n_used}
    (n_drafted,) = share_rows([decoding.propose()], sizes, max(sizes))
    return decoding.window(n_drafted)


def whole_chunks(n_pending: int, n_left: int, grain: int) -> int:
    """Return the number of prompt tokens to read in `n_left` rows: all `n_pending` if they fit, or else whole chunks of
    `grain`."""
    return n_pending if n_pending <= n_left else n_left // grain * grain


# -- one sequence at a time -------------------------------------------------------------------------------------------
def drive_alone(task: Generator[T | NextPass, tuple[Step | None, ...] | None, None]) -> Generator[T]:
    """Run the passes that `task` asks for, without other sequences.  Yields all other items of `task`, and closes the
    task at the end.  If the engine has no room because others hold it, the error Overloaded is thrown into the task."""
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
                outcome = Overloaded(
                    "the engine has no memory left for this request",
                    remedy="wait until others have ended, then try again",
                )
    except StopIteration:
        return
    finally:
        task.close()


def joined(outcomes: Sequence[PassResult]) -> Answer:
    """Return the steps of a task's decodings, or the first error among the outcomes."""
    error = next((outcome for outcome in outcomes if isinstance(outcome, BaseException)), None)
    return tuple(one for one in outcomes if not isinstance(one, BaseException)) if error is None else error

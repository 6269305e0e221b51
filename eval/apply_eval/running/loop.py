"""The loop of a run: turn after turn, every block kept before the next begins."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from apply_eval.datasets import EditRecord
from apply_eval.runners.answer import Answer, Runner
from apply_eval.running.rows import RunRow, row_of_answer, row_of_error
from apply_eval.running.rows_file import RowsFile
from apply_eval.running.schedule import Turn
from apply_service.errors import ApplyError, Unreachable, UnsupportedParameter

MAX_MISSING_IN_A_ROW = 5
"""A service that is gone is not asked for every sample that is left."""

Clock = Callable[[], float]


@dataclass(slots=True)
class Loop:
    """Answers turns with `runners` and keeps the rows in `file`.  `on_row` hears of each sample that is done."""

    records: Mapping[str, EditRecord]
    runners: Mapping[str, Runner]
    file: RowsFile
    concurrency: int = 1
    clock: Clock = time.perf_counter
    on_row: Callable[[RunRow], object] = lambda _: None
    _n_missing: Counter[str] = field(default_factory=Counter)

    def run(self, turns: Sequence[Turn]) -> None:
        """Do what is not done yet.

        Raises:
            Unreachable: a contestant's service is gone; what is done is kept.
        """
        for turn in self.pending(turns):
            self._take(turn)

    def pending(self, turns: Sequence[Turn]) -> list[Turn]:
        """The turns that are not done, with what is left of them: samples that were missing are tried again."""
        done = {(row.id, row.name, row.repeat) for row in self.file.record.rows if row.is_scored}
        left = [
            turn._replace(ids=tuple(at for at in turn.ids if (at, turn.name, turn.repeat) not in done))
            for turn in turns
        ]
        return [turn for turn in left if turn.ids]

    def warm_up(self, record: EditRecord) -> None:
        """Every contestant once, unmeasured.  What goes wrong will go wrong again where it is counted."""
        for runner in self.runners.values():
            try:
                runner.answer(record)
            except ApplyError:
                continue

    def _take(self, turn: Turn) -> None:
        runner = self.runners[turn.name]
        started = self.clock()
        found = self._ask_all(runner, [self.records[at] for at in turn.ids])
        wall_s = self.clock() - started
        rows = [
            self._judge(self.records[at], outcome, turn, runner) for at, outcome in zip(turn.ids, found, strict=True)
        ]
        self.file.add_block(turn.number, turn.name, wall_s, rows)
        for row in rows:
            self.on_row(row)
            self._note_missing(row)

    def _ask_all(self, runner: Runner, records: Sequence[EditRecord]) -> list[Answer | Exception]:
        if self.concurrency == 1 or len(records) == 1:
            return [_ask(runner, record) for record in records]
        with ThreadPoolExecutor(self.concurrency) as pool:
            try:
                return list(pool.map(lambda record: _ask(runner, record), records))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _judge(self, record: EditRecord, outcome: Answer | Exception, turn: Turn, runner: Runner) -> RunRow:
        if isinstance(outcome, Exception):
            return row_of_error(record, outcome, name=turn.name, repeat=turn.repeat, missing=runner.missing)
        return row_of_answer(record, outcome, name=turn.name, repeat=turn.repeat)

    def _note_missing(self, row: RunRow) -> None:
        self._n_missing[row.name] = 0 if row.is_scored else self._n_missing[row.name] + 1
        if self._n_missing[row.name] >= MAX_MISSING_IN_A_ROW:
            raise Unreachable(
                f"{row.name} failed {MAX_MISSING_IN_A_ROW} times in a row: {row.message}",
                value=row.error,
                remedy="mend it and give the same command again: what is done is kept, missing samples are retried",
            )


def _ask(runner: Runner, record: EditRecord) -> Answer | Exception:
    """The answer, or what came in its place; scorers look at it when the clock has stopped."""
    try:
        return runner.answer(record)
    except Exception as error:  # a contestant's crash is a result of the run
        return error


def refuse_one_at_a_time(runners: Sequence[Runner], concurrency: int) -> None:
    """Raises UnsupportedParameter where a contestant can't be asked from several threads."""
    alone = [runner.name for runner in runners if not runner.is_concurrent]
    if concurrency > 1 and alone:
        raise UnsupportedParameter(
            f"these answer one request at a time: {', '.join(alone)}",
            value=concurrency,
            limit=1,
            remedy="leave them out, or run with --concurrency 1",
        )

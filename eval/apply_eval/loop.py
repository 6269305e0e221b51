"""A run: what its rows depend on, whose turn it is, and the loop that keeps every block before the next begins.

Contestants take turns sample by sample, in an order drawn anew each time: what drifts while a run goes on (heat, other
work on the machine) hits all alike.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from apply_eval.datasets import EditRecord
from apply_eval.rows import RowsFile, RunRow, row_of_answer, row_of_error
from apply_eval.runners import Answer, RequestOptions, Runner
from apply_eval.services import ServerOptions
from apply_eval.target import TargetOptions
from apply_service.errors import ApplyError, Unreachable, UnsupportedParameter

DEFAULT_DRAFTERS = ("prompt_lookup", "original", "original_snippet", "merged_edit")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Who takes part and how they are asked.  `drafters` None: the default ones, or none where they make no sense."""

    drafters: tuple[str, ...] | None = None
    peers: Mapping[str, str | None] = field(default_factory=dict)
    """Peer by name, and the URL of its server where it has one."""
    target: TargetOptions = field(default_factory=TargetOptions)
    server: ServerOptions | None = None
    request: RequestOptions = field(default_factory=RequestOptions)
    with_plain: bool = True
    concurrency: int = 1
    repeats: int = 1


def plan_of(
    options: RunOptions,
    *,
    names: list[str],
    data: list[dict[str, str]],
    sample_ids: list[str],
    model: dict[str, Any] | None,
) -> dict[str, Any]:
    """The plan as JSON.  `names`: the contestants; `model`: the target's identity, None where it is a server's."""
    server = None if options.server is None else {**asdict(options.server), "api_key": None}
    return {
        "schema_version": 1,
        "data": data,
        "sample_ids": sample_ids,
        "names": names,
        "model": model,
        "server": server,
        "peers": dict(options.peers),
        "request": asdict(options.request),
        "concurrency": options.concurrency,
        "repeats": options.repeats,
    }


BLOCK_FACTOR = 4
"""Samples of a block for each concurrent request: enough for full batches, little to lose in a kill."""


class Turn(NamedTuple):
    """One contestant's turn on some samples."""

    number: int
    name: str
    repeat: int
    ids: tuple[str, ...]


def schedule(ids: Sequence[str], names: Sequence[str], *, repeats: int, concurrency: int, seed: int) -> Iterator[Turn]:
    """All turns in order.  Depends on the arguments alone, so that a run that goes on finds the same turns."""
    size = 1 if concurrency == 1 else concurrency * BLOCK_FACTOR
    number = 0
    for repeat in range(repeats):
        for start in range(0, len(ids), size):
            order = list(names)
            random.Random(f"{seed}-{repeat}-{start}").shuffle(order)
            for name in order:
                yield Turn(number, name, repeat, tuple(ids[start : start + size]))
                number += 1


MAX_MISSING_IN_A_ROW = 5
"""A service that is gone is not asked for every sample that is left."""


@dataclass(slots=True)
class Loop:
    """Answers turns with `runners` and keeps the rows in `file`.  `on_row` hears of each sample that is done."""

    records: Mapping[str, EditRecord]
    runners: Mapping[str, Runner]
    file: RowsFile
    concurrency: int = 1
    clock: Callable[[], float] = time.perf_counter
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
        rows = []
        for at, outcome in zip(turn.ids, found, strict=True):
            record, name, repeat = self.records[at], turn.name, turn.repeat
            if isinstance(outcome, Exception):
                rows.append(row_of_error(record, outcome, name=name, repeat=repeat, missing=runner.missing))
            else:
                rows.append(row_of_answer(record, outcome, name=name, repeat=repeat))
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

"""A run: what its rows depend on, whose turn it is, and the loop that keeps every row before the next sample is asked.

Contestants take turns sample by sample, in an order drawn anew each time: what drifts while a run goes on (heat, other
work on the machine) hits all alike.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from apply_eval.datasets import EditRecord
from apply_eval.rows import RowsFile, RunRow, row_of_answer, row_of_error
from apply_eval.runners import RequestOptions, Runner
from apply_eval.services import ServerOptions
from apply_eval.target import TargetOptions
from apply_service.errors import ApplyError, Unreachable


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
    }


class Turn(NamedTuple):
    """One contestant's turn on one sample."""

    id: str
    name: str


def schedule(ids: Sequence[str], names: Sequence[str], *, seed: int) -> list[Turn]:
    """All turns in order.  Depends on the arguments alone, so that a run that goes on finds the same turns."""
    turns: list[Turn] = []
    for number, at in enumerate(ids):
        order = list(names)
        random.Random(f"{seed}-{number}").shuffle(order)
        turns += [Turn(at, name) for name in order]
    return turns


MAX_MISSING_IN_A_ROW = 5
"""A service that is gone is not asked for every sample that is left."""


@dataclass(slots=True)
class Loop:
    """Answers turns with `runners` and keeps the rows in `file`.  `on_row` hears of each sample that is done.  None is
    begun after `until` (of `time.monotonic`)."""

    records: Mapping[str, EditRecord]
    runners: Mapping[str, Runner]
    file: RowsFile
    on_row: Callable[[RunRow], object] = lambda _: None
    until: float = math.inf
    _n_missing: Counter[str] = field(default_factory=Counter)

    def run(self, turns: Sequence[Turn]) -> None:
        """Do what is not done yet.  Raises Unreachable: a contestant's service is gone; what is done is kept."""
        for turn in self.pending(turns):
            if time.monotonic() > self.until:
                return
            runner, record = self.runners[turn.name], self.records[turn.id]
            try:
                row = row_of_answer(record, runner.answer(record), name=turn.name)
            except Exception as error:  # a contestant's crash is a result of the run
                row = row_of_error(record, error, name=turn.name, missing=runner.missing)
            self.file.add_row(row)
            self.on_row(row)
            self._n_missing[row.name] = 0 if row.is_scored else self._n_missing[row.name] + 1
            if self._n_missing[row.name] >= MAX_MISSING_IN_A_ROW:
                raise Unreachable(
                    f"the contestant {row.name} failed {MAX_MISSING_IN_A_ROW} times in a row: {row.message}",
                    value=row.error,
                    remedy="mend it and give the same command again: what is done is kept, missing samples are retried",
                )

    def pending(self, turns: Sequence[Turn]) -> list[Turn]:
        """The turns that are not done; samples that were missing are tried again."""
        done = {(row.id, row.name) for row in self.file.record.rows if row.is_scored}
        return [turn for turn in turns if turn not in done]

    def warm_up(self, record: EditRecord) -> None:
        """Every contestant once, unmeasured.  What goes wrong will go wrong again where it is counted."""
        for runner in self.runners.values():
            try:
                runner.answer(record)
            except ApplyError:
                continue

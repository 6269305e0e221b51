"""The file that a run lives in: JSON lines, only ever appended to, so that a kill loses one block at most.

Line one is the plan.  Then, in order of time, a `session` for each start of the run (what code on what machine) and a
`block` for everything that was measured together.  A torn last line is cut off when the file is opened again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from apply_eval.errors import DataError
from apply_eval.running.rows import RunRow, as_json, row_of_json


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one contestant that were measured together, and the seconds that took on the wall.  At a concurrency of
    one a block is one sample."""

    number: int
    name: str
    wall_s: float
    rows: tuple[RunRow, ...]


@dataclass(slots=True)
class RunRecord:
    """Everything that a rows file holds."""

    plan: dict[str, Any]
    sessions: list[dict[str, Any]] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    @property
    def rows(self) -> list[RunRow]:
        """The last row of every (sample, contestant, repeat), in order of their first: a missing sample that was tried
        again counts once."""
        latest: dict[tuple[str, str, int], RunRow] = {}
        for block in self.blocks:
            for row in block.rows:
                latest[row.id, row.name, row.repeat] = row
        return list(latest.values())


def read_rows_file(path: Path) -> RunRecord:
    """What a run has done so far.

    Raises:
        DataError: no such file, or not one of a run.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"no run lies at {path}", value=str(path), remedy="give the --out of a run") from error
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    if not lines:
        raise DataError(f"{path} holds no run", value=str(path), remedy="start it anew under another --out")
    try:
        entries = [json.loads(line) for line in lines]
        record = RunRecord(plan=entries[0]["plan"])
        for entry in entries[1:]:
            _take(record, entry)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is not the file of a run: {error!r}", value=str(path)) from error
    return record


def _take(record: RunRecord, entry: Mapping[str, Any]) -> None:
    if "session" in entry:
        record.sessions.append(entry["session"])
        return
    block = entry["block"]
    rows = tuple(row_of_json(row) for row in block["rows"])
    record.blocks.append(Block(block["number"], block["name"], block["wall_s"], rows))


class RowsFile:
    """A rows file open for more.  A context manager."""

    def __init__(self, path: Path, plan: Mapping[str, Any]) -> None:
        """Opens the run at `path`, or begins it with `plan`.

        Raises:
            DataError: another run lies there: continuing it would mix two.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self.record = self._open(path, dict(plan))
        self._file: BinaryIO = path.open("ab")
        if not path.stat().st_size:
            self._append({"plan": self.record.plan})

    def _open(self, path: Path, plan: dict[str, Any]) -> RunRecord:
        if not path.exists() or not _cut_torn_line(path):
            return RunRecord(plan)
        record = read_rows_file(path)
        changed = sorted(key for key in {*plan, *record.plan} if plan.get(key) != record.plan.get(key))
        if changed:
            raise DataError(
                f"another run lies in {path.parent}: it differs in {', '.join(changed)}",
                value=[record.plan.get(key) for key in changed],
                limit=[plan.get(key) for key in changed],
                remedy="name another --out, or say --fresh to throw that run away",
            )
        return record

    def add_session(self, session: Mapping[str, Any]) -> None:
        """Note who goes on with the run."""
        self.record.sessions.append(dict(session))
        self._append({"session": session})

    def add_block(self, number: int, name: str, wall_s: float, rows: Sequence[RunRow]) -> None:
        """Keep what was measured; on disk when this returns.  The record holds what the file holds, to the digit, so
        that a run has one summary however often it was stopped."""
        values = {"number": number, "name": name, "wall_s": round(wall_s, 6)}
        values["rows"] = [as_json(row, with_diff=True) for row in rows]
        self._append({"block": values})
        _take(self.record, {"block": values})

    def _append(self, entry: Mapping[str, Any]) -> None:
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        self._file.write(line + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _cut_torn_line(path: Path) -> bool:
    """Cut what a kill left after the last whole line; whether anything is left."""
    with path.open("r+b") as file:
        data = file.read()
        end = data.rfind(b"\n") + 1
        file.truncate(end)
    return end > 0

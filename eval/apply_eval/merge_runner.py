"""Runs the deterministic merger over a data set and judges every answer byte for byte.

No model takes part.  A refusal or a crash of the merger is a row of the results like any other; only a data set that
can't be read, or is empty, is an error.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from apply_eval.datasets import EditRecord
from apply_eval.errors import DataError
from apply_service.edits.fidelity import normalise, restore
from apply_service.edits.reply import read_reply
from apply_service.errors import ApplyError
from apply_service.registry import EDIT_FORMATS, resolve
from apply_service.types import Certainty

SCHEMA_VERSION = 1
SIZES = (("1-100", 100), ("101-300", 300), ("301-800", 800), ("801-1500", 1500), ("over 1500", 10**9))


@dataclass(frozen=True, slots=True)
class MergeAnswer:
    """What the merger said: the whole text with its own line ends, and how sure it is."""

    text: str
    certainty: Certainty
    determined: bool
    reasons: tuple[str, ...]
    format: str


Merger = Callable[[EditRecord], MergeAnswer]


@dataclass(frozen=True, slots=True)
class MergeRow:
    """One sample's result.  `certainty` is None where there was no answer; `error` is then its code."""

    id: str
    exact: bool
    certainty: str | None
    determined: bool
    reasons: tuple[str, ...]
    ms: float
    language: str | None
    size: str
    tags: tuple[str, ...]
    format: str | None = None
    error: str | None = None
    message: str = ""
    answer: str | None = None
    """The text of a wrong answer; not written to the results."""

    @property
    def is_wrong_certain(self) -> bool:
        """Wrong, and nothing in the answer says so."""
        is_sure = self.determined or self.certainty == Certainty.CERTAIN.value
        return self.error is None and not self.exact and is_sure


def format_merger(format_name: str) -> Merger:
    """The merger that serves requests.  `auto` detects the edit's format, as the service does."""

    def merge(record: EditRecord) -> MergeAnswer:
        original, update = normalise(record.before), normalise(record.update)
        named = None if format_name == "auto" else format_name
        reply = read_reply(update, original=original, path=record.path, language=record.language, named=named)
        prediction = resolve(EDIT_FORMATS, reply.format)().predict(
            original, reply.update, language=record.language, path=record.path, instruction=reply.prose
        )
        text = restore(record.before, prediction.ops)
        return MergeAnswer(text, prediction.certainty, prediction.determined, prediction.reasons, reply.format)

    return merge


def run_merge(
    records: Sequence[EditRecord], merger: Merger, *, on_row: Callable[[], object] = lambda: None
) -> list[MergeRow]:
    """A row for every record, in order; the first is merged once more beforehand, to warm up.

    Raises:
        DataError: no record.
    """
    if not records:
        raise DataError("there is nothing to merge: the data set is empty", value=0, limit=1)
    _judge(records[0], merger)
    rows = []
    for record in records:
        rows.append(_judge(record, merger))
        on_row()
    return rows


def _judge(record: EditRecord, merger: Merger) -> MergeRow:
    started = time.perf_counter()
    answer: MergeAnswer | None = None
    error, message = None, ""
    try:
        answer = merger(record)
    except ApplyError as refusal:
        error, message = refusal.code, refusal.message
    except Exception as crash:
        error, message = f"exception:{type(crash).__name__}", str(crash)
    ms = (time.perf_counter() - started) * 1000.0
    exact = answer is not None and answer.text == record.after
    return MergeRow(
        id=record.id,
        exact=exact,
        certainty=answer.certainty.value if answer else None,
        determined=answer is not None and answer.determined,
        reasons=answer.reasons if answer else (),
        ms=round(ms, 3),
        language=record.language,
        size=size_class(record.measures.n_lines_before),
        tags=record.tags,
        format=answer.format if answer else None,
        error=error,
        message=message,
        answer=answer.text if answer and not exact else None,
    )


def size_class(n_lines: int) -> str:
    """The name of the range that a file of `n_lines` falls into."""
    return next(name for name, limit in SIZES if n_lines <= limit)


def summarise(rows: Sequence[MergeRow]) -> dict[str, Any]:
    """The counts of a run, and its rows, as they stand in `results.json`."""
    return {
        "kind": "merge",
        "schema_version": SCHEMA_VERSION,
        "n_total": len(rows),
        "n_exact": sum(row.exact for row in rows),
        "n_wrong_certain": sum(row.is_wrong_certain for row in rows),
        "n_refused": sum(row.error is not None for row in rows),
        "by_certainty": group(rows, lambda row: [row.certainty or "refused"]),
        "by_language": group(rows, lambda row: [row.language or "unknown"]),
        "by_size": group(rows, lambda row: [row.size], order=[name for name, _ in SIZES]),
        "by_tag": group(rows, lambda row: row.tags),
        "median_ms": round(statistics.median(row.ms for row in rows), 3),
        "max_ms": max(row.ms for row in rows),
        "rows": [as_json(row) for row in rows],
    }


def group(
    rows: Iterable[MergeRow], keys_of: Callable[[MergeRow], Iterable[str]], *, order: Sequence[str] = ()
) -> dict[str, dict[str, int]]:
    """Counts by key, the largest group first (or in `order`)."""
    groups: dict[str, dict[str, int]] = {}
    for row in rows:
        for key in keys_of(row):
            counts = groups.setdefault(key, {"n_total": 0, "n_exact": 0, "n_wrong_certain": 0, "n_refused": 0})
            counts["n_total"] += 1
            counts["n_exact"] += row.exact
            counts["n_wrong_certain"] += row.is_wrong_certain
            counts["n_refused"] += row.error is not None
    if order:
        return {key: groups[key] for key in order if key in groups}
    return dict(sorted(groups.items(), key=lambda item: (-item[1]["n_total"], item[0])))


def as_json(row: MergeRow) -> dict[str, Any]:
    """A row without the texts."""
    return {
        "id": row.id,
        "exact": row.exact,
        "certainty": row.certainty,
        "determined": row.determined,
        "wrong_certain": row.is_wrong_certain,
        "reasons": list(row.reasons),
        "ms": row.ms,
        "language": row.language,
        "size": row.size,
        "tags": list(row.tags),
        "format": row.format,
        "error": row.error,
        "message": row.message,
    }

"""Runs the deterministic merger over a data set and judges every answer byte for byte.

What the merger says of itself is judged too: whether a reading that it did not choose is right, and how much could be
applied unseen on its word.  No model takes part.  A refusal or a crash of the merger is a row of the results like any
other; only a data set that can't be read, or is empty, is an error.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from apply_eval.datasets import EditRecord
from apply_eval.errors import DataError
from apply_eval.metrics.risk import Judged, at_threshold, calibration_figures, hits, risk_figures
from apply_eval.scorers.misquotes import is_same_but_misquotes
from apply_eval.scorers.text_match import is_same_but_blanks
from apply_eval.scorers.trust import CONFIDENCE_THRESHOLD
from apply_service.edits.fidelity import normalise, restore
from apply_service.edits.lazy.chooser import load
from apply_service.edits.reply import read_reply
from apply_service.errors import ApplyError, ModelNotLoadable
from apply_service.registry import EDIT_FORMATS, resolve
from apply_service.types import Certainty

SCHEMA_VERSION = 1
ORACLES = (1, 2, 4, 8)
"""Numbers of readings among which the right one is looked for."""
SIZES = (("1-100", 100), ("101-300", 300), ("301-800", 800), ("801-1500", 1500), ("over 1500", 10**9))


@dataclass(frozen=True, slots=True)
class MergeAnswer:
    """What the merger said: the whole text with its own line ends, and how sure it is.  `readings` are the texts of all
    its readings, the chosen one first; empty where there is but one."""

    text: str
    certainty: Certainty
    determined: bool
    reasons: tuple[str, ...]
    format: str
    probability: float | None = None
    readings: tuple[str, ...] = ()


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
    style: str = ""
    format: str | None = None
    probability: float | None = None
    """The merger's word for the chance that it is right; 1 where the format determines the result, None where it says
    nothing."""
    n_readings: int = 0
    right_reading: int | None = None
    """The place of the first reading that is right, from 1 on; None where none is."""
    same_but_blanks: bool = False
    same_but_misquotes: bool = False
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
        return MergeAnswer(
            text=restore(record.before, prediction.ops),
            certainty=prediction.certainty,
            determined=prediction.determined,
            reasons=prediction.reasons,
            format=reply.format,
            probability=prediction.probability,
            readings=tuple(restore(record.before, reading.ops) for reading in prediction.readings),
        )

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
    row = MergeRow(
        id=record.id,
        exact=False,
        certainty=None,
        determined=False,
        reasons=(),
        ms=round(ms, 3),
        language=record.language,
        size=size_class(record.measures.n_lines_before),
        tags=record.tags,
        style=record.style,
        error=error,
        message=message,
    )
    return row if answer is None else _judge_answer(row, record, answer)


def _judge_answer(row: MergeRow, record: EditRecord, answer: MergeAnswer) -> MergeRow:
    before, wanted, text = record.before, record.after, answer.text
    exact = text == wanted
    readings = answer.readings or (text,)
    return replace(
        row,
        exact=exact,
        certainty=answer.certainty.value,
        determined=answer.determined,
        reasons=answer.reasons,
        format=answer.format,
        probability=1.0 if answer.determined else answer.probability,
        n_readings=len(readings),
        right_reading=next((at for at, reading in enumerate(readings, 1) if reading == wanted), None),
        same_but_blanks=exact or is_same_but_blanks(wanted, text),
        same_but_misquotes=exact or is_same_but_misquotes(before, wanted, text, record.update),
        answer=None if exact else text,
    )


def size_class(n_lines: int) -> str:
    """The name of the range that a file of `n_lines` falls into."""
    return next(name for name, limit in SIZES if n_lines <= limit)


def shipped_threshold() -> float:
    """From which probability on the merger's answers are applied unseen: the shipped chooser's, as it was fitted; that
    of confidences in general where there is no chooser."""
    try:
        return load().thresholds.apply
    except ModelNotLoadable:
        return CONFIDENCE_THRESHOLD


def summarise(rows: Sequence[MergeRow], *, threshold: float = CONFIDENCE_THRESHOLD, seed: int = 0) -> dict[str, Any]:
    """The counts of a run, and its rows, as they stand in `results.json`."""
    n_total, judged = len(rows), [Judged(row.probability, row.exact) for row in rows]
    return {
        "kind": "merge",
        "schema_version": SCHEMA_VERSION,
        "n_total": n_total,
        "n_exact": sum(row.exact for row in rows),
        "n_wrong_certain": sum(row.is_wrong_certain for row in rows),
        "n_refused": sum(row.error is not None for row in rows),
        "exact": hits(sum(row.exact for row in rows), n_total),
        "same_but_blanks": hits(sum(row.same_but_blanks for row in rows), n_total),
        "same_but_misquotes": hits(sum(row.same_but_misquotes for row in rows), n_total),
        "oracle": {str(k): hits(sum(_has_right(row, k) for row in rows), n_total) for k in ORACLES},
        "risk": risk_figures(judged, threshold=threshold, seed=seed),
        "calibration": calibration_figures(judged),
        "by_style": _by_style(rows, threshold),
        "by_certainty": group(rows, lambda row: [row.certainty or "refused"]),
        "by_language": group(rows, lambda row: [row.language or "unknown"]),
        "by_size": group(rows, lambda row: [row.size], order=[name for name, _ in SIZES]),
        "by_tag": group(rows, lambda row: row.tags),
        "median_ms": round(statistics.median(row.ms for row in rows), 3),
        "max_ms": max(row.ms for row in rows),
        "rows": [as_json(row) for row in rows],
    }


def _has_right(row: MergeRow, k: int) -> bool:
    return row.right_reading is not None and row.right_reading <= k


def _by_style(rows: Sequence[MergeRow], threshold: float) -> dict[str, dict[str, Any]]:
    """Of each style, and of `all`: exact match, and how much is applied from the threshold on, how much of it wrong."""
    members = {
        style: [row for row in rows if row.style == style] for style in sorted({row.style for row in rows} - {""})
    }
    return {
        style: {
            "n_total": len(found),
            "exact": hits(sum(row.exact for row in found), len(found)),
            "at_threshold": at_threshold([Judged(row.probability, row.exact) for row in found], threshold),
        }
        for style, found in (members | {"all": list(rows)}).items()
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
        "style": row.style,
        "format": row.format,
        "probability": row.probability,
        "n_readings": row.n_readings,
        "right_reading": row.right_reading,
        "same_but_blanks": row.same_but_blanks,
        "same_but_misquotes": row.same_but_misquotes,
        "error": row.error,
        "message": row.message,
    }

"""`apply-eval merge`: the deterministic merger over a data set, every answer judged byte for byte.

What the merger says of itself is judged too: whether a reading that it did not choose is right, and how much could be
applied unseen on its word.  No model takes part.  A refusal or a crash of the merger is a row of the results like any
other; only a data set that can't be read, or is empty, is an error.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from apply_eval.datasets import SIZES, EditRecord, size_class
from apply_eval.errors import DataError
from apply_eval.numbers import DASH, print_table, share
from apply_eval.scores import diff_hunks, is_same_but_blanks, is_same_but_misquotes, is_slight
from apply_eval.statistics import CONFIDENCE_THRESHOLD, Judged, at_threshold, calibration_figures, hits, risk_figures
from apply_service.errors import ApplyError, ModelNotLoadable
from apply_service.merge.rank.chooser import load
from apply_service.protocols import EditContext
from apply_service.registry import EDIT_FORMATS, resolve
from apply_service.reply.reader import read_reply
from apply_service.text.fidelity import normalise, restore
from apply_service.types import Certainty

SCHEMA_VERSION = 1
ORACLES = (1, 2, 4, 8)
"""Numbers of readings among which the right one is looked for."""
SHOWN = 3
"""Readings that a question shows beside the answer."""
ASKED_BELOW = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99, 1.0)
MAX_DIFF_LINES = 60


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
    ms: float
    language: str | None
    size: str
    tags: tuple[str, ...]
    style: str = ""
    exact: bool = False
    certainty: str | None = None
    determined: bool = False
    reasons: tuple[str, ...] = ()
    format: str | None = None
    probability: float | None = None
    """The merger's word for the chance that it is right; 1 where the format determines the result, None where it says
    nothing."""
    n_readings: int = 0
    right_reading: int | None = None
    """The place of the first reading that is right, from 1 on; None where none is."""
    same_but_blanks: bool = False
    same_but_misquotes: bool = False
    slight: bool = False
    """It is wrong in white space, blank lines and words of comments alone."""
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
        prediction = resolve(EDIT_FORMATS, reply.format)(
            original, reply.update, EditContext(record.path, record.language, reply.prose)
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
    """A row for every record, in order; the first is merged once more beforehand, to warm up.  Raises DataError: no
    record."""
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
    ms, size = round((time.perf_counter() - started) * 1000.0, 3), size_class(record.measures.n_lines_before)
    row = MergeRow(record.id, ms, record.language, size, record.tags, record.style, error=error, message=message)
    if answer is None:
        return row
    text, exact, readings = answer.text, answer.text == record.after, answer.readings or (answer.text,)
    is_misquoted = exact or is_same_but_misquotes(record.before, record.after, text, record.update)
    return replace(
        row,
        exact=exact,
        certainty=answer.certainty.value,
        determined=answer.determined,
        reasons=answer.reasons,
        format=answer.format,
        probability=1.0 if answer.determined else answer.probability,
        n_readings=len(readings),
        right_reading=next((at for at, reading in enumerate(readings, 1) if reading == record.after), None),
        same_but_blanks=exact or is_same_but_blanks(record.after, text),
        same_but_misquotes=is_misquoted,
        slight=not exact and is_slight(record.after, text),
        answer=None if exact else text,
    )


def shipped_threshold() -> float:
    """From which probability on the merger's answers are applied unseen: the shipped chooser's, as it was fitted; that
    of confidences in general where there is no chooser."""
    try:
        return load().thresholds.apply
    except ModelNotLoadable:
        return CONFIDENCE_THRESHOLD


# -- results -----------------------------------------------------------------------------------------------------------
def summarise(rows: Sequence[MergeRow], *, threshold: float = CONFIDENCE_THRESHOLD, seed: int = 0) -> dict[str, Any]:
    """The counts of a run, and its rows, as they stand in `results.json`."""
    n_total, judged = len(rows), _judged(rows)
    styles = {
        style: [row for row in rows if row.style == style] for style in sorted({row.style for row in rows} - {""})
    }
    by_style: dict[str, dict[str, Any]] = {}
    for style, found in (styles | {"all": list(rows)}).items():
        unseen = at_threshold(_judged(found), threshold)
        exact = hits(sum(row.exact for row in found), len(found))
        by_style[style] = {"n_total": len(found), "exact": exact, "at_threshold": unseen}
    sizes = group(rows, lambda row: [row.size])
    return {
        "kind": "merge",
        "schema_version": SCHEMA_VERSION,
        **_counts(rows),
        "exact": hits(sum(row.exact for row in rows), n_total),
        "same_but_blanks": hits(sum(row.same_but_blanks for row in rows), n_total),
        "same_but_misquotes": hits(sum(row.same_but_misquotes for row in rows), n_total),
        "oracle": {str(k): hits(sum((row.right_reading or k + 1) <= k for row in rows), n_total) for k in ORACLES},
        "risk": risk_figures(judged, threshold=threshold, seed=seed),
        "one_question": one_question(rows, threshold),
        "calibration": calibration_figures(judged),
        "by_style": by_style,
        "by_certainty": group(rows, lambda row: [row.certainty or "refused"]),
        "by_language": group(rows, lambda row: [row.language or "unknown"]),
        "by_size": {name: sizes[name] for name, _ in SIZES if name in sizes},
        "by_tag": group(rows, lambda row: row.tags),
        "median_ms": round(statistics.median(row.ms for row in rows), 3),
        "max_ms": max(row.ms for row in rows),
        "rows": [as_json(row) for row in rows],
    }


def one_question(rows: Sequence[MergeRow], threshold: float) -> dict[str, Any]:
    """What comes of it if whoever wrote an edit is asked about each answer below a threshold: how many are asked, and
    how many edits are right then, by the answer or one of the next SHOWN readings.  `curve`: [threshold, asked, right,
    wrong without a question], as shares, at each of ASKED_BELOW."""
    n, n_exact = len(rows), sum(row.exact for row in rows)

    def counts(limit: float) -> tuple[int, int, int]:
        asked = [row for row in rows if not row.determined and (row.probability or 0.0) < limit]
        found = sum(row.right_reading is not None and 1 < row.right_reading <= 1 + SHOWN for row in asked)
        return len(asked), n_exact + found, n - n_exact - sum(not row.exact for row in asked)

    n_asked, n_right, _ = counts(threshold)
    return {
        "asked": hits(n_asked, n),
        "right": hits(n_right, n),
        "curve": [[limit, *(round(count / n, 4) for count in counts(limit))] for limit in ASKED_BELOW],
    }


def _judged(rows: Iterable[MergeRow]) -> list[Judged]:
    return [Judged(row.probability, row.exact, is_slight=row.slight) for row in rows]


def _counts(rows: Sequence[MergeRow]) -> dict[str, int]:
    return {
        "n_total": len(rows),
        "n_exact": sum(row.exact for row in rows),
        "n_wrong_certain": sum(row.is_wrong_certain for row in rows),
        "n_refused": sum(row.error is not None for row in rows),
    }


def group(rows: Iterable[MergeRow], keys_of: Callable[[MergeRow], Iterable[str]]) -> dict[str, dict[str, int]]:
    """Counts by key, the largest group first."""
    groups: dict[str, list[MergeRow]] = {}
    for row in rows:
        for key in keys_of(row):
            groups.setdefault(key, []).append(row)
    return {key: _counts(groups[key]) for key in sorted(groups, key=lambda key: (-len(groups[key]), key))}


def as_json(row: MergeRow) -> dict[str, Any]:
    """A row without the texts."""
    values = asdict(row) | {"wrong_certain": row.is_wrong_certain}
    del values["answer"]
    return values | {"reasons": list(row.reasons), "tags": list(row.tags)}


# -- on the terminal ---------------------------------------------------------------------------------------------------
def print_summary(summary: Mapping[str, Any]) -> None:
    """Print a table for each way of grouping, what the answers' own word is worth, totals."""
    for title in ("certainty", "language", "size", "tag"):
        if summary[f"by_{title}"]:
            rows = []
            for key, found in summary[f"by_{title}"].items():
                exact = (found["n_exact"], share(found["n_exact"] / found["n_total"]))
                counts = (found["n_total"], *exact, found["n_wrong_certain"], found["n_refused"])
                rows.append((key, *map(str, counts)))
            heads = (title, "samples", "exact", "share", "wrong but certain", "refused")
            print_table(heads, rows, f"by {title}")
    # Coverage stands beside errors: who applies nothing has none wrong.
    by_style = []
    for style, found in summary["by_style"].items():
        exact, unseen = found["exact"], found["at_threshold"]
        low, high = exact["interval"]
        shown = (f"{exact['n']} ({share(exact['share'])})", f"{100 * low:.0f}–{100 * high:.0f}")
        below = (unseen["n_applied"], unseen["n_wrong"], unseen["n_grave"], unseen["n_right_below"])
        by_style.append((style, str(found["n_total"]), *shown, *map(str, below)))
    columns = ("style", "samples", "exact", "95%", "applied", "of these wrong", "grave", "right below")
    print_table(columns, by_style, "by style")
    print("\n".join(trust_lines(summary)))
    n_total, n_exact = summary["n_total"], summary["n_exact"]
    print(
        f"{n_exact} of {n_total} exact ({n_exact / n_total:.1%}), "
        f"{summary['n_wrong_certain']} wrong but certain, {summary['n_refused']} refused; "
        f"median {summary['median_ms']:.1f} ms an edit, at most {summary['max_ms']:.0f} ms"
    )


def trust_lines(summary: Mapping[str, Any]) -> list[str]:
    """What may be applied unseen, calibration, near misses and the oracle, in words."""
    risk, unseen, tenths = summary["risk"], summary["risk"]["at_threshold"], summary["calibration"]["deciles"]
    lines = [
        f"from {unseen['threshold']:.3f} on: {share(unseen['coverage'])} {_interval(unseen['coverage_interval'])} "
        f"applied, {unseen['n_wrong']} of {unseen['n_applied']} wrong {_interval(unseen['wrong_interval'])}, "
        f"{unseen['n_grave']} of them gravely; "
        f"{unseen['n_right_below']} right answers below it ({share(unseen['right_below'])})"
    ]
    for limit, found in risk["coverage_at"].items():
        lines.append(
            f"coverage at {float(limit):.0%} wrong, threshold chosen afterwards: {share(found['coverage'])} "
            f"{_interval(found['interval'])}"
        )
    question = summary["one_question"]
    lines.append(f"right within one question: {_hits(question['right'])}, asked: {_hits(question['asked'])}")
    if tenths:
        told = "  ".join(f"{mean:.2f}: {right:.2f}" for _, _, _, mean, right in tenths)
        lines.append(f"mean probability and share right, by tenths of the answers: {told}")
    near = (("same_but_blanks", "blank lines"), ("same_but_misquotes", "misquoted context"))
    lines.append("match but for " + ", ".join(f"{what}: {_hits(summary[key])}" for key, what in near))
    lines.append("right among the first " + ", ".join(f"{k}: {_hits(found)}" for k, found in summary["oracle"].items()))
    return lines


def _hits(found: Mapping[str, Any]) -> str:
    return f"{share(found['share'])} {_interval(found['interval'])}"


def _interval(interval: Sequence[float] | None) -> str:
    return DASH if interval is None else f"({share(interval[0])}–{share(interval[1])})"


def print_wrong_certain(rows: Sequence[MergeRow], records: Sequence[EditRecord]) -> None:
    """Print what the certain answers got wrong: `-` is the wanted text, `+` the answer; long diffs are cut."""
    for row, record in zip(rows, records, strict=True):
        if row.is_wrong_certain and row.answer is not None:
            print(f"\nwrong but certain: {row.id}", *diff_hunks(record.after, row.answer, MAX_DIFF_LINES), sep="\n")

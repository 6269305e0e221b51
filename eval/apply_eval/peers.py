"""What other projects' tests expect of an edit format, asked of this service: strategy exact, no model.

A case is a file (or several), an edit as the peer's test or recorded chat has it, and the text that comes out, or the
fact that the peer refuses it.  A difference that a user would accept is `intentional` where the committed list gives a
reason for it.  What is wrong without a warning or an error is counted apart: nobody would notice it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from apply_eval.datasets import read_rows
from apply_eval.errors import DataError
from apply_eval.numbers import print_table
from apply_service.batch import PatchRequest, PatchSource
from apply_service.batch.run import apply_patch_request
from apply_service.errors import ApplyError
from apply_service.pipeline import apply
from apply_service.target import Runtime, no_target
from apply_service.types import ApplyRequest, Verdict

INTENTIONAL = Path(__file__).parent / "fixtures" / "peer_intentional.jsonl"
NAMED_FORMATS = ("whole_file",)
"""Formats that are never detected: the cases name them, as a caller must."""

Outcome = Literal["exact", "intentional", "refused", "wrong", "silent", "unscored"]
OUTCOMES: tuple[Outcome, ...] = ("exact", "intentional", "refused", "wrong", "silent", "unscored")
Key = tuple[str, str]
"""Source and name of a case."""
Texts = Mapping[str, str]
"""The files after the edit, by path."""


@dataclass(frozen=True, slots=True)
class PeerRow:
    """One case's result.  `silent`: wrong, and no verdict says so; `unscored`: the case says no result."""

    source: str
    name: str
    outcome: Outcome
    detail: str = ""
    judged: str = ""


def run_peers(path: Path, *, on_case: Callable[[], object] = lambda: None) -> list[PeerRow]:
    """A row for every case of a data set, in order.  Raises DataError: no such file, or a case that lacks a field."""
    reasons = read_intentional(INTENTIONAL)
    rows = []
    for number, case in read_rows(path):
        try:
            rows.append(judge_case(case, reasons))
        except KeyError as error:
            raise DataError(f"{path.name}, line {number}: the field {error} is missing", value=str(error)) from error
        on_case()
    if not rows:
        raise DataError(f"{path} holds no case", value=0, limit=1)
    return rows


def read_intentional(path: Path) -> dict[Key, str]:
    """The reason of every difference that is meant."""
    return {(row["source"], row["name"]): row["reason"] for _, row in read_rows(path)}


def judge_case(case: Mapping[str, Any], reasons: Mapping[Key, str]) -> PeerRow:
    """The case's row."""
    key, judged = (case["source"], case["name"]), case.get("judged", "")
    is_batch = case["mode"] == "batch"
    wanted = case.get("expected_files") if is_batch else case.get("expected")
    if wanted is None and case.get("error") is None:
        return PeerRow(*key, "unscored", judged=judged)
    texts: Texts | None = None  # None: refused
    try:
        if is_batch:
            texts, verdicts = _apply_batch(case)
        else:
            named = case["format"] if case["format"] in NAMED_FORMATS else None
            request = ApplyRequest(case["original"], case["update"], path=case["path"], format=named, strategy="exact")
            result = apply(request, Runtime(load=no_target))
            texts, verdicts = {case["path"]: result.merged_code}, list(result.verdicts)
        findings = [verdict for verdict in verdicts if not verdict.is_pass]
        detail = "; ".join(f"{verdict.check}: {verdict.message}" for verdict in findings)
        wrong: Outcome = "wrong" if findings else "silent"
    except ApplyError as error:
        wrong, detail = "refused", f"{error.code}: {error.message}"
    if texts == (wanted if is_batch or wanted is None else {case["path"]: wanted}):
        return PeerRow(*key, "exact", detail, judged)
    if key in reasons:
        return PeerRow(*key, "intentional", reasons[key], judged)
    return PeerRow(*key, wrong, detail, judged)


def _apply_batch(case: Mapping[str, Any]) -> tuple[Texts, list[Verdict]]:
    files = dict(case.get("files") or {})
    result = apply_patch_request(
        PatchRequest(case["update"], tuple(PatchSource(path, text) for path, text in files.items()))
    )
    if result.status != "applied":
        raise next(item.error for item in result.items if item.error is not None)
    for item in result.items:
        if item.action in ("delete", "rename") and item.source is not None:
            files.pop(item.source, None)
        if item.result is not None and item.path is not None:
            files[item.path] = item.result.merged_code
    return files, [verdict for item in result.items for verdict in item.verdicts]


def summarise_peers(rows: Sequence[PeerRow]) -> dict[str, Any]:
    """Counts by source and of all, and the rows that are neither exact nor meant."""
    by_source: dict[str, dict[str, int]] = {}
    for row in rows:
        counts = by_source.setdefault(row.source, dict.fromkeys(OUTCOMES, 0))
        counts[row.outcome] += 1
    total = {name: sum(counts[name] for counts in by_source.values()) for name in OUTCOMES}
    left = [row for row in rows if row.outcome in ("refused", "wrong", "silent")]
    return {
        "kind": "peers",
        "n_total": len(rows),
        "total": total,
        "by_source": dict(sorted(by_source.items())),
        "left": [{"source": r.source, "name": r.name, "outcome": r.outcome, "detail": r.detail} for r in left],
    }


def print_peers(rows: Sequence[PeerRow]) -> None:
    """Print the table by source, and every case that is left."""
    summary = summarise_peers(rows)
    heads = ("wrong and silent" if name == "silent" else name for name in OUTCOMES)
    by_source = (*summary["by_source"].items(), ("all", summary["total"]))
    lines = [(source, *(str(counts[name]) for name in OUTCOMES)) for source, counts in by_source]
    print_table(("source", *heads), lines, "peers' cases, strategy exact")
    for row in summary["left"]:
        print(f"{row['outcome']}: {row['source']} | {row['name'][:90]} | {row['detail'][:160]}")

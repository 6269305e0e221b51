"""`results.json` of a run, and reading it again.

Fields: `kind` ("run"), `schema_version`, `complete` (false where the run was stopped), `plan`, `plain` (what the
baseline is and why), `provenance` (of the last start; `sessions` has all), `samples` (facts of each, no texts),
`summary` (by contestant, see `metrics.fields`), `rows` (one for each sample, contestant and repeat; see
`running.rows.RunRow`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from apply_eval.errors import DataError
from apply_eval.metrics.summary import SummaryOptions, summarise
from apply_eval.running.rows import RunRow, SampleFacts, as_json, facts_of_json, row_of_json
from apply_eval.running.rows_file import RunRecord, read_rows_file

SCHEMA_VERSION = 1
KIND = "run"
MAX_DEPTH = 3
"""Of objects that are laid out over several lines."""
MAX_PASS_COUNTS = 64
"""Longer lists of passes stand in the rows file alone."""
RESULTS, ROWS = "results.json", "rows.jsonl"


@dataclass(frozen=True, slots=True)
class RunResults:
    """A results file read back.  `diffs` has the wrong answers by (sample, contestant) where the rows file is there."""

    values: Mapping[str, Any]
    facts: Mapping[str, SampleFacts]
    rows: tuple[RunRow, ...]
    diffs: Mapping[tuple[str, str], str]

    @property
    def summary(self) -> Mapping[str, Mapping[str, Any]]:
        found: Mapping[str, Mapping[str, Any]] = self.values["summary"]
        return found

    @property
    def names(self) -> list[str]:
        return list(self.summary)


def build_results(
    record: RunRecord, facts: Sequence[SampleFacts], options: SummaryOptions, *, plain: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The whole results.

    Raises:
        DataError: not one sample of any contestant could be scored.
    """
    plan, rows = record.plan, record.rows
    if not any(row.is_scored for row in rows):
        raise DataError("no sample could be scored", value=0, limit=1, remedy=_why(rows))
    wanted = {
        (i, name, repeat) for i in plan["sample_ids"] for name in plan["names"] for repeat in range(plan["repeats"])
    }
    return {
        "kind": KIND,
        "schema_version": SCHEMA_VERSION,
        "complete": wanted <= {(row.id, row.name, row.repeat) for row in rows},
        "plan": plan,
        "plain": plain,
        "provenance": record.sessions[-1] if record.sessions else None,
        "sessions": record.sessions,
        "summary_options": asdict(options),
        "samples": [asdict(fact) for fact in facts],
        "summary": summarise(rows, record.blocks, facts, plan["names"], options),
        "rows": [as_json(_without_long_counts(row), with_diff=False) for row in _in_order(rows, plan)],
    }


def _without_long_counts(row: RunRow) -> RunRow:
    return row if len(row.pass_counts) <= MAX_PASS_COUNTS else replace(row, pass_counts=())


def _why(rows: Sequence[RunRow]) -> str:
    return rows[-1].message if rows else "let it run to the end of the first sample"


def _in_order(rows: Sequence[RunRow], plan: Mapping[str, Any]) -> list[RunRow]:
    """By contestant, sample and repeat, whatever order they were measured in."""
    at = {name: i for i, name in enumerate(plan["names"])}
    place = {name: i for i, name in enumerate(plan["sample_ids"])}
    return sorted(rows, key=lambda row: (at[row.name], place[row.id], row.repeat))


def write_results(folder: Path, results: Mapping[str, Any]) -> Path:
    """Write `results.json` wholly or not at all: what fits a line stands on a line, so that two runs can be diffed."""
    return write_whole(folder / RESULTS, _layout(results, 0) + "\n")


def _layout(value: Any, depth: int) -> str:
    """JSON with one line a row, sample or group of figures, and everything above them opened up."""
    is_short = depth > MAX_DEPTH or not isinstance(value, dict | list)
    flat = json.dumps(value, ensure_ascii=False) if is_short else ""
    if is_short:
        return flat
    pad = "\n" + " " * (depth + 1)
    if isinstance(value, list):
        items = [_layout(item, MAX_DEPTH + 1) for item in value]
        return f"[{pad}{f',{pad}'.join(items)}{pad[:-1]}]" if items else "[]"
    items = [f"{json.dumps(key, ensure_ascii=False)}: {_layout(item, depth + 1)}" for key, item in value.items()]
    return f"{{{pad}{f',{pad}'.join(items)}{pad[:-1]}}}" if items else "{}"


def write_whole(path: Path, text: str) -> Path:
    """Replace a file by a rename: a reader sees the old text or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8", errors="surrogatepass")
    os.replace(new, path)
    return path


def read_results(path: Path) -> RunResults:
    """A run's results: its folder, or a results file of any name.

    Raises:
        DataError: no such file, not JSON, of another kind, or of a newer schema.
    """
    file = path / RESULTS if path.is_dir() else path
    try:
        values = json.loads(file.read_text(encoding="utf-8", errors="surrogatepass"))
    except OSError as error:
        raise DataError(f"no results lie at {path}", value=str(path), remedy="give the --out of a run") from error
    except ValueError as error:
        raise DataError(f"{file} is not JSON: {error}", value=str(file)) from error
    if not isinstance(values, dict) or values.get("kind") != KIND:
        raise DataError(f"{file} holds no results of a run", value=str(file), limit=f"kind: {KIND}")
    if values.get("schema_version") != SCHEMA_VERSION:
        raise DataError(f"{file} has another schema", value=values.get("schema_version"), limit=SCHEMA_VERSION)
    facts = [facts_of_json(item) for item in values["samples"]]
    rows = [row_of_json(row) for row in values["rows"]]
    kept = _kept_rows(file.parent / ROWS)
    diffs = {(row.id, row.name): row.diff for row in kept.values() if row.diff is not None}
    return RunResults(values, {fact.id: fact for fact in facts}, tuple(_with_counts(row, kept) for row in rows), diffs)


def _kept_rows(path: Path) -> dict[tuple[str, str, int], RunRow]:
    """What the rows file beside a results file has; nothing where there is none."""
    rows = read_rows_file(path).rows if path.is_file() else []
    return {(row.id, row.name, row.repeat): row for row in rows}


def _with_counts(row: RunRow, kept: Mapping[tuple[str, str, int], RunRow]) -> RunRow:
    found = kept.get((row.id, row.name, row.repeat))
    return row if found is None or row.pass_counts else replace(row, pass_counts=found.pass_counts)

"""`results.json` of a run, and reading it again; `docs/evaluation.md` lists its fields."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from apply_eval.errors import DataError
from apply_eval.rows import RunRecord, RunRow, SampleFacts, as_json, facts_of_json, read_rows_file, row_of_json
from apply_eval.summary import SummaryOptions, summarise

SCHEMA_VERSION = 1
KIND = "run"
MAX_DEPTH = 3
"""Of objects that are laid out over several lines."""
RESULTS, ROWS = "results.json", "rows.jsonl"


@dataclass(frozen=True, slots=True)
class RunResults:
    """A results file read back.  Rows have their texts where the rows file is there."""

    values: Mapping[str, Any]
    facts: Mapping[str, SampleFacts]
    rows: tuple[RunRow, ...]

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
    """The whole results.  Raises DataError: not one sample of any contestant could be scored."""
    plan, rows = record.plan, record.rows
    if not any(row.is_scored for row in rows):
        why = rows[-1].message if rows else "let it run to the end of the first sample"
        raise DataError("no sample could be scored", value=0, limit=1, remedy=why)
    # By contestant and sample, whatever order they were measured in.
    wanted = [(name, at) for name in plan["names"] for at in plan["sample_ids"]]
    found = {(row.name, row.id): row for row in rows}
    ordered = [found[key] for key in wanted if key in found]
    return {
        "kind": KIND,
        "schema_version": SCHEMA_VERSION,
        "complete": len(ordered) == len(wanted),
        "plan": plan,
        "plain": plain,
        "provenance": record.sessions[-1] if record.sessions else None,
        "sessions": record.sessions,
        "summary_options": asdict(options),
        "samples": [asdict(fact) for fact in facts],
        "summary": summarise(rows, facts, plan["names"], options),
        "rows": [as_json(row, with_texts=False) for row in ordered],
    }


def write_results(folder: Path, results: Mapping[str, Any]) -> Path:
    """Write `results.json` wholly or not at all: what fits a line stands on a line, so that two runs can be diffed."""
    return write_whole(folder / RESULTS, _layout(results, 0) + "\n")


def _layout(value: Any, depth: int) -> str:
    """JSON with one line a row, sample or group of figures, and everything above them opened up."""
    if depth > MAX_DEPTH or not isinstance(value, dict | list) or not value:
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        items, ends = [_layout(item, MAX_DEPTH + 1) for item in value], "[]"
    else:
        items = [f"{json.dumps(key, ensure_ascii=False)}: {_layout(item, depth + 1)}" for key, item in value.items()]
        ends = "{}"
    pad = "\n" + " " * (depth + 1)
    return f"{ends[0]}{pad}{f',{pad}'.join(items)}{pad[:-1]}{ends[1]}"


def write_whole(path: Path, text: str) -> Path:
    """Replace a file by a rename: a reader sees the old text or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8", errors="surrogatepass")
    os.replace(new, path)
    return path


def read_results(path: Path) -> RunResults:
    """A run's results: its folder, or a results file of any name.  Raises DataError: no such file, not JSON, of another
    kind, or of a newer schema."""
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
    rows_file = file.parent / ROWS
    kept = {(row.id, row.name): row for row in (read_rows_file(rows_file).rows if rows_file.is_file() else ())}
    rows = (row_of_json(row) for row in values["rows"])
    facts = {fact["id"]: facts_of_json(fact) for fact in values["samples"]}
    return RunResults(values, facts, tuple(kept.get((row.id, row.name), row) for row in rows))

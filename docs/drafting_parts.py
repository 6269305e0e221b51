"""The generated part of the page on drafting: which drafter pays for which work, from committed results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.report import RESULTS, number
from docs.tables import table

WORKS = {
    "instruction": "instructions alone, new text in the output",
    "whole_file": "the whole new file as the edit",
    "lazy": "lazy snippets",
}


def drafters() -> str:
    """Write one table for each committed result of `benchmarks.decoding.drafters`."""
    found = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("drafters-*.json")))
    return "\n".join(_tables(result) for result in found)


def heads() -> str:
    """Write what each head of `training.heads` had learnt after how many tokens, a row for each of its scores."""
    rows = []
    for path in sorted(RESULTS.glob("heads-*.jsonl")):
        for score in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            shares = (f"{score[f'right_{depth}']:.1%}" for depth in range(3))
            rows.append((f"`{path.stem.removeprefix('heads-')}`", f"{score['tokens']:,}", *shares))
    return table(("head", "tokens learnt", "first token right", "second, if the first was", "third"), rows)


def _tables(result: Mapping[str, Any]) -> str:
    about, options = result["provenance"], result["options"]
    parts = []
    for work, rows in result["works"].items():
        n_edits = max(row["n_edits"] for row in rows.values())
        parts.append(
            f"**{result['model'].rpartition('/')[2]}, {WORKS[work]}**: {n_edits} edits, up to {options['tokens']} "
            f"tokens; {result['dtype']}, {about['created'][:10]}, commit {about['commit'][:9]}.\n\n"
            + table(
                ("drafter", "accepted", "tokens a pass", "passes an edit", "tok/s over `plain`"),
                (_row(name, row) for name, row in sorted(rows.items(), key=_speed)),
            )
        )
    return "\n".join(parts)


def _speed(item: tuple[str, Mapping[str, Any]]) -> float:
    return -(item[1]["times_plain"] or 0.0)


def _row(name: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    share = row["acceptance"]
    values = (row[key] for key in ("tokens_per_pass", "passes_per_edit", "times_plain"))
    return (f"`{name}`", "" if share is None else f"{share:.0%}", *("" if v is None else number(v) for v in values))


DRAFTING_PARTS: Mapping[str, Callable[[], str]] = {"drafters": drafters, "heads": heads}

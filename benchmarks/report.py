"""Results of all benchmarks: written as JSON, read again, shown in Markdown."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apply_service.errors import ApplyError

RESULTS = Path(__file__).parent / "results"
"""The committed ones."""
LABELS = {
    "plain": "**plain** (the faster undrafted run)",
    "plain_engine": "no draft, our engine, unpadded",
    "hf_plain": "HF `generate`",
    "hf_prompt_lookup": "HF prompt lookup, 10 tokens",
    "hf_prompt_lookup_128": "HF prompt lookup, 128 tokens",
}
"""Drafters of ours go by their own names."""

Row = Mapping[str, Any]


def write_result(path: Path, value: Mapping[str, Any], *, indent: int | None = 1) -> None:
    """Write it wholly or not at all: a process may be stopped anywhere."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value, indent=indent) + "\n", encoding="utf-8")
    partial.replace(path)


@contextmanager
def told_errors() -> Iterator[None]:
    """End the program with one line where the service's code refuses something."""
    try:
        yield
    except ApplyError as error:
        sys.exit(f"{error.code}: {error.message} ({error.value}); {error.remedy}")


def read_committed(pattern: str) -> list[Row]:
    """Every committed result whose name matches, newest first."""
    results: list[Row] = [json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob(pattern)]
    return sorted(results, key=lambda result: str(result["provenance"]["created"]), reverse=True)


def label(name: str) -> str:
    return LABELS.get(name, f"`{name}`")


def number(value: float | None, scale: float = 1.0) -> str:
    """Three significant figures, thousands apart; empty for None."""
    if value is None:
        return ""
    value *= scale
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ratio(value: Row | None) -> str:
    """`13.2x [11.0, 15.1]`."""
    if value is None:
        return ""
    interval = "" if value["low"] is None else f" [{number(value['low'])}, {number(value['high'])}]"
    return f"{number(value['median'])}x{interval}"


def table(lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first line is its head."""
    head, *body = lines
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *body])

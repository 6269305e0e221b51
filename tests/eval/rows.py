"""Rows and facts made by hand, for tests of what is computed from them."""

from __future__ import annotations

from typing import Any

from apply_eval.datasets import EditRecord, measure_edit
from apply_eval.rows import RunRow, SampleFacts, facts_of


def record(name: str, **changes: Any) -> EditRecord:
    """A small edit; its texts hold its name."""
    before = f"# {name}\na = 1\nb = 2\nc = 3\n"
    after = before.replace("b = 2", "b = 22")
    values: dict[str, Any] = {"update": "b = 22\n", "language": "python", "path": f"{name}.py", "tags": ("clean",)}
    return EditRecord(name, before, after, measure_edit(before, after), **(values | changes))


def facts(name: str, **changes: Any) -> SampleFacts:
    return facts_of(record(name, **changes))


def right(at: str, name: str, **changes: Any) -> RunRow:
    """A right answer: 100 tokens at 1,000 a second in four passes with one rejection."""
    values: dict[str, Any] = {
        "outcome": "answered", "exact": True, "same_but_blanks": True, "same_tree": True,
        "edit_similarity": 1.0, "syntax_kept": True, "lines_outside": 0, "strategy": "model",
        "confidence": 0.9, "latency_s": 0.5, "ttft_s": 0.2, "tok_s": 1000.0, "n_prompt_tokens": 200, "n_tokens": 100,
        "n_chars": 300, "passes": 4, "n_drafted": 120, "n_accepted": 96, "rejections": 1,
        "accepted_by_source": {"predicted": 96},
    }  # fmt: skip
    return RunRow(id=at, name=name, **(values | changes))


def wrong(at: str, name: str, **changes: Any) -> RunRow:
    """A wrong answer that keeps silent."""
    values: dict[str, Any] = {
        "exact": False, "same_but_blanks": False, "same_tree": False, "edit_similarity": 0.9,
        "syntax_kept": True, "lines_outside": 2,
    }  # fmt: skip
    return right(at, name, **(values | changes))


def refused(at: str, name: str, code: str = "needs_more_context") -> RunRow:
    return RunRow(at, name, "refused", error=code, message="no anchor")


def missing(at: str, name: str) -> RunRow:
    return RunRow(at, name, "missing", error="unreachable", message="connection refused")

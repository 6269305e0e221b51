"""The page of operations shows what the load and the overhead were, and says where nothing was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import report
from docs import service_parts

SOURCE = {
    "created": "2026-11-21T20:00:00+00:00",
    "commit": "0123456789abcdef",
    "dirty": False,
    "hardware": {"cpu": "a chip", "n_cpus": 2},
}
NUMBERS = {"n": 3, "p50": 0.1, "p90": 0.2, "p95": 0.3, "p99": 0.4, "max": 0.5}
PHASE: dict[str, Any] = {
    "answers_per_s": 1.5,
    "ended": {"200": 3, "429 overloaded": 7},
    "n_refused": 7,
    "max_queue_length": 4,
    "max_active": 2,
    "is_idle_after": True,
    "answers_after": True,
    "memory_mb": {"first": 700.0, "last": 701.5, "growth": 1.5, "max": 702.0},
    "latency_s": {"whole": NUMBERS, "stream": None},
    "first_event_s": None,
    "late_by_s": None,
    "stages_s": {"total": NUMBERS},
}
LOAD = {"provenance": SOURCE, "clients": 64, "minutes": 10.0, "broken": [], "phases": {"overload": PHASE}}


def test_a_load_is_told_with_its_origin_endings_and_tables() -> None:
    text = service_parts.load_text(LOAD)
    assert text.startswith(
        "64 clients, 10 minutes, 2026-11-21, commit 01234567, a chip, 2 cores: every promise was kept.\n"
    )
    for row in (
        "| ended how | `200` 3, `429 overloaded` 7 |",
        "| answered 429 | 7 |",
        "| memory, first and last fifth | 700 and 701.5 MiB |",
        "| idle and answering afterwards | yes |",
        "| whole | 3 | 0.1 | 0.2 | 0.3 | 0.4 | 0.5 |",
        "| total | 3 | 0.1 | 0.2 | 0.3 | 0.4 | 0.5 |",
    ):
        assert row in text.split("\n")


def test_broken_promises_are_told_first() -> None:
    stuck = LOAD | {"broken": ["load: a slot stays taken"], "phases": {"load": PHASE | {"is_idle_after": False}}}
    text = service_parts.load_text(stuck)
    assert "broken: load: a slot stays taken." in text.split("\n")[0]
    assert "| idle and answering afterwards | **no** |" in text


def test_hostile_edits_are_told_with_waits_and_faults() -> None:
    waits = {"n": 90, "p50": 1.2, "p90": 3.0, "p99": 9.5, "max": 61.0, "over": 1}
    found = [{"edit": "e", "way": "native", "fault": ""}, {"edit": "dots", "way": "batch", "fault": "late: 3.00 s"}]
    result = {
        "provenance": SOURCE,
        "requests": 2,
        "edits": 2,
        "longest_s": 3.0,
        "ended": {"200 answered": 1, "504 deadline_exceeded": 1},
        "healthz_ms": waits,
        "held_ms": waits | {"max": 12.5, "over": 0},
        "found": found,
    }
    text = service_parts.hostile_text(result)
    assert "2 cores: 1 faults, the longest request 3 s." in text.split("\n")[0]
    assert "| less the waits for a processor | 90 | 1.2 | 3.0 | 9.5 | 12.5 | 0 |" in text
    assert "| dots | batch | late: 3.00 s |" in text
    assert "no faults" in service_parts.hostile_text(result | {"found": found[:1]})


def test_without_a_result_nothing_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    assert service_parts.load() == "Not measured yet.\n"

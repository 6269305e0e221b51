"""What the load benchmark makes of its samples."""

import pytest

from benchmarks.service.load import CUT, Kind, Sample, end_of, latency_table, memory, stage_table, summarise
from benchmarks.service.server import Gauges


def sample(
    kind: Kind = "whole", status: int = 200, code: str = "", seconds: float = 1.0, deadline_s: float | None = None
) -> Sample:
    return Sample(kind, deadline_s, status, code, seconds, ended_s=50.0, has_retry_after=status == 429)


def gauge(memory_mb: float) -> Gauges:
    return Gauges(0.0, memory_mb, 3, 2)


def test_what_was_asked_for_is_no_fault() -> None:
    fine = [
        sample(),
        sample(status=429, code="overloaded"),
        sample(status=422, code="needs_more_context"),
        sample("deadline", 504, "deadline_exceeded", deadline_s=0.1),
        sample("deadline", 200, "deadline_exceeded", deadline_s=0.1),
        sample("gone", CUT),
    ]
    assert [one.fault for one in fine] == [""] * len(fine)


def test_what_must_not_happen_is_named() -> None:
    bad = [
        sample(status=500, code="engine_failure"),
        sample("stream", 200, "engine_failure"),
        sample(status=504, code="deadline_exceeded"),
        sample(status=CUT),
        sample("gone", CUT, "ReadError"),
        sample(status=200, code="unreadable"),
        Sample("whole", status=429, code="overloaded"),
    ]
    assert [one.fault for one in bad] == [
        "500 engine_failure",
        "200 engine_failure",
        "504 deadline_exceeded",
        "cut by the client",
        "cut ReadError",
        "200 unreadable",
        "429 without Retry-After",
    ]


def test_percentiles_are_of_the_answered_by_nearest_rank() -> None:
    samples = [sample(seconds=i / 100) for i in range(1, 101)]
    samples += [sample(status=504, code="deadline_exceeded", seconds=9.0, deadline_s=8.5)]
    summary = summarise(samples, [gauge(1.0)])
    assert summary["latency_s"]["whole"] == {"n": 100, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1.0}
    assert summary["latency_s"]["stream"] is None
    assert summary["late_by_s"]["max"] == 0.5
    assert summary["answers_per_s"] == 2.0
    assert summary["ended"] == {"200": 100, "504 deadline_exceeded": 1}
    assert (summary["max_queue_length"], summary["max_active"]) == (3, 2)


def test_memory_is_compared_once_it_is_warm() -> None:
    warming = [gauge(float(i)) for i in range(20)]
    assert memory([*warming, *[gauge(100.0)] * 40, *[gauge(110.0)] * 40]) == {
        "first": 100.0,
        "last": 110.0,
        "growth": 10.0,
        "max": 110.0,
    }
    assert memory([gauge(1.0)] * 5) is None


def test_stages_are_of_the_answers_that_state_them() -> None:
    stages = {"predict_s": 0.25, "decide_s": 0.75, "total_s": 1.0}
    stated = Sample("whole", status=200, seconds=1.5, ended_s=9.0, stages=stages)
    summary = summarise([stated, sample(), sample(status=429, code="overloaded")], [])
    assert {stage: row["p50"] for stage, row in summary["stages_s"].items()} == {
        "queue and HTTP": 0.5,
        "predict": 0.25,
        "decide": 0.75,
        "total": 1.0,
    }
    assert all(row["n"] == 1 for row in summary["stages_s"].values())
    assert summary["n_refused"] == 1


def test_tables_show_what_there_is() -> None:
    summary = summarise([sample(seconds=0.5)], [])
    assert latency_table(summary).split("\n") == [
        "| request | n | p50 s | p90 s | p95 s | p99 s | max s |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| whole | 1 | 0.5 | 0.5 | 0.5 | 0.5 | 0.5 |",
    ]
    assert stage_table(summary).count("\n") == 1


@pytest.mark.parametrize(
    ("last_line", "code", "stages"),
    [
        ('{"merged_code": "x", "timings_s": {"total_s": 1.0}}', "", {"total_s": 1.0}),
        ('data: {"merged_code": "x", "timings_s": {"total_s": 2.0}}', "", {"total_s": 2.0}),
        ('data: {"error": {"code": "deadline_exceeded"}}', "deadline_exceeded", {}),
        ("<html>", "unreadable", {}),
        ("", "unreadable", {}),
    ],
)
def test_an_end_is_read_from_its_last_line(last_line: str, code: str, stages: dict[str, float]) -> None:
    assert end_of(last_line) == (code, stages)

"""What breaks on a rented machine is told in the result and does not take the rest with it; runs in which a pass was
captured are run again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.decoding.samples import Sample
from benchmarks.gpu import checks
from benchmarks.gpu.checks import LOST, Check, run_checks
from benchmarks.gpu.measure import MAX_TRIES, RobustContender
from benchmarks.gpu.pieces import failure_of
from tests.benchmarks.samples import sample


def broken() -> list[Check]:
    raise RuntimeError("an illegal memory access was encountered") from ValueError("the cause")


def go_on(found: dict[str, Any], groups: dict[str, Any], left_s: float = 1e6) -> bool:
    found.setdefault("failures", [])
    return run_checks(groups, found, time.monotonic() + left_s, save=lambda: None, log=lambda _: None)


def test_a_check_that_breaks_is_told_with_its_place_and_the_others_go_on() -> None:
    found: dict[str, Any] = {}
    assert go_on(found, {"bad": broken, "good": lambda: [Check("good", True)]})
    assert [(check["name"], check["is_ok"]) for check in found["checks"]] == [("bad", False), ("good", True)]
    (failure,) = found["failures"]
    assert failure["during"] == "bad"
    assert failure["errors"] == ["RuntimeError: an illegal memory access was encountered", "ValueError: the cause"]
    assert failure["frames"][-1].startswith("benchmarks/test_gpu_failures.py:")
    assert "broken: raise RuntimeError" in failure["frames"][-1]


def test_checks_go_on_where_they_were_and_a_lost_one_is_not_tried_again() -> None:
    found: dict[str, Any] = {"checks": [Check("first", True)._asdict()], "groups": {"first": "done", "second": "begun"}}
    groups = {"first": broken, "second": broken, "third": lambda: [Check("third", True)]}
    assert not go_on(found, groups, left_s=1.0)
    assert go_on(found, groups)
    assert [(check["name"], check["note"]) for check in found["checks"]] == [
        ("first", ""),
        ("second", LOST),
        ("third", ""),
    ]
    assert found["failures"] == []


def test_a_broken_device_ends_the_process_after_its_check_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "wait_for_device", broken)
    found: dict[str, Any] = {}
    groups = {"bad": broken, "good": lambda: [Check("good", True)]}
    with pytest.raises(RuntimeError):
        go_on(found, groups)
    monkeypatch.undo()
    assert go_on(found, groups)
    assert [check["name"] for check in found["checks"]] == ["bad", "good"]


class Contender:
    """Captures so many passes in each run."""

    name = "ours"

    def __init__(self, captures: Sequence[int]) -> None:
        self.target = SimpleNamespace(engine=SimpleNamespace(passes=SimpleNamespace(n_captured=0)))
        self.captures = list(captures)
        self.n_runs = 0

    def run(self, cases: Sequence[Any], group: str, *, cap: int | None) -> Sample:
        self.n_runs += 1
        self.target.engine.passes.n_captured += self.captures.pop(0)
        return sample("ours", 100.0 * self.n_runs)


@pytest.mark.parametrize(("captures", "n_runs", "left"), [([0], 1, 0), ([3, 0], 2, 0), ([3] * MAX_TRIES, MAX_TRIES, 3)])
def test_a_run_in_which_passes_were_captured_is_run_again(captures: list[int], n_runs: int, left: int) -> None:
    inner: Any = Contender(captures)
    found = RobustContender(inner, 1, {"skipped": []}).run([], "a", cap=None)
    assert found is not None
    assert (inner.n_runs, found.captures) == (n_runs, left)
    assert found.tok_s == pytest.approx(100.0 * n_runs)


def test_a_contender_that_fails_is_left_out_and_told() -> None:
    found: dict[str, Any] = {"skipped": [], "failures": []}

    class Failing(Contender):
        name = "hf_plain"

        def run(self, *_: Any, **__: Any) -> Sample:
            self.n_runs += 1
            broken()
            raise AssertionError

    inner: Any = Failing([])
    sparing = RobustContender(inner, 8, found)
    for group in ("one", "two"):
        assert sparing.run([], group, cap=None) is None
    assert inner.n_runs == 1
    assert found["skipped"] == [
        {
            "contender": "hf_plain",
            "batch": 8,
            "reason": "failed: RuntimeError: an illegal memory access was encountered",
        }
    ]
    assert found["failures"][0]["during"] == "hf_plain, batch 8, one"


def test_a_failure_tells_no_folder_of_the_machine() -> None:
    try:
        broken()
    except RuntimeError as error:
        told = failure_of(error, "x")
    assert not any(frame.startswith("/") for frame in told["frames"])

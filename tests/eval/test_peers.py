"""Peers' cases: each is exact, meant, refused, wrong, or wrong without a word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apply_eval.cli import FAILED, main
from apply_eval.errors import DataError
from apply_eval.peers import INTENTIONAL, judge_case, read_intentional, run_peers, summarise_peers

BLOCK = "<<<<<<< SEARCH\nb\n=======\nc\n>>>>>>> REPLACE\n"
PATCH = "*** Begin Patch\n*** Update File: x.txt\n@@\n-b\n+c\n*** Delete File: y.txt\n*** End Patch\n"


def case(**fields: object) -> dict[str, object]:
    one = {"source": "s", "name": "n", "format": "search_replace", "mode": "single", "path": "x.txt"}
    return {**one, "original": "a\nb\n", "update": BLOCK, "expected": "a\nc\n", **fields}


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({}, "exact"),
        ({"expected": "a\nd\n"}, "silent"),
        ({"update": BLOCK.replace("b\n", "zzzzzzzz\n")}, "refused"),
        ({"update": BLOCK.replace("b\n", "zzzzzzzz\n"), "expected": None, "error": "not found"}, "exact"),
        ({"expected": None, "error": "never"}, "silent"),
        ({"expected": None}, "unscored"),
        ({"format": "whole_file", "update": "x.txt\n```\nc\n```\n", "expected": "c\n"}, "exact"),
        ({"original": "  b\n", "expected": "c\n"}, "wrong"),
    ],
    ids=range(8),
)
def test_outcomes(fields: dict[str, object], outcome: str) -> None:
    assert judge_case(case(**fields), {}).outcome == outcome


def test_a_meant_difference_has_its_reason() -> None:
    row = judge_case(case(expected="a\nd\n"), {("s", "n"): "we do better"})
    assert (row.outcome, row.detail) == ("intentional", "we do better")


def test_a_batch_is_judged_by_all_its_files() -> None:
    files = {"x.txt": "b\n", "y.txt": "z\n"}
    row = judge_case(case(mode="batch", files=files, update=PATCH, expected_files={"x.txt": "c\n"}), {})
    assert row.outcome == "exact"


def test_the_command_tells_and_fails_on_silence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "cases.jsonl"
    data.write_text("".join(json.dumps(one) + "\n" for one in (case(), case(name="m", expected="a\nd\n"))))
    assert main(["peers", "--data", str(data), "--out", str(tmp_path / "out")]) == FAILED
    assert "silent: s | m" in capsys.readouterr().out
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["total"]["exact"] == 1
    data.write_text(json.dumps(case()) + "\n")
    assert main(["peers", "--data", str(data)]) == 0


def test_a_set_without_cases_is_bad_data(tmp_path: Path) -> None:
    data = tmp_path / "cases.jsonl"
    data.write_text("")
    with pytest.raises(DataError):
        run_peers(data)
    data.write_text("{}\n")
    with pytest.raises(DataError):
        run_peers(data)


def test_every_meant_difference_has_a_reason() -> None:
    reasons = read_intentional(INTENTIONAL)
    assert reasons
    assert all(len(reason.split()) > 4 for reason in reasons.values())


SHARED = Path(__file__).parents[3] / "shared" / "data" / "peer_cases_dev.jsonl.xz"


@pytest.mark.skipif(not SHARED.is_file(), reason="the peers' cases are not at hand")
def test_the_peers_cases() -> None:
    total = summarise_peers(run_peers(SHARED))["total"]
    assert total["silent"] == 0
    assert total["exact"] + total["intentional"] >= 400

"""The page of performance shows what GPUs did; of a trial on a CPU only how it ended."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.gpu import tables
from benchmarks.gpu.tables import render_all


def result(name: str, *, is_gpu: bool, is_complete: bool = True) -> dict[str, Any]:
    checks = [{"is_ok": found} for found in (True, True, None)]
    return {
        "provenance": {"created": "2026-11-21T20:00:00+00:00"},
        "device": {"name": name, "is_gpu": is_gpu},
        "pieces": [
            {"checks": checks, "samples": [], "is_complete": True},
            {"samples": [{"tok_s": 123}], "is_complete": is_complete},
        ],
    }


@pytest.mark.parametrize(("is_complete", "end"), [(True, "ran to its end"), (False, "ran **not** to its end")])
def test_of_a_cpu_only_the_end_is_told(is_complete: bool, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found, pretrained = [result("a chip", is_gpu=False, is_complete=is_complete)], []
    monkeypatch.setattr(tables, "read_committed", lambda pattern: found if pattern == "gpu-*.json" else pretrained)
    assert render_all() == (
        f"No result of a GPU yet.\n\nOn a CPU (a chip, 2026-11-21) all of it {end}, with shapes of a CPU's size: "
        "2 checks held, 0 failed, 1 could not run there.\n"
    )


def test_results_of_gpus_come_first_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    found, pretrained = [result("a chip", is_gpu=False), result("a card", is_gpu=True)], []
    monkeypatch.setattr(tables, "read_committed", lambda pattern: found if pattern == "gpu-*.json" else pretrained)
    monkeypatch.setattr(tables, "render", lambda one: f"## {one['device']['name']}\n")
    assert render_all().startswith("## a card\n\nOn a CPU (a chip, ")


def test_a_pretrained_model_is_counted_with_its_adapter_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [
        {"is_right": True, "merge_is_right": True, "end_to_end_s": 0.2},
        {"is_right": False, "error": "truncated"},
    ]
    one = {"target": {"name": "m"}, "device": {"name": "a card"}, "ready_s": 4.25, "answers": answers, "samples": []}
    pretrained = [one | {"adapter": True}, one | {"adapter": False, "answers": answers[1:] + answers[:1] + answers[1:]}]
    monkeypatch.setattr(tables, "read_committed", lambda pattern: [] if pattern == "gpu-*.json" else pretrained)
    page = render_all()
    assert "| m, with the adapter | 2 | 1 | 1 | 4.2 | 200 |" in page
    assert "| m | 3 | 1 | 1 | 4.2 | 200 |" in page

"""llama.cpp's own ways against ours: every contender writes, and the figures are those of what was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("llama_cpp", reason="needs the extra llamacpp")
pytest.importorskip("gguf")

from benchmarks.models.llama_cpp import LIBRARY, OURS, first_other, main, summarise
from tests.engine.tiny_gguf import save_gguf
from tests.engine.tiny_models import tiny_model


def test_every_contender_answers_the_same_edits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    model = save_gguf(tmp_path / "tiny.gguf", tiny_model("qwen2", attention="sdpa"))
    before = "def a():\n    return 1\n\n\ndef b():\n    return 2\n"
    rows = [
        {"id": f"edit-{i}", "path": "a.py", "before": before, "after": before.replace("2", str(i)), "update": update}
        for i, update in enumerate(("def b():\n    return 0\n", "def b():\n    return 1\n"))
    ]
    data, out = tmp_path / "data.jsonl", tmp_path / "out.json"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert main(["--model", str(model), "--data", str(data), "--out", str(out), "--max-tokens", "24"]) == 0
    found = json.loads(out.read_text())
    assert list(found["edits"]) == ["edit-0", "edit-1"]
    names = {*LIBRARY, *OURS}
    for runs in found["edits"].values():
        assert runs.keys() == names
        assert runs["none"]["passes"] == runs["none"]["n"] == runs["plain"]["n"] == 24
        assert runs["plain"]["first_other"] is None
    summary = found["summary"]
    assert summary["plain"]["over_plain"] == 1
    assert summary["none"]["tokens_a_pass"] == 1
    assert summary["rows_allow"] >= 1
    assert all(summary[name]["tok_s"] > 0 for name in names)


def test_where_two_outputs_differ() -> None:
    assert first_other([1, 2], [1, 2]) is None
    assert first_other([1, 2], [1, 3]) == 1
    assert first_other([1, 2], [1, 2, 3]) == 2


def test_shares_of_what_rows_allow() -> None:
    edits = {
        "a": {
            "plain": {"n": 10, "tok_s": 10.0, "passes": 10, "first_other": None},
            "merged_edit": {"n": 10, "tok_s": 20.0, "passes": 2, "first_other": 3},
        }
    }
    found = summarise(edits, {1: 100.0, 16: 400.0})
    assert found["rows_allow"] == 4
    assert found["merged_edit"] == {
        "tok_s": 20.0,
        "over_plain": 2.0,
        "share_of_rows": 0.5,
        "tokens_a_pass": 5.0,
        "same_as_plain": "0 of 1",
    }

"""Where a result comes from: complete, and without secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from apply_eval.provenance import provenance, safe_command


def test_everything_that_a_repetition_needs(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text("abc", encoding="utf-8")
    found = provenance([tmp_path / "d.jsonl"], seed=3)
    assert found["seed"] == 3
    assert found["data"] == [
        {"name": "d.jsonl", "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}
    ]
    assert found["hardware"]["n_cpus"] >= 1
    assert found["versions"]["torch"]
    assert {"commit", "dirty", "created", "command"} <= set(found)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["/usr/bin/apply-eval", "run", "--out", "x"], ["apply-eval", "run", "--out", "x"]),
        (["apply-eval", "--api-key", "k3y", "--out", "x"], ["apply-eval", "--api-key", "...", "--out", "x"]),
        (["apply-eval", "--api-key=k3y"], ["apply-eval", "--api-key=..."]),
        (["apply-eval", "--api-k", "k3y", "--ap=k3y"], ["apply-eval", "--api-k", "...", "--ap=..."]),
        (["load.py", "--", "--remote-key", "k3y", "/m"], ["load.py", "--", "--remote-key", "...", "m"]),
        (["run", "--data", "/home/me/d.jsonl", "--out=/tmp/x"], ["run", "--data", "d.jsonl", "--out=x"]),
        (["run", "--data", "../d.jsonl", "--constrain=none"], ["run", "--data", "../d.jsonl", "--constrain=none"]),
    ],
)
def test_keys_and_folders_are_left_out_of_the_command(arguments: list[str], shown: list[str]) -> None:
    assert safe_command(arguments) == shown

"""Where a result comes from: complete, and without secrets."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from apply_eval.provenance import program, provenance, safe_options, shown_command
from tests.eval.git_history import make_repo


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


def test_another_projects_repository_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package may be installed in an environment below one."""
    repo = make_repo(tmp_path, [("Add", "2025-01-01", {".gitignore": b"env\n"})])
    (repo / "env").mkdir()
    monkeypatch.setattr("apply_eval.provenance.ROOT", repo / "env")
    assert provenance([])["commit"] is None
    monkeypatch.setattr("apply_eval.provenance.ROOT", repo)
    assert len(provenance([])["commit"]) == 40


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["run", "--out", "x"], ["run", "--out", "x"]),
        (["--api-key", "k3y", "--out", "x"], ["--api-key", "...", "--out", "x"]),
        (["--api-key=k3y"], ["--api-key=..."]),
        (["--api-k", "k3y", "--ap=k3y"], ["--api-k", "...", "--ap=..."]),
        (["--", "--remote-key", "k3y", "/m"], ["--", "--remote-key", "...", "m"]),
        (["run", "--data", "/home/me/d.jsonl", "--out=/tmp/x"], ["run", "--data", "d.jsonl", "--out=x"]),
        (["run", "--data", "../d.jsonl", "--constrain=none"], ["run", "--data", "../d.jsonl", "--constrain=none"]),
    ],
)
def test_keys_and_folders_are_left_out_of_the_command(arguments: list[str], shown: list[str]) -> None:
    assert safe_options(arguments) == shown


@pytest.mark.parametrize(
    ("module", "path", "shown"),
    [
        (None, "/usr/bin/apply-eval", ["apply-eval"]),
        ("apply_eval.cli", "/x/apply_eval/cli.py", ["apply-eval"]),
        ("benchmarks.gpu.edits", "/x/benchmarks/gpu/edits.py", ["python", "-m", "benchmarks.gpu.edits"]),
        ("pytest.__main__", "/x/pytest/__main__.py", ["python", "-m", "pytest"]),
    ],
)
def test_a_program_is_told_as_one_types_it(module: str | None, path: str, shown: list[str]) -> None:
    main = ModuleType("__main__")
    main.__spec__ = None if module is None else ModuleSpec(module, None)
    assert program(main, path) == shown


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["apply-eval", "run", "--model", "a b"], "apply-eval run --model 'a b'"),
        (["python", "-m", "benchmarks.load"], "python -m benchmarks.load"),
        (["cli.py", "run", "--out", "x"], "apply-eval run --out x"),
        (["demo.py", "--files", "4"], "python -m benchmarks.demo --files 4"),
        (["load.py"], "python -m benchmarks.load"),
    ],
)
def test_commands_of_old_results_can_be_typed_too(command: list[str], shown: str) -> None:
    assert shown_command(command) == shown

"""The corpus: what is read, and that no evaluation repository ever is."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.edits import make_edits
from training.corpus import ExcludedRepository, is_excluded, read_edits, split_by_repository


def write_rows(path: Path, repo: str) -> Path:
    row = {"repo": repo, "path": "a.py", "language": "python", "before": "a\r\nb\n", "after": "a\nc\n"}
    path.write_text(json.dumps(row) + "\n")
    return path


def test_windows_are_read_with_lf_line_ends(tmp_path: Path) -> None:
    (edit,) = read_edits(write_rows(tmp_path / "w.jsonl", "some/where"))
    assert (edit.before, edit.after, edit.repo) == ("a\nb\n", "a\nc\n", "some/where")


@pytest.mark.parametrize("repo", ["encode/starlette", "Encode/Starlette", "fork/starlette", "git@x.org:simonw/llm.git"])
def test_evaluation_repositories_are_refused(tmp_path: Path, repo: str) -> None:
    assert is_excluded(repo)
    with pytest.raises(ExcludedRepository):
        read_edits(write_rows(tmp_path / "w.jsonl", repo))


def test_a_clone_of_an_evaluation_repository_is_refused(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(
        ["git", "-C", str(tmp_path), "remote", "add", "origin", "https://x.org/encode/starlette.git"], check=True
    )
    with pytest.raises(ExcludedRepository):
        read_edits(tmp_path)


def test_a_local_history_gives_its_modified_files(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True
        )

    git("init", "-q")
    for text in ("x = 1\ny = 2\n", "x = 1\ny = 3\n"):
        (tmp_path / "a.py").write_text(text)
        (tmp_path / "b.bin").write_text(text)
        git("add", ".")
        git("commit", "-qm", "change")
    (edit,) = read_edits(tmp_path)
    assert (edit.path, edit.before, edit.after) == ("a.py", "x = 1\ny = 2\n", "x = 1\ny = 3\n")


def test_whole_repositories_are_held_out() -> None:
    train, held_out = split_by_repository(make_edits(70), share=0.5)
    assert train
    assert held_out
    assert not {edit.repo for edit in train} & {edit.repo for edit in held_out}


def test_a_single_repository_is_split_by_file() -> None:
    edits = [replace(edit, repo="a/b") for edit in make_edits(70)]
    train, held_out = split_by_repository(edits, share=0.5)
    assert train
    assert held_out
    assert not {edit.path for edit in train} & {edit.path for edit in held_out}


def test_every_repository_of_the_evaluation_set_is_known(extra_data: Path) -> None:
    with (extra_data / "real_diffs_dev.jsonl").open() as lines:
        repositories = {json.loads(line)["repo"] for line in lines}
    assert repositories
    assert [repo for repo in repositories if not is_excluded(repo)] == []

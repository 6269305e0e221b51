"""The default data set."""

from __future__ import annotations

from pathlib import Path

import pytest

from apply_eval.datasets import read_records
from apply_eval.errors import DataError
from apply_eval.mine import OWN_EDITS, own_records
from tests.eval.git_history import make_repo
from tests.eval.samples import PYTHON


def history(folder: Path, n_edits: int) -> Path:
    """A repository with so many small edits of different files."""
    commits: list[tuple[str, str, dict[str, bytes | None]]] = [
        ("Add", "2025-01-01", {f"f{i}.py": PYTHON.encode() for i in range(n_edits)})
    ]
    for i in range(n_edits):
        changed = PYTHON.replace('note: str = ""', f'note: str = "{i}"')
        commits.append((f"Change {i}", "2025-01-02", {f"f{i}.py": changed.encode()}))
    return make_repo(folder, commits)


def test_edits_come_from_the_history(tmp_path: Path) -> None:
    repo = history(tmp_path / "repo", 12)
    found = own_records(limit=11, max_lines=100, seed=0, root=repo)
    assert len(found) == 11
    assert all(record.commit for record in found)
    assert [r.id for r in found] == [r.id for r in own_records(limit=11, max_lines=100, seed=0, root=repo)]
    assert own_records(limit=11, max_lines=100, seed=1, root=repo) != found


@pytest.mark.parametrize("place", ["none", "short"])
def test_without_a_history_the_shipped_edits_serve(tmp_path: Path, place: str) -> None:
    root = history(tmp_path / "repo", 2) if place == "short" else tmp_path
    found = own_records(limit=5, max_lines=200, seed=0, root=root)
    assert [record.id for record in found] == [
        record.id for record in read_records(OWN_EDITS) if record.measures.n_lines_before <= 200
    ][:5]


def test_no_edit_is_that_short(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no shipped edit"):
        own_records(limit=5, max_lines=1, seed=0, root=tmp_path)

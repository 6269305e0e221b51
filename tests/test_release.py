"""The release script: what it refuses, and what it writes.  Building itself needs pip and npm: `make release`."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from tests.eval.git_history import git, make_repo

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(release: ModuleType, tmp_path: Path) -> Path:
    """The files that a release writes, committed."""
    files = {name: (ROOT / name).read_bytes() for name in (*release.VERSIONS, release.CHANGELOG)}
    return make_repo(tmp_path / "tree", [("All", "2026-01-01", files)])


def test_every_version_is_written_and_nothing_else(release: ModuleType, tree: Path) -> None:
    changed = release.stamp(tree, "12.3.4", "2026-02-03")
    assert tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"] == "12.3.4"
    for folder in release.NPM_PACKAGES:
        package, lock = (
            json.loads((tree / folder / name).read_bytes()) for name in ("package.json", "package-lock.json")
        )
        assert package["version"] == lock["version"] == lock["packages"][""]["version"] == "12.3.4"
    for name in changed[:-1]:
        old, new = ((folder / name).read_text(encoding="utf-8").splitlines() for folder in (ROOT, tree))
        assert len(old) == len(new)
        assert sum(a != b for a, b in zip(old, new, strict=True)) == (2 if name.endswith("lock.json") else 1), name
    text = (tree / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## Unreleased\n\n## 12\.3\.4 \(2026-02-03\)\n- ", text, re.MULTILINE)


def test_what_can_not_be_released_is_told(release: ModuleType, tree: Path) -> None:
    assert release.problems(tree, "12.3.4") == []
    assert release.problems(tree, release.version_of(tree)) == []
    assert "no version" in release.problems(tree, "12.3")[0]
    assert "older than" in release.problems(tree, "0.0.9")[0]
    git(tree, "tag", "v12.3.4")
    assert "is there already" in release.problems(tree, "12.3.4")[0]
    release.stamp(tree, "12.4.0", "2026-02-03")
    assert release.problems(tree, "12.5.0") == [
        "there are uncommitted changes: commit or stash them",
        "CHANGELOG.md has nothing below '## Unreleased'",
    ]


def test_a_copy_is_of_the_last_commit(release: ModuleType, tree: Path, tmp_path: Path) -> None:
    before = (tree / "pyproject.toml").read_bytes()
    (tree / "pyproject.toml").write_bytes(b"changed")
    (tree / "stray.txt").write_bytes(b"")
    copy = release.export(tree, tmp_path / "copy")
    assert (copy / "pyproject.toml").read_bytes() == before
    assert not (copy / "stray.txt").exists()

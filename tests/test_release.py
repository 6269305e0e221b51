"""The release script: what it refuses, and what it writes.  Building itself needs pip and npm: `make release`, and
`make try-release` for what it built; here are the packages that must not pass."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import re
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from tests.eval.git_history import git, make_repo

ROOT = Path(__file__).parents[1]


def load(name: str) -> ModuleType:
    """A script of the folder `.ci` as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def release() -> ModuleType:
    return load("release")


@pytest.fixture
def try_release(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / ".ci")
    return load("try_release")


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


PACKAGES = (
    "apply-service-1.2.3.vsix",
    "apply-service-client-1.2.3.tgz",
    "apply-service.nvim-1.2.3.tar.gz",
    "apply_service-1.2.3-py3-none-any.whl",
    "apply_service-1.2.3.tar.gz",
)


def test_a_folder_that_is_no_release_is_told(try_release: ModuleType, tmp_path: Path) -> None:
    for name in PACKAGES:
        (tmp_path / name).write_text(name)
    sums = "".join(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n" for name in PACKAGES)
    (tmp_path / "SHA256SUMS").write_text(sums)
    assert try_release.problems(tmp_path) == []
    (tmp_path / PACKAGES[0]).write_text("altered")
    (tmp_path / PACKAGES[1]).unlink()
    (tmp_path / "apply_service-1.2.4.tar.gz").write_text("")
    assert try_release.problems(tmp_path) == [
        "not one apply-service-client-*.tgz",
        "not one apply_service-*.tar.gz",
        "apply_service-1.2.4.tar.gz is not in SHA256SUMS",
        f"{PACKAGES[0]} has another checksum",
        f"{PACKAGES[1]} is missing",
    ]


def test_a_plugin_that_lacks_a_file_does_not_pass(try_release: ModuleType, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.vsix", "w") as archive:
        archive.writestr("extension/package.json", json.dumps({"main": "./dist/extension.js"}))
        archive.writestr("extension/LICENSE.txt", "")
    with pytest.raises(SystemExit, match=r"\./dist/extension\.js, readme\.md, changelog\.md missing"):
        try_release.try_vscode(tmp_path / "a.vsix")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("plugin/README.md"), io.BytesIO())
    with pytest.raises(SystemExit, match=r"LICENSE, doc/apply-service\.txt, plugin/apply_service\.lua missing"):
        try_release.try_neovim(tmp_path / "a.tar.gz")


@pytest.mark.skipif(shutil.which("nvim") is None, reason="nvim is not installed")
def test_a_neovim_plugin_with_a_broken_module_does_not_pass(try_release: ModuleType, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "editor_plugins" / "nvim", tmp_path / "plugin")
    shutil.copy(ROOT / "LICENSE", tmp_path / "plugin")
    (tmp_path / "plugin" / "lua" / "apply_service" / "edits.lua").write_text("return require('gone')\n")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "plugin", arcname="plugin")
    with pytest.raises(subprocess.CalledProcessError):
        try_release.try_neovim(tmp_path / "a.tar.gz")

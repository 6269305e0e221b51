"""Mining a repository made for the test: what is taken, what is left out, and that it repeats."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from apply_eval.datasets import EditRecord
from apply_eval.errors import DataError, GitError
from apply_eval.history import GitRepo
from apply_eval.mine import MineFilter, language_name, mine
from tests.eval.git_history import git, make_repo
from tests.eval.samples import GO, PYTHON, TYPESCRIPT, YAML

PYTHON_2 = PYTHON.replace("rows = [vars(r) for r in self.readings]", "rows = [vars(r) for r in self.newest()]")
GO_2 = GO.replace("data: make(map[string]string)", "data: map[string]string{}")
TYPESCRIPT_2 = TYPESCRIPT.replace("let total = 0;", "let total = this.start;")


def crlf(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode()


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    first: dict[str, bytes | None] = {
        "weather.py": PYTHON.encode(),
        "store.go": crlf(GO),
        "src/ä library.ts": TYPESCRIPT.encode(),
        "vendor/copy.py": PYTHON.encode(),
        "CHANGELOG.md": b"# Changes\n" + b"- a line\n" * 20,
        "data.bin": b"\0\1",
        "ci.yml": YAML.encode(),
        "gone.py": PYTHON.encode(),
    }
    return make_repo(
        tmp_path_factory.mktemp("history") / "garden",
        [
            ("Add files", "2025-01-01", first),
            ("Serve the newest readings", "2025-02-01", {"weather.py": PYTHON_2.encode()}),
            ("Use a literal", "2025-03-01", {"store.go": crlf(GO_2)}),
            ("Start somewhere", "2025-04-01", {"src/ä library.ts": TYPESCRIPT_2.encode()}),
            ("Change a copy", "2025-04-02", {"vendor/copy.py": PYTHON_2.encode()}),
            ("Note it", "2025-04-03", {"CHANGELOG.md": b"# Changes\n" + b"- a line\n" * 21}),
            ("Bump version", "2025-04-04", {"ci.yml": YAML.replace("v4", "v5").encode()}),
            (
                "Respace",
                "2025-04-05",
                {"weather.py": PYTHON_2.replace("= 0", "=  0").replace("\n\n\n", "\n\n\n\n").encode()},
            ),
            ("Drop a file", "2025-04-06", {"gone.py": None, "data.bin": b"\0\2"}),
        ],
    )


def mined(repo: Path, *, limit: int = 50, seed: int = 1, styles: Any = "mixed", **filters: Any) -> list[EditRecord]:
    return list(mine(repo, filters=MineFilter(**filters), limit=limit, seed=seed, styles=styles))


def test_real_edits_are_taken_with_their_bytes(repo: Path) -> None:
    found = {record.path: record for record in mined(repo)}
    assert found.keys() == {"weather.py", "store.go", "src/ä library.ts"}
    assert found["weather.py"].before == PYTHON
    assert found["weather.py"].after == PYTHON_2
    assert found["store.go"].after == crlf(GO_2).decode()
    assert "\r" not in found["store.go"].update
    assert found["store.go"].language == "go"
    assert found["store.go"].subject == "Use a literal"
    assert found["store.go"].date == "2025-03-01"


def test_same_seed_same_records(repo: Path) -> None:
    assert mined(repo, seed=7) == mined(repo, seed=7)
    assert {r.update for r in mined(repo, seed=7)} != {r.update for r in mined(repo, seed=8)}


@pytest.mark.parametrize(
    ("filters", "paths"),
    [
        ({"languages": frozenset({"go"})}, {"store.go"}),
        ({"since": "2025-03-15"}, {"src/ä library.ts"}),
        ({"until": "2025-02-15"}, {"weather.py"}),
        ({"max_lines": 45}, {"store.go", "src/ä library.ts"}),
        ({"kind": "replace", "languages": frozenset({"python"})}, {"weather.py"}),
    ],
)
def test_filters(repo: Path, filters: dict[str, Any], paths: set[str]) -> None:
    assert {record.path for record in mined(repo, **filters)} == paths


def test_limit(repo: Path) -> None:
    assert len(mined(repo, limit=2)) == 2


@pytest.mark.parametrize(("styles", "tag"), [("clean", "clean"), ("sloppy", "sloppy")])
def test_styles(repo: Path, styles: str, tag: str) -> None:
    assert {record.tags for record in mined(repo, styles=styles)} == {(tag,)}


def test_nothing_found_is_an_error(repo: Path) -> None:
    with pytest.raises(DataError, match="no edit in"):
        mined(repo, min_lines=1400)


def test_a_folder_without_git_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="git refused"):
        mined(tmp_path)


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """A folder that stays empty as long as no program of `hostile` runs."""
    (tmp_path / "marks").mkdir()
    return tmp_path / "marks"


def make_hostile(repo: Path, marks: Path) -> None:
    """Name a program wherever a repository's configuration can name one, and have reason to run each."""

    def mark(name: str) -> str:
        return f"touch {marks / name} #"

    settings = {
        "core.fsmonitor": mark("fsmonitor"),
        "core.pager": mark("pager"),
        "pager.log": mark("pager_log"),
        "core.sshCommand": mark("ssh"),
        "core.alternateRefsCommand": mark("refs"),
        "credential.helper": f"!{mark('credential')}",
        "diff.external": mark("external"),
        "diff.evil.command": mark("command"),
        "diff.evil.textconv": mark("textconv"),
        "filter.evil.clean": mark("clean"),
        "log.showSignature": "true",
        "gpg.program": str(marks.parent / "gpg"),
        "protocol.ext.allow": "always",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": mark("uploadpack"),
        "remote.origin.url": f"ext::sh -c touch% {marks / 'ext'}",
    }
    (marks.parent / "gpg").write_text(f"#!/bin/sh\ntouch {marks / 'gpg'}\nexit 1\n")
    (marks.parent / "gpg").chmod(0o755)
    for name, value in settings.items():
        git(repo, "config", name, value)
    hooks = Path(subprocess.check_output(["git", "-C", repo, "rev-parse", "--absolute-git-dir"], text=True).strip())
    for name in ("post-index-change", "reference-transaction", "pre-auto-gc"):
        (hooks / "hooks" / name).write_text(f"#!/bin/sh\ntouch {marks / name}\n")
        (hooks / "hooks" / name).chmod(0o755)
    (hooks / "info" / "attributes").write_text("* diff=evil filter=evil\n")


def sign_head(repo: Path) -> None:
    """Give the last commit a signature, which some program would have to check."""
    commit = subprocess.check_output(["git", "-C", repo, "cat-file", "commit", "HEAD"], text=True)
    head, _, message = commit.partition("\n\n")
    signature = "-----BEGIN PGP SIGNATURE-----\n \n abc\n -----END PGP SIGNATURE-----"
    command = ["git", "-C", str(repo), "hash-object", "-t", "commit", "-w", "--stdin"]
    signed = f"{head}\ngpgsig {signature}\n\n{message}"
    name = subprocess.run(command, input=signed, text=True, check=True, capture_output=True).stdout.strip()
    git(repo, "update-ref", "HEAD", name)


@pytest.mark.skipif(os.name == "nt", reason="shell")
@pytest.mark.parametrize("place", ["repo", "in a subfolder", "bare", "bare in a subfolder"])
def test_no_program_of_a_repository_runs(tmp_path: Path, marks: Path, place: str) -> None:
    commits = [("Add", "2025-01-01", {"a.py": b"x\n"}), ("Change", "2025-01-02", {"a.py": b"y\n"})]
    top = repo = make_repo(tmp_path / "top", commits)  # type: ignore[arg-type]
    sign_head(top)
    if place.startswith("bare"):
        repo = top / "sub" if "sub" in place else tmp_path / "bare"
        git(top, "clone", "-q", "--bare", str(top), str(repo))
    elif "sub" in place:
        repo = top / "folder"
        repo.mkdir()
    make_hostile(repo, marks)
    (top / "a.py").write_text("z\n")
    found = GitRepo(repo)
    (change,) = found.changes(max_commits=9)
    assert found.text(change.old_blob) == "x\n"
    assert found.resolve([change.commit[:7]]) == {change.commit[:7]: change.commit}
    assert found.changes_of([change.commit]) == {change.commit: [change]}
    assert (
        [one.status for one in found.all_changes()]
        == [one.status for one in found.changes_of_file("a.py")]
        == ["M", "A"]
    )
    assert found.working_files("a.py") == (
        {"a.py": top / "a.py"} if repo.is_relative_to(top) and "bare" not in place else {}
    )
    assert found.origin.startswith("ext::")
    assert not found.is_shallow()
    with pytest.raises(GitError, match="git refused"):
        found.text("1" * 40)  # a partial clone would ask where it comes from
    git(repo, "config", "remote.origin.url", str(top))
    with pytest.raises(GitError, match="git refused"):
        found.text("1" * 40)
    assert [mark.name for mark in marks.iterdir()] == []


def test_the_name_comes_from_the_origin(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "local", [("Add", "2025-01-01", {"a.py": b"x\n"})])
    found = GitRepo(repo)
    assert found.name == "local"
    assert not found.is_shallow()
    git(repo, "remote", "add", "origin", "https://example.org/team/tool.git")
    found = GitRepo(repo)
    assert found.name == "team/tool"


def test_dialects_go_by_their_family() -> None:
    assert [language_name(p) for p in ("a.tsx", "b.scss", "c.py", "d.unknownkind")] == [
        "typescript",
        "css",
        "python",
        None,
    ]

"""Mining a repository made for the test: what is taken, what is left out, and that it repeats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apply_eval.datasets import EditRecord
from apply_eval.errors import DataError, GitError
from apply_eval.mine import GitRepo, MineFilter, language_name, mine
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

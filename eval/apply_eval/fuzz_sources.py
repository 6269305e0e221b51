"""Where the fuzzer's real files come from: a data set of changes, a git history, or a folder."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from apply_eval.datasets import read_rows
from apply_eval.errors import DataError
from apply_eval.fuzz import FuzzSource
from apply_eval.git_repo import GitRepo
from apply_eval.mine import language_name

MAX_CHARS = 200_000


def sources_of_data(path: Path, *, limit: int, seed: int) -> list[FuzzSource]:
    """Changes of a JSONL file with `before` and `after`, at most `limit`, drawn by `seed`.

    Raises:
        DataError: no such file, a line without those fields, or no usable change.
    """
    rows = [row for _, row in read_rows(path)]
    if any(not isinstance(row.get(name), str) for row in rows for name in ("before", "after")):
        raise DataError(f"{path.name} holds rows without `before` or `after`", value=str(path))
    random.Random(seed).shuffle(rows)
    found = (FuzzSource(row["before"], row["after"], row.get("language"), row.get("path")) for row in rows)
    return _usable(found, limit, str(path))


def sources_of_repo(path: Path, *, limit: int, seed: int, max_commits: int = 2000) -> list[FuzzSource]:
    """Changed files of a repository's history, at most `limit`, drawn by `seed`.

    Raises:
        GitError: no repository there.
        DataError: no usable change in its history.
    """
    with GitRepo(path) as repo:
        changes = [change for change in repo.changes(max_commits=max_commits) if language_name(change.path)]
        random.Random(seed).shuffle(changes)
        texts = ((change.path, repo.text(change.old_blob), repo.text(change.new_blob)) for change in changes)
        found = (FuzzSource(a, b, language_name(p), p) for p, a, b in texts if a is not None and b is not None)
        return _usable(found, limit, str(path))


def sources_of_folder(path: Path, *, limit: int, seed: int) -> list[FuzzSource]:
    """Text files under a folder in a language that is known, at most `limit`, drawn by `seed`; no real changes.

    Raises:
        DataError: no usable file.
    """
    files = sorted(p for p in path.rglob("*") if p.is_file() and language_name(p.name))
    random.Random(seed).shuffle(files)
    return _usable(_read_files(files, path), limit, str(path))


def _read_files(files: list[Path], root: Path) -> Iterator[FuzzSource]:
    for file in files:
        try:
            text = file.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        name = file.relative_to(root).as_posix()
        yield FuzzSource(text, None, language_name(name), name)


def _usable(found: Iterator[FuzzSource], limit: int, place: str) -> list[FuzzSource]:
    texts = (s for s in found if s.before.count("\n") >= 3 and len(s.before) <= MAX_CHARS and "\0" not in s.before)
    sources = list(islice(texts, limit))
    if not sources:
        raise DataError(f"{place} holds no usable file", value=0, limit=1, remedy="give --data, --repo or --folder")
    return sources

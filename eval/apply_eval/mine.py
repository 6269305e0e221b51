"""Data sets: real single-file edits out of a local git history, with lazy snippets.

The sketcher writes the snippets; what an edit is comes from the commit untouched.  The same history, filters and seed
give the same records.  Git is only asked: no working tree, index or network is touched.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from apply_eval.datasets import EditKind, EditRecord, measure_edit, read_records
from apply_eval.errors import DataError, GitError
from apply_eval.history import FileChange, GitRepo
from apply_eval.sketch import draw_sketch
from apply_service.syntax.languages import language_of_path

OWN_EDITS = Path(__file__).parent / "fixtures" / "own_edits.jsonl"
"""Edits of this project that ship with the package."""
OWN_PROMPTS = OWN_EDITS.with_name("prompts.txt")
"""Free prompts, one a line."""
ROOT = Path(__file__).resolve().parents[2]
OWN_LIMIT, OWN_MAX_LINES = 24, 100
"""Of the default data of a run: minutes on two cores."""
MIN_OWN_EDITS = 10
"""A history that gives less is no data set."""
StyleMix = Literal["clean", "sloppy", "mixed"]
CLEAN_SHARE: Mapping[StyleMix, float] = {"clean": 1.0, "sloppy": 0.0, "mixed": 0.5}
SKETCH_TRIES = 6
_FAMILIES = {"tsx": "typescript", "jsx": "javascript", "scss": "css", "less": "css", "bash": "shell"}
_UNWANTED_PATH = re.compile(
    r"(?:^|/)(?:vendor|vendored|third_party|node_modules|dist|build|generated|snapshots?|__snapshots__|fixtures?|testdata)/|"
    r"(?:^|/)(?:change(?:s|log)|history|news)\b|\.lock$|lock\.(?:json|yaml)$|\.min\.\w+$|\.snap$|_pb2?\.\w+$|\.generated\.",
    re.IGNORECASE,
)
_CHORE = re.compile(r"^\s*(?:bump|release|revert|format|reformat|backport|merge|update dependenc)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MineFilter:
    """Which edits are wanted."""

    languages: frozenset[str] = frozenset()
    """Empty: every language that is known."""
    min_lines: int = 10
    max_lines: int = 1500
    max_changed: int = 80
    max_hunks: int = 8
    max_line_length: int = 400
    max_files: int = 25
    """Larger commits are left out."""
    kind: EditKind | None = None
    since: str | None = None
    until: str | None = None
    max_commits: int = 5000
    per_path: int = 2
    per_commit: int = 2


def mine(
    repo_path: Path,
    *,
    filters: MineFilter,
    limit: int,
    seed: int,
    styles: StyleMix,
    name: str | None = None,
    licence: str = "",
) -> Iterator[EditRecord]:
    """At most `limit` edits, in an order that the seed draws.  `name` and `licence` are written into the records; the
    name comes from the repository's origin or folder by default.  Raises GitError: no repository there, or git refused;
    DataError: not one edit passed."""
    n_found = 0
    by_path: Counter[str] = Counter()
    by_commit: Counter[str] = Counter()
    repo = GitRepo(repo_path)
    name = name or repo.name
    changes = repo.changes(max_commits=filters.max_commits, since=filters.since, until=filters.until)
    wanted = []
    for change in changes:
        language = language_name(change.path)
        is_language = language in filters.languages if filters.languages else language is not None
        is_whole = change.n_files <= filters.max_files and change.parent and " " not in change.parent
        if is_language and is_whole and not (_CHORE.match(change.subject) or _UNWANTED_PATH.search(change.path)):
            wanted.append(change)
    random.Random(seed).shuffle(wanted)
    for change in wanted:
        if by_path[change.path] >= filters.per_path or by_commit[change.commit] >= filters.per_commit:
            continue
        record = _mine_one(repo, name, change, filters, seed, styles, licence)
        if record is None:
            continue
        by_path[change.path] += 1
        by_commit[change.commit] += 1
        n_found += 1
        yield record
        if n_found >= limit:
            return
    if not n_found:
        remedy = "widen the filters" + (": the clone is shallow, `git fetch --unshallow`" if repo.is_shallow() else "")
        raise DataError(f"no edit in {repo_path} passes the filters", value=0, limit=1, remedy=remedy)


def language_name(path: str) -> str | None:
    """The language of a file as the data sets call it: dialects go by their family."""
    language = language_of_path(path)
    return _FAMILIES.get(language.name, language.name) if language is not None else None


def _mine_one(
    repo: GitRepo, name: str, change: FileChange, filters: MineFilter, seed: int, styles: StyleMix, licence: str
) -> EditRecord | None:
    before, after = repo.text(change.old_blob), repo.text(change.new_blob)
    if before is None or after is None or before.split() == after.split():
        return None
    if max(len(line) for text in (before, after) for line in text.split("\n")) > filters.max_line_length:
        return None
    measures = measure_edit(before, after)
    is_apt = filters.min_lines <= measures.n_lines_before <= filters.max_lines
    n_changed = measures.lines_added + measures.lines_removed
    if not is_apt or n_changed > filters.max_changed or not 1 <= len(measures.hunks) <= filters.max_hunks:
        return None
    if filters.kind is not None and measures.edit_kind != filters.kind:
        return None
    mark = hashlib.sha256(change.path.encode("utf-8", "surrogateescape")).hexdigest()[:6]
    record_id = f"{name.replace('/', '__')}-{change.commit[:10]}-{mark}"
    drawn = draw_sketch(
        *(text.replace("\r\n", "\n") for text in (before, after)),
        language=language_name(change.path),
        path=change.path,
        clean=CLEAN_SHARE[styles],
        rng=random.Random(f"{seed}-{record_id}"),
        tries=SKETCH_TRIES,
    )
    if drawn is None:
        return None
    return EditRecord(
        id=record_id,
        before=before,
        after=after,
        measures=measures,
        update=drawn.update,
        language=language_name(change.path),
        path=change.path,
        subject=change.subject,
        repo=name,
        licence=licence,
        commit=change.commit,
        parent=change.parent,
        date=change.date,
        tags=(("clean",) if drawn.style.is_clean else ("sloppy",)),
    )


def own_records(*, limit: int, max_lines: int, seed: int, root: Path = ROOT) -> list[EditRecord]:
    """The default data set: at most `limit` edits of files of at most `max_lines` out of the git history at `root`, the
    project that this package is checked out from; the shipped ones where that gives too little.  Raises DataError: not
    even the shipped edits have one as short as that."""
    filters = MineFilter(max_lines=max_lines, min_lines=min(MineFilter().min_lines, max_lines))
    try:
        found = list(mine(root, filters=filters, limit=limit, seed=seed, styles="mixed", licence="Apache-2.0"))
    except (DataError, GitError):
        found = []
    if len(found) < min(MIN_OWN_EDITS, limit):
        found = [r for r in read_records(OWN_EDITS) if r.measures.n_lines_before <= max_lines][:limit]
    if not found:
        raise DataError(f"no shipped edit has {max_lines} lines or less", value=0, limit=1, remedy="raise --max-lines")
    return found

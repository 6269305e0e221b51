"""Data sets: real single-file edits out of a local git history, or somebody else's JSONL, with lazy snippets.

The sketcher writes the snippets; what an edit is comes from the commit untouched.  The same history, filters and seed
give the same records.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from apply_eval.datasets import EditKind, EditRecord, measure_edit, read_records, read_rows, record_of_row
from apply_eval.errors import DataError, GitError
from apply_eval.git_repo import FileChange, GitRepo
from apply_eval.render import search_replace
from apply_eval.sketch import Sketch, draw_style, sketch
from apply_service.edits.diff import unified_diff_text
from apply_service.syntax.languages import language_of_path

OWN_EDITS = Path(__file__).parent / "fixtures" / "own_edits.jsonl"
"""Edits of this project that ship with the package."""
ROOT = Path(__file__).resolve().parents[2]
OWN_LIMIT, OWN_MAX_LINES = 24, 100
"""Of the default data of a run: minutes on two cores."""
MIN_OWN_EDITS = 10
"""A history that gives less is no data set."""
StyleMix = Literal["clean", "sloppy", "mixed"]

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
    name comes from the repository's origin or folder by default.

    Raises:
        GitError: no repository there, or git refused.
        DataError: not one edit passed.
    """
    n_found = 0
    by_path: Counter[str] = Counter()
    by_commit: Counter[str] = Counter()
    repo = GitRepo(repo_path)
    name = name or repo.name
    changes = repo.changes(max_commits=filters.max_commits, since=filters.since, until=filters.until)
    wanted = [change for change in changes if _is_wanted(change, filters)]
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


def _is_wanted(change: FileChange, filters: MineFilter) -> bool:
    if change.n_files > filters.max_files or " " in change.parent or not change.parent or _CHORE.match(change.subject):
        return False
    language = language_name(change.path)
    is_language = language in filters.languages if filters.languages else language is not None
    return is_language and not _UNWANTED_PATH.search(change.path)


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
    if not is_apt or n_changed > filters.max_changed or not 1 <= measures.n_hunks <= filters.max_hunks:
        return None
    if filters.kind is not None and measures.edit_kind != filters.kind:
        return None
    mark = hashlib.sha256(change.path.encode("utf-8", "surrogateescape")).hexdigest()[:6]
    record_id = f"{name.replace('/', '__')}-{change.commit[:10]}-{mark}"
    drawn = draw_sketch(before, after, path=change.path, seed=f"{seed}-{record_id}", styles=styles)
    if drawn is None:
        return None
    old, new = _lf(before), _lf(after)
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
        update_style=asdict(drawn.style),
        search_replace=search_replace(old, new),
        unified_diff=unified_diff_text(old, new, change.path),
    )


def draw_sketch(
    before: str, after: str, *, path: str | None, seed: str, styles: StyleMix, language: str | None = None
) -> Sketch | None:
    """A sketch in a style drawn by `seed`; other styles are tried where one can't show the edit."""
    rng = random.Random(seed)
    language = language or (language_name(path) if path else None)
    for _ in range(SKETCH_TRIES):
        is_clean = styles == "clean" or (styles == "mixed" and rng.random() < 0.5)
        style = draw_style(rng, clean=is_clean)
        drawn = sketch(_lf(before), _lf(after), language=language, path=path, style=style, rng=rng)
        if drawn is not None:
            return drawn
    return None


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def own_records(*, limit: int, max_lines: int, seed: int, root: Path = ROOT) -> list[EditRecord]:
    """The default data set: at most `limit` edits of files of at most `max_lines` out of the git history at `root`, the
    project that this package is checked out from; the shipped ones where that gives too little.

    Raises:
        DataError: not even the shipped edits have one as short as that.
    """
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


def import_records(
    path: Path, *, renames: Mapping[str, str], sketch_styles: StyleMix | None, seed: int, limit: int | None = None
) -> tuple[list[EditRecord], int]:
    """The edits of any JSONL with before, after and an update, and how many were left out because no snippet can show
    them.  `renames` maps our field names to theirs.  With `sketch_styles` the snippets are written here.

    Raises:
        DataError: a field missing or of the wrong type, an update missing, or no record at all.
    """
    records: list[EditRecord] = []
    n_skipped = 0
    for number, row in read_rows(path):
        place = f"{path.name}, line {number}"
        record = record_of_row(row | {name: row[theirs] for name, theirs in renames.items() if theirs in row}, place)
        if record.language is None and record.path is not None:
            record = replace(record, language=language_name(record.path))
        if sketch_styles is None and not record.update:
            remedy = "name their field with --field update=..., or let --sketch write snippets"
            raise DataError(f"{place}: no update", value=record.id, remedy=remedy)
        if sketch_styles is not None:
            texts, seeded = (record.before, record.after), f"{seed}-{record.id}"
            drawn = draw_sketch(*texts, path=record.path, language=record.language, seed=seeded, styles=sketch_styles)
            if drawn is None:
                n_skipped += 1
                continue
            record = replace(record, update=drawn.update, update_style=asdict(drawn.style))
        records.append(record)
        if limit is not None and len(records) >= limit:
            break
    if not records:
        raise DataError(f"{path} gives no sample", value=0, limit=1)
    return records, n_skipped

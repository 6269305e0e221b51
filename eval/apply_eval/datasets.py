"""Edits as records, and the JSONL files that hold them (`.jsonl`, or `.jsonl.xz`).

A record is one file's change: the whole text before and after, and `update`, the edit as a model would write it.  The
wanted answer for (`before`, `update`) is `after`, byte for byte.  A file of updates alone replaces snippets by `id`.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, cast

from apply_eval.errors import DataError
from apply_eval.line_diff import Hunk
from apply_eval.measures import EditKind, EditMeasures, measure_edit

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EditRecord:
    """One edit; texts with their own line ends, `update` with LF."""

    id: str
    before: str
    after: str
    measures: EditMeasures
    update: str = ""
    language: str | None = None
    path: str | None = None
    subject: str = ""
    repo: str = ""
    licence: str = ""
    commit: str = ""
    parent: str = ""
    date: str = ""
    tags: tuple[str, ...] = ()
    style: str = ""
    """The manner in which the snippet was written, where the set names one."""
    split: str = ""
    """The part of its set that it belongs to (`fit`, `check`), where the set has parts."""
    update_style: Mapping[str, object] = field(default_factory=dict)
    search_replace: str | None = None
    """The same edit as search/replace blocks, where it was rendered."""
    unified_diff: str | None = None


_TEXT_FIELDS = ("update", "subject", "repo", "licence", "commit", "parent", "date", "style", "split")


def read_records(path: Path, *, limit: int | None = None) -> list[EditRecord]:
    """The records of a data set, in order.

    Raises:
        DataError: no such file, not JSONL, a field missing or of the wrong type, an id twice, or no record at all.
    """
    records = []
    for number, row in read_rows(path):
        records.append(record_of_row(row, f"{path.name}, line {number}"))
        if limit is not None and len(records) >= limit:
            break
    _refuse_empty(records, path)
    _refuse_twins([record.id for record in records], path)
    return records


def of_split(records: Sequence[EditRecord], split: str) -> list[EditRecord]:
    """The records of one part of a set.

    Raises:
        DataError: it has no such part.
    """
    found = [record for record in records if record.split == split]
    if not found:
        known = sorted({record.split for record in records})
        raise DataError(f"the data set has no records of the split {split!r}", value=split, limit=known)
    return found


def join_updates(records: Sequence[EditRecord], path: Path) -> list[EditRecord]:
    """The records that `path` has an update for, with that update and its tags.

    Raises:
        DataError: an update whose id no record has, or no update at all.
    """
    rows = {_text(row, "id", f"{path.name}, line {n}"): (row, f"{path.name}, line {n}") for n, row in read_rows(path)}
    _refuse_empty(list(rows), path)
    unknown = sorted(rows.keys() - {record.id for record in records})
    if unknown:
        raise DataError(f"{path.name} has updates for ids that the data set lacks", value=unknown[:5], limit=None)
    return [_updated(record, *rows[record.id]) for record in records if record.id in rows]


def _updated(record: EditRecord, row: Row, place: str) -> EditRecord:
    style = _text(row, "style", place, default="")
    return replace(record, update=_text(row, "update", place), tags=_tags(row, place), style=style, update_style={})


def write_records(path: Path, records: Iterable[EditRecord]) -> int:
    """Write a data set; how many records it holds."""
    n_written = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with _open(path, "wt") as file:
        for record in records:
            file.write(json.dumps(as_row(record), ensure_ascii=False) + "\n")
            n_written += 1
    return n_written


def as_row(record: EditRecord) -> Row:
    """The record as it stands in a file."""
    measures = record.measures
    row: Row = {
        "id": record.id,
        "repo": record.repo,
        "licence": record.licence,
        "commit": record.commit,
        "parent": record.parent,
        "date": record.date,
        "path": record.path,
        "language": record.language,
        "subject": record.subject,
        "before": record.before,
        "after": record.after,
        "n_lines_before": measures.n_lines_before,
        "n_hunks": measures.n_hunks,
        "lines_added": measures.lines_added,
        "lines_removed": measures.lines_removed,
        "hunks": [list(hunk) for hunk in measures.hunks],
        "edit_kind": measures.edit_kind,
        "flags": list(measures.flags),
        "tags": list(record.tags),
        "update": record.update,
        "update_style": dict(record.update_style),
    }
    optional = {"search_replace": record.search_replace, "unified_diff": record.unified_diff}
    optional |= {"style": record.style or None, "split": record.split or None}
    return row | {name: text for name, text in optional.items() if text is not None}


def read_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """(line number, JSON object) of each line that is not blank.

    Raises:
        DataError: no such file, or a line that is no JSON object.
    """
    try:
        with _open(path, "rt") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, _object(line, f"{path.name}, line {number}")
    except FileNotFoundError as error:
        raise DataError(f"no such data set: {path}", value=str(path), remedy="give the path of a JSONL file") from error
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise DataError(f"can't read {path}: {error}", value=str(path)) from error


def _open(path: Path, mode: str) -> IO[str]:
    if path.suffix == ".xz":
        return cast("IO[str]", lzma.open(path, mode, encoding="utf-8", newline="\n"))
    return cast("IO[str]", path.open(mode, encoding="utf-8", newline="\n"))


def _object(line: str, place: str) -> Row:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{place}: not JSON: {error}", value=line[:80]) from error
    if not isinstance(value, dict):
        raise DataError(f"{place}: not a JSON object", value=line[:80])
    return value


def record_of_row(row: Row, place: str) -> EditRecord:
    """A row as a record; `place` names it in errors.  What a row lacks of the measures is measured."""
    before, after = _text(row, "before", place), _text(row, "after", place)
    texts = {name: _text(row, name, place, default="") for name in _TEXT_FIELDS}
    style = row.get("update_style")
    return EditRecord(
        id=_text(row, "id", place, default=hash_texts(before, after, texts["update"])),
        before=before,
        after=after,
        measures=_measures(row, before, after),
        tags=_tags(row, place),
        update_style=style if isinstance(style, dict) else {},
        language=_optional_text(row, "language", place),
        path=_optional_text(row, "path", place),
        search_replace=_optional_text(row, "search_replace", place),
        unified_diff=_optional_text(row, "unified_diff", place),
        **texts,
    )


def hash_texts(*texts: str) -> str:
    """A short name for a record that has none: it depends on its texts only."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _measures(row: Row, before: str, after: str) -> EditMeasures:
    known = ("n_lines_before", "hunks", "lines_added", "lines_removed", "edit_kind", "flags")
    if any(name not in row for name in known):
        return measure_edit(before, after)
    return EditMeasures(
        n_lines_before=int(row["n_lines_before"]),
        hunks=tuple(Hunk(*hunk) for hunk in row["hunks"]),
        lines_added=int(row["lines_added"]),
        lines_removed=int(row["lines_removed"]),
        edit_kind=cast("EditKind", row["edit_kind"]),
        flags=tuple(row["flags"]),
    )


def _text(row: Row, name: str, place: str, *, default: str | None = None) -> str:
    value = row.get(name, default)
    if not isinstance(value, str):
        what = "missing" if name not in row else f"a {type(value).__name__}, not a string"
        raise DataError(f"{place}: field `{name}` is {what}", value=name, remedy="see `apply-eval import --help`")
    return value


def _optional_text(row: Row, name: str, place: str) -> str | None:
    return None if row.get(name) is None else _text(row, name, place)


def _tags(row: Row, place: str) -> tuple[str, ...]:
    tags = row.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise DataError(f"{place}: field `tags` is not a list of strings", value=tags)
    return tuple(tags)


def _refuse_empty(records: Sequence[object], path: Path) -> None:
    if not records:
        raise DataError(f"{path} holds no sample", value=0, limit=1)


def _refuse_twins(ids: Sequence[str], path: Path) -> None:
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise DataError(f"{path.name} holds the id {name!r} twice", value=name)
        seen.add(name)

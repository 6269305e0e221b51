"""Edits as records, and the JSONL files that hold them (`.jsonl`, or `.jsonl.xz`).

A record is one file's change: the whole text before and after, and `update`, the edit as a model would write it.  The
wanted answer for (`before`, `update`) is `after`, byte for byte.  A file of updates alone replaces snippets by `id`.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import IO, Any, Literal, cast

from apply_eval.errors import DataError
from apply_eval.line_diff import Hunk, diff_lines

Row = dict[str, Any]
SIZES = (("1-100", 100), ("101-300", 300), ("301-800", 800), ("801-1500", 1500), ("over 1500", 10**9))


def size_class(n_lines: int) -> str:
    """The name of the range that a file of `n_lines` falls into."""
    return next(name for name, limit in SIZES if n_lines <= limit)


# -- what is known of an edit from its two texts alone -----------------------------------------------------------------
EditKind = Literal["insert", "delete", "replace", "mixed"]


@dataclass(frozen=True, slots=True)
class EditMeasures:
    """Counts of the zero-context diff; lines exclude the empty one after a final newline."""

    n_lines_before: int
    hunks: tuple[Hunk, ...]
    lines_added: int
    lines_removed: int
    edit_kind: EditKind


def text_lines(text: str) -> list[str]:
    """Lines without the empty one that follows a final newline."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def measure_edit(before: str, after: str) -> EditMeasures:
    """Everything about an edit that its texts tell."""
    old, new = text_lines(before), text_lines(after)
    hunks = tuple(diff_lines(old, new))
    kinds: set[EditKind] = {"insert" if h.a0 == h.a1 else "delete" if h.b0 == h.b1 else "replace" for h in hunks}
    return EditMeasures(
        n_lines_before=len(old),
        hunks=hunks,
        lines_added=sum(hunk.b1 - hunk.b0 for hunk in hunks),
        lines_removed=sum(hunk.a1 - hunk.a0 for hunk in hunks),
        edit_kind=kinds.pop() if len(kinds) == 1 else "mixed",
    )


# -- records -----------------------------------------------------------------------------------------------------------
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


_LEFT_OUT = ("style", "split")
"""Fields that a file has only where they say something."""
_TEXT_FIELDS = ("update", "subject", "repo", "licence", "commit", "parent", "date", "style", "split")


def read_records(path: Path) -> list[EditRecord]:
    """The records of a data set, in order.  Raises DataError: no such file, not JSONL, a field missing or of the wrong
    type, an id twice, or no record at all."""
    records = [record_of_row(row, f"{path.name}, line {number}") for number, row in read_rows(path)]
    _refuse_empty(records, path)
    for name, n_times in Counter(record.id for record in records).items():
        if n_times > 1:
            raise DataError(f"{path.name} holds the id {name!r} twice", value=name)
    return records


def chosen_records(path: Path, *, updates: Path | None, split: str | None) -> tuple[list[EditRecord], list[Path]]:
    """What `--updates` and `--split` leave of a data set, and the files it was read from.  Raises DataError."""
    records, files = read_records(path), [path]
    if updates is not None:
        records, files = join_updates(records, updates), [path, updates]
    found = [record for record in records if split in (None, record.split)]
    if not found:
        known = sorted({record.split for record in records})
        raise DataError(f"the data set has no records of the split {split!r}", value=split, limit=known)
    return found, files


def evenly(records: Sequence[EditRecord], n: int) -> list[EditRecord]:
    """So many of the records, at most all, evenly over the set."""
    n = min(n, len(records))
    return [records[at * len(records) // n] for at in range(n)]


def join_updates(records: Sequence[EditRecord], path: Path) -> list[EditRecord]:
    """The records that `path` has an update for, with that update and its tags.  Raises DataError: an update whose id
    no record has, or no update at all."""
    rows = {_text(row, "id", f"{path.name}, line {n}"): (row, f"{path.name}, line {n}") for n, row in read_rows(path)}
    _refuse_empty(list(rows), path)
    unknown = sorted(rows.keys() - {record.id for record in records})
    if unknown:
        raise DataError(f"{path.name} has updates for ids that the data set lacks", value=unknown[:5], limit=None)
    joined = []
    for record in records:
        if record.id in rows:
            row, place = rows[record.id]
            update, style = _text(row, "update", place), _text(row, "style", place, default="")
            joined.append(replace(record, update=update, tags=_tags(row, place), style=style))
    return joined


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
    row: Row = {own.name: getattr(record, own.name) for own in fields(record) if own.name != "measures"}
    row |= {own.name: getattr(record.measures, own.name) for own in fields(record.measures)}
    row["n_hunks"] = len(record.measures.hunks)
    return {name: value for name, value in row.items() if value or name not in _LEFT_OUT}


def read_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """(line number, JSON object) of each line that is not blank.  Raises DataError: no such file, or a line that is no
    JSON object."""
    try:
        with _open(path, "rt") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    value = json.loads(line)
                    if not isinstance(value, dict):
                        raise DataError(f"{path.name}, line {number}: not a JSON object", value=line[:80])
                    yield number, value
    except json.JSONDecodeError as error:
        raise DataError(f"{path.name}, line {number}: not JSON: {error}", value=error.doc[:80]) from error
    except FileNotFoundError as error:
        raise DataError(f"no such data set: {path}", value=str(path), remedy="give the path of a JSONL file") from error
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise DataError(f"can't read {path}: {error}", value=str(path)) from error


def _open(path: Path, mode: str) -> IO[str]:
    if path.suffix == ".xz":
        return cast("IO[str]", lzma.open(path, mode, encoding="utf-8", newline="\n"))
    return cast("IO[str]", path.open(mode, encoding="utf-8", newline="\n"))


def record_of_row(row: Row, place: str) -> EditRecord:
    """A row as a record; `place` names it in errors.  What a row lacks of the measures is measured."""
    before, after = _text(row, "before", place), _text(row, "after", place)
    texts = {name: _text(row, name, place, default="") for name in _TEXT_FIELDS}
    known = {own.name: row[own.name] for own in fields(EditMeasures) if own.name in row}
    is_measured = len(known) == len(fields(EditMeasures))
    return EditRecord(
        id=_text(row, "id", place, default=hash_texts(before, after, texts["update"])),
        before=before,
        after=after,
        measures=EditMeasures(**known | {"hunks": tuple(Hunk(*hunk) for hunk in row["hunks"])})
        if is_measured
        else measure_edit(before, after),
        tags=_tags(row, place),
        language=_optional_text(row, "language", place),
        path=_optional_text(row, "path", place),
        **texts,
    )


def hash_texts(*texts: str) -> str:
    """A short name for a record that has none: it depends on its texts only."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _text(row: Row, name: str, place: str, *, default: str | None = None) -> str:
    value = row.get(name, default)
    if not isinstance(value, str):
        what = "missing" if name not in row else f"a {type(value).__name__}, not a string"
        raise DataError(f"{place}: field `{name}` is {what}", value=name, remedy="docs/evaluation.md lists the fields")
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

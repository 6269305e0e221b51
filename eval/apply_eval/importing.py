"""Other people's edits as a data set: any JSONL with before, after and an update, under whatever field names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from apply_eval.datasets import EditRecord, read_rows, record_of_row
from apply_eval.errors import DataError
from apply_eval.mine import StyleMix, draw_sketch, language_name


def import_records(
    path: Path,
    *,
    renames: Mapping[str, str],
    sketch_styles: StyleMix | None,
    seed: int,
    limit: int | None = None,
) -> tuple[list[EditRecord], int]:
    """The records of `path`, and how many were left out because no snippet can show them.

    `renames` maps our field names to theirs.  With `sketch_styles` the snippets are written here.

    Raises:
        DataError: a field missing or of the wrong type, an update missing, or no record at all.
    """
    records: list[EditRecord] = []
    n_skipped = 0
    for number, row in read_rows(path):
        ours = row | {name: row[theirs] for name, theirs in renames.items() if theirs in row}
        record = _with_language(record_of_row(ours, f"{path.name}, line {number}"))
        finished = _finish(record, sketch_styles, seed, f"{path.name}, line {number}")
        n_skipped += finished is None
        records += [finished] if finished is not None else []
        if limit is not None and len(records) >= limit:
            break
    if not records:
        raise DataError(f"{path} gives no sample", value=0, limit=1)
    return records, n_skipped


def _with_language(record: EditRecord) -> EditRecord:
    if record.language is not None or record.path is None:
        return record
    return replace(record, language=language_name(record.path))


def _finish(record: EditRecord, styles: StyleMix | None, seed: int, place: str) -> EditRecord | None:
    if styles is None:
        if not record.update:
            remedy = "name their field with --field update=..., or let --sketch write snippets"
            raise DataError(f"{place}: no update", value=record.id, remedy=remedy)
        return record
    drawn = draw_sketch(
        record.before,
        record.after,
        path=record.path,
        language=record.language,
        seed=f"{seed}-{record.id}",
        styles=styles,
    )
    if drawn is None:
        return None
    return replace(record, update=drawn.update, update_style=asdict(drawn.style))

"""The rows of a run, and their file of JSON lines.  Lines are only appended, so that a kill loses at most one.

The first line is the plan.  Then follow, in order of time, a `session` for each start of the run (code and machine) and
each `row`.  An incomplete last line is cut off when the file is opened again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self

from apply_eval.datasets import EditRecord, hash_texts, size_class
from apply_eval.errors import DataError
from apply_eval.runners import Answer, Told
from apply_eval.scores import diff_hunks, score_answer
from apply_service.errors import ApplyError

RowOutcome = Literal["answered", "refused", "crashed", "missing"]
"""`refused`: one of our errors in place of an answer, which scores as wrong but not as silent.  `crashed`: any other
exception, scored alike.  `missing`: the transport failed; not scored."""

MAX_DIFF_LINES = 400
TEXTS = ("update", "change", "diff")


@dataclass(frozen=True, slots=True)
class RunRow(Told):
    """The answer of the contestant `name` to one sample, with its cost and scores.  None means "not known" or "does not
    apply"."""

    id: str
    name: str
    outcome: RowOutcome
    error: str | None = None
    message: str = ""
    exact: bool = False
    same_but_blanks: bool | None = None
    same_but_misquotes: bool | None = None
    same_tree: bool | None = None
    equivalent: bool | None = None
    edit_similarity: float | None = None
    syntax_kept: bool | None = None
    lines_outside: int | None = None
    n_chars: int | None = None
    update: str | None = None
    """The edit as it was sent.  Only the rows file has this and the next two (`TEXTS`), not the results."""
    change: str | None = None
    """The diff from the file to the wanted text."""
    diff: str | None = None
    """The diff from the wanted text to a wrong answer."""

    @property
    def is_scored(self) -> bool:
        return self.outcome != "missing"

    @property
    def is_decoded(self) -> bool:
        """Whether a target wrote the answer, so that it has a speed."""
        return self.outcome == "answered" and bool(self.n_tokens)


def row_of_answer(record: EditRecord, answer: Answer, *, name: str) -> RunRow:
    """The row of an answer, with its scores."""
    scores = score_answer(record, answer.text)
    found: dict[str, Any] = {cost.name: getattr(answer, cost.name) for cost in fields(answer) if cost.name != "text"}
    found |= asdict(scores) | _texts(record)
    diff = None if scores.exact else "\n".join(diff_hunks(record.after, answer.text, MAX_DIFF_LINES))
    return RunRow(record.id, name, "answered", diff=diff, n_chars=len(answer.text), **found)


def row_of_error(record: EditRecord, error: Exception, *, name: str, missing: tuple[type[ApplyError], ...]) -> RunRow:
    """The row of an error in place of an answer."""
    is_typed = isinstance(error, ApplyError)
    outcome: RowOutcome = "missing" if isinstance(error, missing) else "refused" if is_typed else "crashed"
    code = error.code if isinstance(error, ApplyError) else f"exception:{type(error).__name__}"
    return RunRow(record.id, name, outcome, error=code, message=str(error)[:300], **_texts(record))


def _texts(record: EditRecord) -> dict[str, Any]:
    """What the report shows of a sample, whatever the answer."""
    change = "\n".join(diff_hunks(record.before, record.after, MAX_DIFF_LINES))
    return {"update": record.update, "change": change}


def as_json(row: RunRow, *, with_texts: bool) -> dict[str, Any]:
    """The row as a JSON object, without fields that have their default."""
    plain, always = RunRow("", "", "answered"), ("id", "name", "outcome", "exact")
    names = dict.fromkeys((*always, *(own.name for own in fields(row) if with_texts or own.name not in TEXTS)))
    values = {name: getattr(row, name) for name in names}
    kept = {name: value for name, value in values.items() if name in always or value != getattr(plain, name)}
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in kept.items()}


def row_of_json(values: Mapping[str, Any]) -> RunRow:
    """The reverse of `as_json`.  Fields that rows no longer have are ignored.  Raises TypeError if one is missing."""
    known = {own.name: values[own.name] for own in fields(RunRow) if own.name in values}
    return RunRow(**known | {"findings": tuple(values.get("findings", ()))})


@dataclass(frozen=True, slots=True)
class SampleFacts:
    """What samples are grouped by."""

    id: str
    digest: str
    """Hash of before, after and update, so that two runs are compared only on equal samples."""
    language: str
    size: str
    kind: str
    n_lines: int
    tags: tuple[str, ...]
    path: str | None
    style: str = ""


def facts_of(record: EditRecord) -> SampleFacts:
    measures = record.measures
    return SampleFacts(
        id=record.id,
        digest=hash_texts(record.before, record.after, record.update),
        language=record.language or "unknown",
        size=size_class(measures.n_lines_before),
        kind=measures.edit_kind,
        n_lines=measures.n_lines_before,
        tags=record.tags,
        path=record.path,
        style=record.style,
    )


def facts_of_json(values: Mapping[str, Any]) -> SampleFacts:
    known = {own.name: values[own.name] for own in fields(SampleFacts) if own.name in values}
    return SampleFacts(**known | {"tags": tuple(values["tags"])})


# -- the file ----------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class RunRecord:
    """The content of a rows file."""

    plan: dict[str, Any]
    sessions: list[dict[str, Any]] = field(default_factory=list)
    all_rows: list[RunRow] = field(default_factory=list)
    """In order of time."""

    @property
    def rows(self) -> list[RunRow]:
        """The last row of every sample and contestant, in order of their first.  A missing sample that was tried again
        counts once."""
        return list({(row.id, row.name): row for row in self.all_rows}.values())


def read_rows_file(path: Path) -> RunRecord:
    """What a run has done so far.  Raises DataError: no such file, or not one of a run."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"no run lies at {path}", value=str(path), remedy="give the --out of a run") from error
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    if not lines:
        raise DataError(f"{path} holds no run", value=str(path), remedy="start it anew under another --out")
    try:
        entries = [json.loads(line) for line in lines]
        record = RunRecord(plan=entries[0]["plan"])
        for entry in entries[1:]:
            if "session" in entry:
                record.sessions.append(entry["session"])
            else:
                record.all_rows.append(row_of_json(entry["row"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is not the file of a run: {error!r}", value=str(path)) from error
    return record


class RowsFile:
    """A rows file, open to append.  A context manager."""

    def __init__(self, path: Path, plan: Mapping[str, Any]) -> None:
        """Opens the run at `path`, or begins it with `plan`.  Raises DataError: another run lies there: continuing it
        would mix two."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.record = RunRecord(dict(plan))
        self._file: BinaryIO = path.open("ab+")
        self._file.seek(0)
        self._file.truncate(self._file.read().rfind(b"\n") + 1)  # what a kill left after the last whole line
        if path.stat().st_size:
            self.record = read_rows_file(path)
            kept = self.record.plan
            if changed := sorted(key for key in {*plan, *kept} if plan.get(key) != kept.get(key)):
                self._file.close()
                raise DataError(
                    f"another run lies in {path.parent}: it differs in {', '.join(changed)}",
                    value=[kept.get(key) for key in changed],
                    limit=[plan.get(key) for key in changed],
                    remedy="name another --out, or say --fresh to throw that run away",
                )
        else:
            self._append({"plan": self.record.plan})

    def add_session(self, session: Mapping[str, Any]) -> None:
        """Record a start of the run."""
        self.record.sessions.append(dict(session))
        self._append({"session": session})

    def add_row(self, row: RunRow) -> None:
        """Add a row; it is on disk when this returns.  The record has the file's digits, so that a run has the same
        summary however often it was stopped."""
        values = as_json(row, with_texts=True)
        self._append({"row": values})
        self.record.all_rows.append(row_of_json(values))

    def _append(self, entry: Mapping[str, Any]) -> None:
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        self._file.write(line + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

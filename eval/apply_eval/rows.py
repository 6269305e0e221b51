"""The rows of a run, and the file that keeps them: JSON lines, only ever appended to, so that a kill loses one block.

Line one of the file is the plan.  Then, in order of time, a `session` for each start of the run (what code on what
machine) and a `block` for everything that was measured together.  A torn last line is cut off when it is opened again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self

from apply_eval.datasets import EditRecord, hash_texts, size_class
from apply_eval.errors import DataError
from apply_eval.render import diff_hunks
from apply_eval.runners import Answer
from apply_eval.scores import score_answer
from apply_service.errors import ApplyError
from apply_service.types import PassCount

RowOutcome = Literal["answered", "refused", "crashed", "missing"]
"""`refused`: a typed error in place of an answer; scored as not exact, never silent.  `crashed`: an exception that is
no error of ours; scored likewise.  `missing`: the transport failed; not scored."""

MAX_DIFF_LINES = 400


@dataclass(frozen=True, slots=True)
class RunRow:
    """One sample answered by the contestant `name`: what came back, what it cost, what the scorers said.  None is "not
    known" or "does not apply"."""

    id: str
    name: str
    repeat: int
    outcome: RowOutcome
    error: str | None = None
    message: str = ""
    exact: bool = False
    same_but_blanks: bool | None = None
    same_but_misquotes: bool | None = None
    same_tree: bool | None = None
    edit_similarity: float | None = None
    change_similarity: float | None = None
    syntax_kept: bool | None = None
    lines_outside: int | None = None
    findings: tuple[str, ...] = ()
    confidence: float | None = None
    certainty: str | None = None
    strategy: str | None = None
    agreement: bool | None = None
    latency_s: float | None = None
    ttft_s: float | None = None
    tok_s: float | None = None
    n_prompt_tokens: int | None = None
    n_tokens: int | None = None
    n_chars: int | None = None
    passes: int | None = None
    n_drafted: int | None = None
    n_accepted: int | None = None
    rejections: int | None = None
    accepted_by_source: Mapping[str, int] = field(default_factory=dict)
    pass_counts: tuple[PassCount, ...] = ()
    """Every pass; runs of undrafted passes are joined into one."""
    diff: str | None = None
    """From the wanted text to a wrong answer; kept in the rows file, not in the results."""

    @property
    def is_scored(self) -> bool:
        return self.outcome != "missing"

    @property
    def is_decoded(self) -> bool:
        """Whether a target wrote it, so that its speed is one."""
        return self.outcome == "answered" and bool(self.n_tokens)


def row_of_answer(record: EditRecord, answer: Answer, *, name: str, repeat: int) -> RunRow:
    """Judge an answer."""
    scores = score_answer(record, answer.text)
    costs: dict[str, Any] = {cost.name: getattr(answer, cost.name) for cost in fields(answer) if cost.name != "text"}
    costs |= {"pass_counts": join_undrafted(answer.pass_counts), "n_chars": len(answer.text)}
    diff = None if scores.exact else wrong_diff(record, answer.text)
    return RunRow(record.id, name, repeat, "answered", diff=diff, **asdict(scores), **costs)


def row_of_error(
    record: EditRecord, error: Exception, *, name: str, repeat: int, missing: tuple[type[ApplyError], ...]
) -> RunRow:
    """What came in place of an answer."""
    is_typed = isinstance(error, ApplyError)
    outcome: RowOutcome = "missing" if isinstance(error, missing) else "refused" if is_typed else "crashed"
    code = error.code if isinstance(error, ApplyError) else f"exception:{type(error).__name__}"
    return RunRow(record.id, name, repeat, outcome, error=code, message=str(error)[:300])


def wrong_diff(record: EditRecord, answer: str) -> str:
    """The diff from the wanted text to the answer, cut where it is long."""
    lines = diff_hunks(record.after, answer)
    more = [f"... {len(lines) - MAX_DIFF_LINES} more lines"] if len(lines) > MAX_DIFF_LINES else []
    return "\n".join([*lines[:MAX_DIFF_LINES], *more])


def join_undrafted(counts: tuple[PassCount, ...]) -> tuple[PassCount, ...]:
    """The same passes, with neighbours that were not drafted as one: their tokens are what counts."""
    joined: list[PassCount] = []
    for count in counts:
        if joined and not count.n_drafted and not joined[-1].n_drafted:
            joined[-1] = joined[-1]._replace(n_new=joined[-1].n_new + count.n_new)
        else:
            joined.append(count)
    return tuple(joined)


def as_json(row: RunRow, *, with_diff: bool) -> dict[str, Any]:
    """The row as a JSON object; what stands at its default is left out."""
    plain, always = RunRow("", "", 0, "answered"), ("id", "name", "repeat", "outcome", "exact")
    values = {own.name: getattr(row, own.name) for own in fields(row) if with_diff or own.name != "diff"}
    kept = {name: value for name, value in values.items() if name in always or value != getattr(plain, name)}
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in kept.items()}


def row_of_json(values: Mapping[str, Any]) -> RunRow:
    """The mirror of `as_json`.  Raises TypeError on a field that is unknown or missing."""
    known = dict(values)
    known["findings"] = tuple(known.get("findings", ()))
    known["pass_counts"] = tuple(PassCount(*count) for count in known.get("pass_counts", ()))
    return RunRow(**known)


@dataclass(frozen=True, slots=True)
class SampleFacts:
    """What the figures are grouped by; no text."""

    id: str
    digest: str
    """Hash of before, after and update: two runs are compared on samples that are really the same."""
    language: str
    size: str
    kind: str
    n_lines: int
    n_chars: int
    """Of the wanted file."""
    n_hunks: int
    tags: tuple[str, ...]
    flags: tuple[str, ...]
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
        n_chars=len(record.after),
        n_hunks=measures.n_hunks,
        tags=record.tags,
        flags=measures.flags,
        path=record.path,
        style=record.style,
    )


def facts_of_json(values: Mapping[str, Any]) -> SampleFacts:
    return SampleFacts(**{**values, "tags": tuple(values["tags"]), "flags": tuple(values["flags"])})


# -- the file ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one contestant that were measured together, and the seconds that took on the wall.  At a concurrency of
    one a block is one sample."""

    number: int
    name: str
    wall_s: float
    rows: tuple[RunRow, ...]


@dataclass(slots=True)
class RunRecord:
    """Everything that a rows file holds."""

    plan: dict[str, Any]
    sessions: list[dict[str, Any]] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    @property
    def rows(self) -> list[RunRow]:
        """The last row of every (sample, contestant, repeat), in order of their first: a missing sample that was tried
        again counts once."""
        return list({(row.id, row.name, row.repeat): row for block in self.blocks for row in block.rows}.values())


def read_rows_file(path: Path) -> RunRecord:
    """What a run has done so far.

    Raises:
        DataError: no such file, or not one of a run.
    """
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
                record.blocks.append(_block(entry["block"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is not the file of a run: {error!r}", value=str(path)) from error
    return record


def _block(values: Mapping[str, Any]) -> Block:
    return Block(values["number"], values["name"], values["wall_s"], tuple(map(row_of_json, values["rows"])))


class RowsFile:
    """A rows file open for more.  A context manager."""

    def __init__(self, path: Path, plan: Mapping[str, Any]) -> None:
        """Opens the run at `path`, or begins it with `plan`.

        Raises:
            DataError: another run lies there: continuing it would mix two.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self.record = RunRecord(dict(plan))
        if path.exists() and _cut_torn_line(path):
            self.record = read_rows_file(path)
            _refuse_other_plan(path, self.record.plan, plan)
        self._file: BinaryIO = path.open("ab")
        if not path.stat().st_size:
            self._append({"plan": self.record.plan})

    def add_session(self, session: Mapping[str, Any]) -> None:
        """Note who goes on with the run."""
        self.record.sessions.append(dict(session))
        self._append({"session": session})

    def add_block(self, number: int, name: str, wall_s: float, rows: Sequence[RunRow]) -> None:
        """Keep what was measured; on disk when this returns.  The record holds what the file holds, to the digit, so
        that a run has one summary however often it was stopped."""
        values = {"number": number, "name": name, "wall_s": round(wall_s, 6)}
        values["rows"] = [as_json(row, with_diff=True) for row in rows]
        self._append({"block": values})
        self.record.blocks.append(_block(values))

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


def _cut_torn_line(path: Path) -> bool:
    """Cut what a kill left after the last whole line; whether anything is left."""
    with path.open("r+b") as file:
        end = file.read().rfind(b"\n") + 1
        file.truncate(end)
    return end > 0


def _refuse_other_plan(path: Path, kept: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
    if changed := sorted(key for key in {*plan, *kept} if plan.get(key) != kept.get(key)):
        raise DataError(
            f"another run lies in {path.parent}: it differs in {', '.join(changed)}",
            value=[kept.get(key) for key in changed],
            limit=[plan.get(key) for key in changed],
            remedy="name another --out, or say --fresh to throw that run away",
        )

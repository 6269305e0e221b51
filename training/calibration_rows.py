"""What the service says of its own answers to calibration edits, and which of them are right: a row for each.

Rows hold figures and names of checks, no code.  Each is on disk before the next is asked for: what is stopped goes on.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from apply_eval.line_diff import diff_lines
from apply_service.errors import ApplyError
from apply_service.pipeline import apply, read_request
from apply_service.target import Runtime, Target, in_process
from apply_service.text.fidelity import normalise
from apply_service.types import ApplyRequest, ApplyResult, Strategy
from training.calibration_data import CalibrationEdit, Side


@dataclass(frozen=True, slots=True)
class HunkRow:
    """A hunk of an answer: the least log probability of a decision in it (None: no decision), and whether the wanted
    text has its lines as they are."""

    logprob: float | None
    is_right: bool


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """An answer.  `logprob` as of a hunk, over the whole answer; `error`: the code of a refusal, which has no more to
    say.  `findings`: checks that found something."""

    id: str
    side: Side
    repo: str
    language: str | None
    n_lines: int
    is_right: bool = False
    is_merge_right: bool = False
    error: str | None = None
    strategy: str | None = None
    certainty: str | None = None
    n_reasons: int = 0
    agreement: bool | None = None
    findings: tuple[str, ...] = ()
    logprob: float | None = None
    hunks: tuple[HunkRow, ...] = ()


def uncalibrated(runtime: Runtime) -> Runtime:
    """The runtime with targets that give their raw probabilities."""

    def load(name: str) -> Target:
        return replace(in_process(runtime.load(name)), calibration=None)

    return replace(runtime, load=load)


def answer_row(made: CalibrationEdit, runtime: Runtime, strategy: Strategy) -> AnswerRow:
    """Answer one edit."""
    edit = made.edit
    row = AnswerRow(made.id, made.side, edit.repo, edit.language, edit.before.count("\n") + 1)
    try:
        request = ApplyRequest(original=edit.before, update=made.update, path=edit.path, strategy=strategy)
        merge = read_request(request, runtime).job.prediction.text
        row = replace(row, is_merge_right=merge == normalise(edit.after))
        result = apply(request, runtime)
    except ApplyError as error:
        return replace(row, error=error.code)
    return replace(
        row,
        is_right=result.merged_code == edit.after,
        strategy=result.strategy,
        certainty=result.certainty.value,
        n_reasons=len(result.reasons),
        agreement=result.agreement,
        findings=tuple(sorted({verdict.check for verdict in result.verdicts if not verdict.is_pass})),
        logprob=_log(result.confidence),
        hunks=hunk_rows(result, edit.after),
    )


def hunk_rows(result: ApplyResult, wanted: str) -> tuple[HunkRow, ...]:
    """A hunk is wrong where a difference between answer and wanted text touches its lines.  A change that the answer
    lacks far from every hunk makes none of them wrong."""
    wrong = diff_lines(result.merged_code.split("\n"), wanted.split("\n"))
    rows = []
    for hunk in result.hunks:
        is_touched = any(place.a0 <= hunk.merged_end and place.a1 >= hunk.merged_start for place in wrong)
        rows.append(HunkRow(_log(hunk.confidence), not is_touched))
    return tuple(rows)


def _log(probability: float | None) -> float | None:
    return None if probability is None else math.log(max(probability, 1e-300))


def collect(
    edits: Iterable[CalibrationEdit],
    runtime: Runtime,
    path: Path,
    *,
    limit: int,
    tell: Callable[[int], None],
    strategy: Strategy = "auto",
) -> list[AnswerRow]:
    """The rows of the first `limit` edits; those that `path` has already are not asked for again."""
    if path.is_file() and not (text := path.read_bytes()).endswith(b"\n"):
        path.write_bytes(text[: text.rfind(b"\n") + 1])  # what a kill left of a row
    rows = read_rows(path)
    known = {row.id for row in rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for made in edits:
            if len(rows) >= limit:
                break
            if made.id in known:
                continue
            rows.append(answer_row(made, runtime, strategy))
            file.write(json.dumps(asdict(rows[-1])) + "\n")
            file.flush()
            tell(len(rows))
    return rows


def read_rows(path: Path) -> list[AnswerRow]:
    """The rows of a file, none where there is no such file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    rows: list[AnswerRow] = []
    for values in map(json.loads, lines):
        hunks = tuple(HunkRow(**hunk) for hunk in values["hunks"])
        rows.append(AnswerRow(**{**values, "findings": tuple(values["findings"]), "hunks": hunks}))
    return rows

"""One sample answered by one contestant, as a row: what came back, what it cost, what the scorers said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from apply_eval.datasets import EditRecord, hash_texts
from apply_eval.merge_runner import size_class
from apply_eval.render import unified_diff
from apply_eval.runners.answer import Answer
from apply_eval.scorers.score import score_answer
from apply_service.errors import ApplyError
from apply_service.types import PassCount

RowOutcome = Literal["answered", "refused", "crashed", "missing"]
"""`refused`: a typed error in place of an answer; scored as not exact, never silent.  `crashed`: an exception that is
no error of ours; scored likewise.  `missing`: the transport failed; not scored."""

MAX_DIFF_LINES = 400


@dataclass(frozen=True, slots=True)
class RunRow:
    """A row of a run.  None is "not known" or "does not apply"; `name` is the contestant."""

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
    diff = None if scores.exact else wrong_diff(record, answer.text)
    return RunRow(
        id=record.id,
        name=name,
        repeat=repeat,
        outcome="answered",
        **asdict(scores),
        findings=answer.findings,
        confidence=answer.confidence,
        certainty=answer.certainty,
        strategy=answer.strategy,
        agreement=answer.agreement,
        latency_s=answer.latency_s,
        ttft_s=answer.ttft_s,
        tok_s=answer.tok_s,
        n_prompt_tokens=answer.n_prompt_tokens,
        n_tokens=answer.n_tokens,
        n_chars=len(answer.text),
        passes=answer.passes,
        n_drafted=answer.n_drafted,
        n_accepted=answer.n_accepted,
        rejections=answer.rejections,
        accepted_by_source=answer.accepted_by_source,
        pass_counts=join_undrafted(answer.pass_counts),
        diff=diff,
    )


def row_of_error(
    record: EditRecord, error: Exception, *, name: str, repeat: int, missing: tuple[type[ApplyError], ...]
) -> RunRow:
    """What came in place of an answer."""
    if isinstance(error, missing):
        outcome: RowOutcome = "missing"
    else:
        outcome = "refused" if isinstance(error, ApplyError) else "crashed"
    code = error.code if isinstance(error, ApplyError) else f"exception:{type(error).__name__}"
    return RunRow(record.id, name, repeat, outcome, error=code, message=str(error)[:300])


def wrong_diff(record: EditRecord, answer: str) -> str:
    """The diff from the wanted text to the answer, cut where it is long."""
    lines = unified_diff(record.after, answer, path=record.path or "file").split("\n")[3:]
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
    plain = RunRow("", "", 0, "answered")
    values = {name: getattr(row, name) for name in RunRow.__dataclass_fields__}
    if not with_diff:
        values["diff"] = None
    always = ("id", "name", "repeat", "outcome", "exact")
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

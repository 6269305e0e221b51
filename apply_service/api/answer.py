"""Defines the JSON of results.  All dialects and batches write it, and the documentation is made from it.

Parts that look the same inside the service are defined in `types`.  `clients.http` reads this JSON.
"""

from __future__ import annotations

import base64
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from apply_service.api.errors import NATIVE, ErrorDetail
from apply_service.api.schema import BatchRequest
from apply_service.batch import BatchMode, BatchResult, BatchStatus, FileAction, ItemStatus
from apply_service.text.fidelity import SourceText, encode
from apply_service.types import (
    ApplyResult,
    Certainty,
    ConfidenceKind,
    DecodeStats,
    Failure,
    FinishReason,
    Hunk,
    LineRange,
    OtherReading,
    RanStrategy,
    Span,
    TextEdit,
    Verdict,
)


class AnswerPart(BaseModel):
    """A part of an answer.  `model_validate` takes each field from the attribute of the same name."""

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)


class UsageOut(AnswerPart):
    """Counts of the decode; all 0 if no model took part.  A count is null if a remote server does not report it.  If
    the server does not report prompt and completion, these counts are 0 and the verdict `usage` says so."""

    prompt_tokens: int
    cached_prompt_tokens: int | None = Field(description="Prompt tokens whose keys and values the prefix cache had.")
    completion_tokens: int = Field(description="Generated, drafted ones included.")
    total_tokens: int = Field(description="Prompt and completion.")
    accepted_prediction_tokens: int | None = Field(description="Drafted tokens that were accepted.")
    rejected_prediction_tokens: int | None = Field(description="Drafted tokens that were not.")
    accepted_by_source: dict[str, int] | None = Field(description="Accepted tokens by the source of their draft.")
    passes: int | None = Field(description="Forward passes over generated positions.")
    prefill_passes: int | None = Field(description="Forward passes that only read the prompt.")
    rejections: int | None = Field(description="Passes that accepted fewer tokens than were drafted.")

    @classmethod
    def of(cls, stats: DecodeStats) -> Self:
        counts: dict[str, Any] = {name: getattr(stats, name) for name in cls.model_fields if hasattr(stats, name)}
        counts |= {
            "total_tokens": stats.prompt_tokens + stats.completion_tokens,
            "accepted_prediction_tokens": stats.accepted_tokens,
            "rejected_prediction_tokens": stats.rejected_tokens,
        }
        if "accepted_tokens" in stats.unknown:
            counts |= {"accepted_prediction_tokens": None, "rejected_prediction_tokens": None}
        nullable = counts.keys() - {"prompt_tokens", "completion_tokens"}
        return cls(**(counts | dict.fromkeys(nullable & stats.unknown)))


class RepairAnswer(AnswerPart):
    """A call that fits the file."""

    update: str = Field(description="The call, of the same kind, with quotes that stand in the file once.")
    format: str = Field(description="Its format, as declared or detected.")
    fits: bool = Field(description="Whether the call fitted as it was sent.")
    mended: list[str] = Field(description="The parts whose quotes were mended.")
    already_applied: bool = Field(description="Whether the file has all of it already.")
    source_sha256: str = Field(description="Hash of the file that the call fits.")
    reasons: list[str] = Field(
        description="What is in question: for each mended quote the lines of the file that were taken for it."
    )


class NativeAnswer(AnswerPart):
    """The merged file, and everything that shows how far the file can be trusted."""

    merged_code: str = Field(description="The whole merged file, line ends as in the original.")
    merged_b64: str | None = Field(description="The merged file's bytes, where the original came as bytes.")
    strategy: RanStrategy = Field(description="What decided the result.")
    finish_reason: FinishReason = Field(description="Why decoding ended; of an answer always `stop`.")
    format: str = Field(description="The edit's format, as declared or detected.")
    language: str | None = Field(description="The file's language; null where it is unknown.")
    model: str | None = Field(description="null where no model took part.")
    drafter: str | None = Field(description="null where no model took part, or none was asked for.")
    certainty: Certainty = Field(description="How far the deterministic merge trusts itself.")
    reasons: list[str] = Field(description="Why it does not trust itself more.")
    readings: list[OtherReading] = Field(
        description="Other ways to read the edit with a chance of 1% or more, likeliest first, at most five. A request "
        "with `reading` and an id returns that one."
    )
    failures: list[Failure] = Field(description="The parts of the edit whose quotes do not fit, with a `next` edit.")
    already_applied: bool = Field(description="Whether the file has the edit already, so that nothing changes.")
    reading: str | None = Field(description="The id of this one; null where a model's text is no reading of the edit.")
    agreement: bool | None = Field(description="Whether the target wrote what the deterministic merge predicted.")
    determinism: Literal["bitwise", "tolerant"] | None = Field(
        description="Whether drafts can change no bit here, by the engine's self-test."
    )
    verdicts: list[Verdict]
    edits: list[TextEdit] = Field(description="What turns the original into the merged text, as LSP text edits.")
    hunks: list[Hunk] = Field(description="What changed, stretch by stretch.")
    spans: list[Span] = Field(description="Where the merged lines come from.")
    windows: list[LineRange] = Field(
        description="With strategy `windowed`: the lines that the target decided; all others are the original's bytes."
    )
    confidence: float | None = Field(
        description="How likely the answer is right, if a target decided or a program merged a snippet. null for other "
        "formats that a program applied, and for a reading that the caller chose."
    )
    confidence_kind: ConfidenceKind | None = Field(
        description="`calibrated`: the share of such answers that was right when counted. `raw`: the target's least "
        "probability at a decision. null without a confidence."
    )
    source_sha256: str = Field(description="Hash of the original's bytes.")
    result_sha256: str = Field(description="Hash of the merged file's bytes.")
    encoding: str = Field(description="What both are encoded in.")
    seed: int = Field(description="As in the request.")
    usage: UsageOut
    timings_s: dict[str, float] = Field(description="Seconds by stage.")
    diff: str | None = Field(description="Unified diff, where it was asked for.")

    @classmethod
    def of(cls, result: ApplyResult, *, with_bytes: bool) -> Self:
        """Return the answer for a result.  `with_bytes`: whether the original came as bytes."""
        stats, merged_b64 = result.stats, None
        if with_bytes:
            data = encode(result.merged_code, SourceText.of(result.merged_code, result.encoding))
            merged_b64 = base64.b64encode(data).decode()
        values = {name: getattr(result, name) for name in cls.model_fields if hasattr(result, name)}
        times = {"prefill_s": stats.prefill_s, "decode_s": stats.decode_s, "draft_s": stats.draft_s}
        values |= {"merged_b64": merged_b64, "usage": UsageOut.of(stats), "timings_s": {**result.timings_s, **times}}
        return cls.model_validate(values)


VERDICT = TypeAdapter(Verdict)


class HunkEvent(AnswerPart):
    """One hunk in a stream, with its edits."""

    hunk: Hunk
    edits: list[TextEdit]


class BatchItemOut(AnswerPart):
    """One file of the batch."""

    path: str | None = Field(description="Its name after; of a deleted file its name before.")
    source: str | None = Field(description="Its name before; null for a new file.")
    action: FileAction = Field(description="What happens to it.")
    new_mode: str | None = Field(description="git's mode (`100755`), where a patch sets one.")
    status: ItemStatus = Field(description="`withheld`: it is well, but another one failed.")
    verdicts: list[Verdict] = Field(description="What every check found, whatever the status.")
    answer: NativeAnswer | None = Field(description="As of `POST /v1/apply`; null unless ok, and of a deleted file.")
    error: ErrorDetail | None = Field(description="Why it failed.")
    diff: str | None = Field(description="The whole change, names and mode included, where it was asked for.")


class BatchAnswer(AnswerPart):
    """The outcome for each file."""

    mode: BatchMode
    status: BatchStatus = Field(description="`applied`: every file is ok; `partial`: some are; `refused`: none is.")
    items: list[BatchItemOut] = Field(description="In the order of the edits, or of the patch.")

    @classmethod
    def of(cls, result: BatchResult, call: BatchRequest) -> Self:
        """Return the answer to a request.  Files that came as bytes are returned as bytes."""
        numbers = {number for number, edit in enumerate(call.edits or []) if edit.original_b64 is not None}
        paths = {file.path for file in call.files if file.original_b64 is not None}
        items: list[Any] = []
        for number, item in enumerate(result.items):
            values = {name: getattr(item, name) for name in BatchItemOut.model_fields if name != "answer"}
            with_bytes = number in numbers or item.source in paths
            values["answer"] = None if item.result is None else NativeAnswer.of(item.result, with_bytes=with_bytes)
            values["error"] = None if item.error is None else NATIVE.body(item.error)["error"]
            items.append(BatchItemOut.model_validate(values))
        return cls(mode=result.mode, status=result.status, items=items)

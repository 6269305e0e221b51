"""What the OpenAI-like endpoints answer: completions, chunks and usage, with what this service knows beside them.

`apply_service`, in every answer and in the last chunk of a stream, is the native answer without the merged file.
"""

from __future__ import annotations

import json
import time
import uuid
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from apply_service.api.answer import NativeAnswer, UsageOut
from apply_service.types import ApplyResult, DecodeStats

REPORT_TEXT = "The answer of `POST /v1/apply` without the merged file and usage: strategy, verdicts, edits, confidence."
CHAT, TEXT = "chat.completion", "text_completion"
EVENTS = ("message",)
"""Of a stream: every event is data without a name."""
Kind = Literal["chat.completion", "text_completion"]


class _Out(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PromptDetails(_Out):
    """What was read of the prompt."""

    cached_tokens: int | None = Field(description="Prompt tokens whose keys and values were already there.")


class CompletionDetails(_Out):
    """What became of the drafts."""

    accepted_prediction_tokens: int | None = Field(description="Drafted tokens that stood.")
    rejected_prediction_tokens: int | None = Field(
        description="Drafted tokens that did not; not part of completion_tokens."
    )


class Usage(_Out):
    """Counts of the decode; all 0 where no model took part; details are null where a remote server reported none."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails

    @classmethod
    def of(cls, stats: DecodeStats) -> Usage:
        counts = UsageOut.of(stats)
        return cls(
            prompt_tokens=stats.prompt_tokens,
            completion_tokens=stats.completion_tokens,
            total_tokens=stats.prompt_tokens + stats.completion_tokens,
            prompt_tokens_details=PromptDetails(cached_tokens=counts.cached_prompt_tokens),
            completion_tokens_details=CompletionDetails(
                accepted_prediction_tokens=counts.accepted_prediction_tokens,
                rejected_prediction_tokens=counts.rejected_prediction_tokens,
            ),
        )


class AnswerMessage(_Out):
    role: Literal["assistant"]
    content: str = Field(description="The whole merged file, bare or in the tags that the prompt asks for.")
    refusal: None


class ChatChoice(_Out):
    index: Literal[0]
    message: AnswerMessage
    finish_reason: Literal["stop"] = Field(description="Always: what would be cut is an error.")
    logprobs: None


class TextChoice(_Out):
    index: Literal[0]
    text: str = Field(description="The whole merged file.")
    finish_reason: Literal["stop"]
    logprobs: None


class ChatAnswer(_Out):
    """The merged file as a chat completion."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str = Field(description="The model as it was asked for; `apply_service.model` says which one decided.")
    choices: list[ChatChoice]
    usage: Usage
    apply_service: dict[str, Any] = Field(description=REPORT_TEXT)


class TextAnswer(_Out):
    """The merged file as a completion."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[TextChoice]
    usage: Usage
    apply_service: dict[str, Any] = Field(description=REPORT_TEXT)


def report(result: ApplyResult) -> dict[str, Any]:
    """What is known of a result beside the file: JSON values."""
    answer = NativeAnswer.of(result, with_bytes=False)
    return answer.model_dump(mode="json", exclude={"merged_code", "merged_b64", "usage"})


class Writer:
    """Writes one completion: all of its chunks share id, time and model."""

    def __init__(self, kind: Kind, model: str) -> None:
        self._kind = kind
        self._head = {
            "id": ("chatcmpl-" if kind == CHAT else "cmpl-") + uuid.uuid4().hex,
            "created": int(time.time()),
            "model": model,
        }

    def answer(self, content: str, result: ApplyResult) -> str:
        """The whole completion as JSON."""
        kind, choice = (ChatAnswer, _chat_choice) if self._kind == CHAT else (TextAnswer, _text_choice)
        values = {**self._head, "object": self._kind, "choices": [choice(content)], "usage": Usage.of(result.stats)}
        answer: BaseModel = kind.model_validate({**values, "apply_service": report(result)})
        return answer.model_dump_json()

    def opening(self) -> bytes:
        """The chunk that says who speaks; nothing in completions."""
        return self._chunk([_delta({"role": "assistant", "content": ""})]) if self._kind == CHAT else b""

    def text(self, text: str) -> bytes:
        return self._chunk([_delta({"content": text}) if self._kind == CHAT else _text_delta(text)])

    def closing(self, result: ApplyResult) -> bytes:
        """The chunk that ends the choice and carries the report."""
        choice = _delta({}) if self._kind == CHAT else _text_delta("")
        return self._chunk([{**choice, "finish_reason": "stop"}], apply_service=report(result))

    def usage(self, result: ApplyResult) -> bytes:
        return self._chunk([], usage=Usage.of(result.stats).model_dump())

    def _chunk(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        kind = CHAT + ".chunk" if self._kind == CHAT else TEXT
        return data_frame(json.dumps({**self._head, "object": kind, "choices": choices, **more}, ensure_ascii=False))


DONE = b"data: [DONE]\n\n"


def data_frame(data: str) -> bytes:
    """One server-sent event without a name; `data` is a JSON text without line breaks."""
    return f"data: {data}\n\n".encode()


def _chat_choice(content: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "refusal": None}
    return {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}


def _text_choice(content: str) -> dict[str, Any]:
    return {"index": 0, "text": content, "finish_reason": "stop", "logprobs": None}


def _delta(delta: dict[str, Any]) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": None, "logprobs": None}


def _text_delta(text: str) -> dict[str, Any]:
    return {"index": 0, "text": text, "finish_reason": None, "logprobs": None}

"""What a chat-completions server is sent for a job, and what of its answer is read; any other field is left alone."""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from apply_service.engine.vllm.message import encode_edit
from apply_service.prompts.chat import TAGS, Chat, chat_messages
from apply_service.protocols import EditJob
from apply_service.remote.endpoint import Endpoint
from apply_service.types import ApplyRequest

DONE = "[DONE]"
"""The data of a stream's last event."""


def encode_call(model: str, job: EditJob, request: ApplyRequest, endpoint: Endpoint) -> dict[str, Any]:
    """The body of a request for the merged file of `job`."""
    body: dict[str, Any] = {
        "model": model,
        "messages": chat_messages(job),
        "temperature": request.temperature,
        "stream": endpoint.is_streamed,
    }
    takes = endpoint.takes
    if endpoint.is_streamed and "usage" in takes:
        body["stream_options"] = {"include_usage": True}
    if request.max_tokens is not None:
        body["max_completion_tokens" if "max_completion_tokens" in takes else "max_tokens"] = request.max_tokens
    if "seed" in takes:
        body["seed"] = request.seed
    if "logprobs" in takes:
        body["logprobs"] = True
    if "prediction" in takes:
        body["prediction"] = {"type": "content", "content": TAGS.wrap(job.prediction.text)}
    if "vllm_xargs" in takes:
        body["vllm_xargs"] = encode_edit(job, Chat.name)
    return body


class _In(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class TokenIn(_In):
    token: str
    bytes: list[int] | None = None
    logprob: float


class LogprobsIn(_In):
    content: list[TokenIn] | None = None


class TextIn(_In):
    content: str | None = None
    refusal: str | None = None


class ChoiceIn(_In):
    """Whole (`message`) or a piece of it (`delta`)."""

    index: int = Field(0, ge=0, le=0)
    message: TextIn = TextIn()
    delta: TextIn = TextIn()
    finish_reason: str | None = None
    logprobs: LogprobsIn | None = None


class PromptDetailsIn(_In):
    cached_tokens: int | None = Field(None, ge=0)


class CompletionDetailsIn(_In):
    accepted_prediction_tokens: int | None = Field(None, ge=0)
    rejected_prediction_tokens: int | None = Field(None, ge=0)


class UsageIn(_In):
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)
    prompt_tokens_details: PromptDetailsIn | None = None
    completion_tokens_details: CompletionDetailsIn | None = None


class AnswerIn(_In):
    """A completion, or one chunk of it.  In place of `choices` it may hold an `error`."""

    choices: list[ChoiceIn] | None = Field(None, max_length=1)
    usage: UsageIn | None = None
    error: Any = None


class Token(NamedTuple):
    """A token of the answer: its bytes, and the natural log of its probability."""

    data: bytes
    logprob: float


def tokens_of(logprobs: LogprobsIn | None) -> list[Token]:
    """Raises ValueError where bytes are none."""
    content = [] if logprobs is None else logprobs.content or []
    return [
        Token(one.token.encode() if one.bytes is None else bytes(one.bytes), min(0.0, one.logprob)) for one in content
    ]

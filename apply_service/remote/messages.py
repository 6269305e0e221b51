"""Writes the request for a chat-completions server, and reads its answers and errors.

An answer is gathered piece by piece.  It becomes a reply only if it is complete and the model ended it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple

from pydantic import AliasPath, BaseModel, ConfigDict, Field, ValidationError

from apply_service.engine.vllm.message import encode_edit
from apply_service.errors import ApplyError, ContextLimitExceeded, Overloaded, RemoteFailure, Truncated
from apply_service.prompts.chat import TAGS, Chat, chat_messages
from apply_service.protocols import EditJob
from apply_service.types import ApplyRequest

AGAIN = "Send the edit again."
REPORT = "Check that remote_url is the base URL of an OpenAI-compatible server."
MAX_QUOTE_CHARS = 200
CONTEXT_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error"})
CONTEXT_WORDS = re.compile(r"context (?:length|window|size)|maximum context|max_model_len", re.IGNORECASE)
REMEDIES = {
    401: "Set remote_key to a key that the server takes.",
    403: "Set remote_key to a key that may use this model.",
    404: "Correct the model's name after `remote:`, or remote_url, which ends in the API's version.",
    400: "Leave out of remote_takes what the server does not take.",
    422: "Leave out of remote_takes what the server does not take.",
}


def encode_call(model: str, job: EditJob, request: ApplyRequest, takes: frozenset[str]) -> dict[str, Any]:
    """Return the body of a request for the merged file of `job`.  `takes`: see `Endpoint.takes`."""
    body: dict[str, Any] = {
        "model": model,
        "messages": chat_messages(job),
        "temperature": request.temperature,
        "stream": True,
    }
    if "usage" in takes:
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


# -- the answer --------------------------------------------------------------------------------------------------------
class _In(BaseModel):
    """A part of an answer.  Fields that are not listed are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


def _count(*path: str) -> Any:
    return Field(None, ge=0, validation_alias=AliasPath(*path))


class TokenIn(_In):
    token: str
    bytes: list[Annotated[int, Field(ge=0, le=255)]] | None = None
    logprob: float


class ChoiceIn(_In):
    index: int = Field(0, ge=0, le=0)
    content: str | None = Field(None, validation_alias=AliasPath("delta", "content"))
    refusal: str | None = Field(None, validation_alias=AliasPath("delta", "refusal"))
    finish_reason: str | None = None
    tokens: list[TokenIn] | None = Field(None, validation_alias=AliasPath("logprobs", "content"))


class UsageIn(_In):
    """The server's counts.  They are named as in `DecodeStats`, except for `rejected_tokens`."""

    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)
    cached_prompt_tokens: int | None = _count("prompt_tokens_details", "cached_tokens")
    accepted_tokens: int | None = _count("completion_tokens_details", "accepted_prediction_tokens")
    rejected_tokens: int | None = _count("completion_tokens_details", "rejected_prediction_tokens")


class AnswerIn(_In):
    """One chunk of a completion.  It may hold an `error` instead of `choices`."""

    choices: list[ChoiceIn] | None = Field(None, max_length=1)
    usage: UsageIn | None = None
    error: Any = None


def read_answer(data: str) -> AnswerIn:
    """Return the chunk of a completion in `data`.  Raises RemoteFailure if it is not such a chunk or reports an error,
    and ContextLimitExceeded if it reports that the context is too small."""
    try:
        answer = AnswerIn.model_validate_json(data)
    except ValidationError as error:
        # The data is not quoted, because it may hold the user's code.
        raise RemoteFailure("The remote server's answer is not a chat completion.", remedy=REPORT) from error
    if answer.error is not None:
        raise error_in(answer.error)
    if answer.choices is None:
        raise RemoteFailure("The remote server's answer lacks the field `choices`.", remedy=REPORT)
    return answer


class Token(NamedTuple):
    """A token of the answer: its bytes, and the natural log of its probability."""

    data: bytes
    logprob: float


class Reply(NamedTuple):
    """A complete answer.  `tokens` is empty if the server reported no log probabilities.  `seconds` is the time from
    sending the request to the end of the answer."""

    text: str
    tokens: list[Token]
    usage: UsageIn | None
    seconds: float


class Transcript:
    """Gathers an answer that is still coming."""

    def __init__(self, limit_chars: int | None = None) -> None:
        """`limit_chars`: an answer with more characters is refused, because it would probably never end."""
        self._limit_chars = limit_chars
        self._held = bytearray()
        """The beginning of a line that is not complete yet."""
        self._data: list[str] = []
        self._texts: list[str] = []
        self._n_chars = 0
        self._tokens: list[Token] = []
        self._finish_reason: str | None = None
        self._usage: UsageIn | None = None
        self._started = time.monotonic()
        self.is_done = False

    def feed(self, piece: bytes) -> Iterator[str]:
        """Yield the texts of the server-sent events that end in this piece of the stream.  A piece may be cut at any
        byte.  Raises RemoteFailure if the stream is not UTF-8, and the errors of `take`."""
        self._held += piece
        if b"\n" not in piece:
            return
        *lines, self._held = self._held.split(b"\n")
        for raw in lines:
            try:
                line = raw.removesuffix(b"\r").decode()
            except UnicodeDecodeError as error:
                raise RemoteFailure("The remote server's answer is not UTF-8.", remedy=REPORT) from error
            if line.startswith("data:"):  # comments, and names and ids of events, are ignored
                self._data.append(line[5:].removeprefix(" "))
            elif not line and self._data:
                data, self._data = "\n".join(self._data), []
                yield self.take(data)

    def take(self, data: str) -> str:
        """Take the JSON of a chunk or the end of a stream, and return the text that it adds.

        Raises:
            RemoteFailure: the data is not a chunk, reports an error or a refusal, or comes after the end.
            ContextLimitExceeded: the server reports that the context is too small.
            Truncated: the answer is longer than `limit_chars`.
        """
        if self.is_done:
            raise RemoteFailure("The remote server sent more text after the end of its answer.", remedy=REPORT)
        if data.strip() == "[DONE]":
            self.is_done = True
            return ""
        answer = read_answer(data)
        self._usage = answer.usage or self._usage
        if not answer.choices:
            return ""
        choice = answer.choices[0]
        if choice.refusal:
            quoted = choice.refusal[:MAX_QUOTE_CHARS]
            raise RemoteFailure("The remote model refused to answer.", value=quoted, remedy="Use another model.")
        text = choice.content or ""
        if text and self._finish_reason is not None:
            raise RemoteFailure("The remote server sent more text after the end of its answer.", remedy=REPORT)
        self._finish_reason = choice.finish_reason or self._finish_reason
        for one in choice.tokens or []:
            of_token = one.token.encode() if one.bytes is None else bytes(one.bytes)
            self._tokens.append(Token(of_token, min(0.0, one.logprob)))
        self._texts.append(text)
        self._n_chars += len(text)
        if self._limit_chars is not None and self._n_chars > self._limit_chars:
            raise Truncated(
                "the remote model does not stop: its answer is already longer than the file and the edit together",
                value=self._n_chars,
                limit=self._limit_chars,
                remedy="use another model",
            )
        return text

    def finish(self) -> Reply:
        """Return the reply, after the whole answer has come.

        Raises:
            Truncated: the answer was cut off at a token limit, or is empty.
            RemoteFailure: the answer broke off, or the server ended it before it was complete.
        """
        if self._finish_reason == "length":
            remedy = "raise max_tokens, or the server's own limit"
            raise Truncated("the remote model reached its token limit", value=self._n_chars, remedy=remedy)
        if self._finish_reason is None:
            raise RemoteFailure("The remote server's answer broke off.", value=self._n_chars, remedy=AGAIN)
        if self._finish_reason != "stop":
            raise RemoteFailure(
                "The remote model stopped before it finished its answer.",
                value=self._finish_reason[:MAX_QUOTE_CHARS],
                limit="stop",
                remedy="Use another model, or turn off tools and content filters.",
            )
        text = "".join(self._texts)
        if not text.strip():
            raise Truncated("the remote model's answer is empty", value=0, remedy="send the edit again")
        return Reply(text, self._tokens, self._usage, time.monotonic() - self._started)


# -- refusals ----------------------------------------------------------------------------------------------------------
def is_passing(status: int) -> bool:
    """Tell whether the same request may succeed a moment later."""
    return status == HTTPStatus.TOO_MANY_REQUESTS or (status >= 500 and status != HTTPStatus.NOT_IMPLEMENTED)


def error_of(status: int, body: bytes) -> ApplyError:
    """Return the error for an answer whose status is not 200."""
    try:
        parsed = json.loads(body)
    except ValueError:
        parsed = None
    return error_in(parsed.get("error", parsed) if isinstance(parsed, dict) else None, status)


def error_in(error: Any, status: int | None = None) -> ApplyError:
    """Return the error for an error object of any shape.  `status`: the status of the answer; None if it was 200."""
    code, message = None, error
    if isinstance(error, dict):
        code = next((error[name] for name in ("code", "type") if isinstance(error.get(name), str)), None)
        message = error.get("message", error.get("detail"))
    if not isinstance(message, str):
        message = ""
    is_context = code in CONTEXT_CODES or CONTEXT_WORDS.search(message) is not None
    if is_context and status in (None, HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE):
        remedy = "use a model with a longer context"
        return ContextLimitExceeded("the file and the edit exceed the context of the remote model", remedy=remedy)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Overloaded(
            "The remote server takes no more requests now.", value=status, remedy="Try again in a moment."
        )
    is_about_key = status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)  # the message may quote the key
    quoted = "" if is_about_key or not message else f": {message[:MAX_QUOTE_CHARS]}"
    if status is None:
        return RemoteFailure(f"The remote server failed in the middle of its answer{quoted}.", value=code, remedy=AGAIN)
    default = "Try again later." if is_passing(status) else "See the remote server's documentation."
    remedy = REMEDIES.get(status, default)
    return RemoteFailure(f"The remote server answered {status}{quoted}.", value=code or status, remedy=remedy)

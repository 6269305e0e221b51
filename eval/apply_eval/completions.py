"""Texts asked of an OpenAI-compatible server, at its chat completions or its completions: the answer, and its tokens
with their alternatives.

A request is sent once: no retry hides a failure.  What is compared and concluded is said in `lossless`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import httpx2

from apply_eval.services import open_client, refuse_bad_status, translated, usage_fields
from apply_service.errors import ApplyError, ServiceError, Unreachable, UnsupportedParameter

PATHS = {"chat": "chat/completions", "completions": "completions"}
N_ALTERNATIVES = 5
"""Of each token, where its probability is asked for: no server known refuses so few."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: a text, or the error in its place.  None means "not told"."""

    text: str | None = None
    finish_reason: str | None = None
    error: ApplyError | None = None
    latency_s: float = 0.0
    n_tokens: int | None = None
    n_drafted: int | None = None

    def is_same(self, other: Reply) -> bool:
        """Tell whether both are answers, of one text and one end."""
        is_answer = self.text is not None and other.text is not None
        return is_answer and (self.text, self.finish_reason) == (other.text, other.finish_reason)


class Step(NamedTuple):
    """One token of an answer, how likely it was, and the likeliest tokens in its place."""

    token: bytes
    probability: float
    alternatives: Mapping[bytes, float]


class CompletionServer:
    """One server, asked in one manner.  `extra` are further fields of each request's body; null takes a field out."""

    def __init__(
        self,
        url: str,
        *,
        endpoint: str = "chat",
        model: str | None = None,
        extra: Mapping[str, Any] | None = None,
        api_key: str | None = None,
        is_streamed: bool = False,
        timeout_s: float = 600.0,
    ) -> None:
        """Raises SettingsError: that is no URL of a service."""
        self.url = url
        self._client = open_client(url, timeout_s=timeout_s, api_key=api_key)
        self._endpoint, self._extra, self._is_streamed = endpoint, dict(extra or {}), is_streamed
        self.close = self._client.close
        self.owners: dict[str, str] = {}
        """The models that the server lists, and whose it says they are."""
        try:
            with translated(url):
                response = self._client.get("models")
                refuse_bad_status(response)
                self.owners = {str(one["id"]): str(one.get("owned_by")) for one in response.json()["data"]}
        except ApplyError:  # not every server has a list
            pass
        self.model = model or next(iter(self.owners), None)

    def with_fields(self, extra: Mapping[str, Any] | None) -> CompletionServer:
        """Return the same server, asked with these `extra` fields over the same connection, so that times compare."""
        found = copy(self)
        found._extra = dict(extra or {})
        return found

    def ask(self, prompt: str, **fields: Any) -> Reply:
        """Send a prompt and read the answer.  A failure is a reply as well."""
        body = self._body(prompt, fields)
        started = time.perf_counter()
        try:
            with translated(self.url):
                read = self._streamed if self._is_streamed else self._whole
                text, finish_reason, usage = read(body)
        except ApplyError as error:
            return Reply(error=error, latency_s=time.perf_counter() - started)
        latency_s = time.perf_counter() - started
        counts = usage_fields({"usage": usage}, latency_s)
        told = {name: counts.get(name) for name in ("n_tokens", "n_drafted")}
        return Reply(text, finish_reason, latency_s=latency_s, **told)

    def steps(self, prompt: str, **fields: Any) -> list[Step]:
        """Send a prompt and return the answer's tokens with their probabilities.

        Raises ApplyError: there is no answer; UnsupportedParameter: it comes without probabilities.
        """
        asked: dict[str, Any] = {"logprobs": N_ALTERNATIVES}
        if self._endpoint == "chat":
            asked = {"logprobs": True, "top_logprobs": N_ALTERNATIVES}
        with translated(self.url):
            choice = self._choice(self._body(prompt, fields | asked))[0]
            if not (found := choice.get("logprobs")):
                raise UnsupportedParameter("the server gives no probabilities of tokens", value="logprobs")
            return list(_chat_steps(found) if self._endpoint == "chat" else _legacy_steps(found))

    def _body(self, prompt: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        messages = [{"role": "user", "content": prompt}]
        said = {"messages": messages} if self._endpoint == "chat" else {"prompt": prompt}
        body = {"model": self.model, **said, **fields, **self._extra}
        return {name: value for name, value in body.items() if value is not None}

    def _choice(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        """Return the first choice of an answer that is not streamed, and the usage."""
        response = self._client.post(PATHS[self._endpoint], json={**body, "stream": False})
        refuse_bad_status(response)
        answer = response.json()
        choice: dict[str, Any] = answer["choices"][0]
        return choice, answer.get("usage")

    def _whole(self, body: Mapping[str, Any]) -> tuple[str, str | None, Any]:
        choice, usage = self._choice(body)
        return _text_of(choice), choice.get("finish_reason"), usage

    def _streamed(self, body: Mapping[str, Any]) -> tuple[str, str | None, Any]:
        texts, finish_reason, usage = [], None, None
        asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
        with self._client.stream("POST", PATHS[self._endpoint], json=asked) as response:
            refuse_bad_status(response)
            for event in httpx2.EventSource(response):
                if event.data == "[DONE]":
                    break
                chunk: Any = event.json()
                if chunk.get("error"):
                    raise ServiceError(f"the stream ended in an error: {chunk['error']}"[:300], value=self.url)
                usage = chunk.get("usage") or usage
                for choice in chunk.get("choices") or ():
                    texts.append(_text_of(choice))
                    finish_reason = choice.get("finish_reason") or finish_reason
        if finish_reason is None:
            raise Unreachable("the stream broke off before the answer's end", value=self.url)
        return "".join(texts), finish_reason, usage


def _text_of(choice: Mapping[str, Any]) -> str:
    """Return all that a choice says, reasoning included.  Raises KeyError, TypeError: it says no text."""
    said = choice.get("message", choice.get("delta"))
    if said is None:
        said = {"content": choice["text"]}
    reasoning = said.get("reasoning_content") or said.get("reasoning") or ""
    return "".join((reasoning, said.get("content") or ""))


def _chat_steps(found: Mapping[str, Any]) -> Iterator[Step]:
    for one in found["content"]:
        others = {_bytes_of(other): math.exp(other["logprob"]) for other in one.get("top_logprobs") or ()}
        yield Step(_bytes_of(one), math.exp(one["logprob"]), others)


def _bytes_of(one: Mapping[str, Any]) -> bytes:
    """Return a token's bytes: as told, as its text may be half a character."""
    return bytes(one["bytes"]) if one.get("bytes") else str(one["token"]).encode()


def _legacy_steps(found: Mapping[str, Any]) -> Iterator[Step]:
    """Yield the tokens as the completions endpoint tells them."""
    tops = found.get("top_logprobs") or repeat({})
    for token, logprob, others in zip(found["tokens"], found["token_logprobs"], tops, strict=False):
        alternatives = {name.encode(): math.exp(value) for name, value in (others or {}).items()}
        yield Step(token.encode(), math.exp(logprob), alternatives)

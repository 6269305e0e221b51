"""A service as a contestant, in one of `arguments.DIALECTS`.

A broken connection, a status above 499 and a refused key all mean that there was no answer: they become `ServiceError`s
(a missing sample).  Other statuses 4xx become `RequestError`s (a refusal).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx2
from pydantic import ValidationError

from apply_eval.datasets import EditRecord
from apply_eval.runners import MISSING_OVER_HTTP, Answer, OwnService, RequestOptions, Runner
from apply_service.clients.http import HttpClient
from apply_service.errors import (
    DeadlineExceeded,
    InvalidField,
    NotReady,
    Overloaded,
    RequestError,
    ServiceError,
    SettingsError,
    TooLarge,
    Truncated,
    Unreachable,
)
from apply_service.remote.messages import UsageIn

NO_SUCH_PLACE = (401, 403, 404, 405)
MAX_MESSAGE = 300


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """URL, dialect, model and key of a service.  The key is not part of a plan."""

    url: str
    dialect: str = "native"
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)


def read_api_key(key: str | None) -> str | None:
    """Return the key of an option: itself, or `env:NAME`, what the environment holds.  Raises InvalidField."""
    if key is None or not key.startswith("env:"):
        return key
    name = key.removeprefix("env:")
    if name not in os.environ:
        raise InvalidField(f"the environment has no {name}", value=name, remedy="set it, or give the key itself")
    return os.environ[name]


def open_server(name: str, server: ServerOptions, options: RequestOptions, *, drafter: str | None = None) -> Runner:
    """The runner `name` for a service.  `drafter`: only for our own dialect.  Raises SettingsError."""
    if server.dialect != "native":
        return OtherService(name, server, options)
    # Streams, so that the time to the first text is known; verdicts, confidence and passes come with the answer.
    events = HttpClient(server.url, api_key=server.api_key, timeout_s=options.timeout_s).stream
    return OwnService(
        name,
        events,
        options=options,
        drafter=drafter,
        model=server.model,
        missing=MISSING_OVER_HTTP,
    )


class OtherService:
    """A service in a dialect that is not ours.  Its answers are not streamed."""

    missing = MISSING_OVER_HTTP

    def __init__(self, name: str, server: ServerOptions, options: RequestOptions) -> None:
        self.name, self._server = name, server
        self._client = open_client(server.url, timeout_s=options.timeout_s, api_key=server.api_key)
        self.close = self._client.close

    def answer(self, record: EditRecord) -> Answer:
        is_chat, model = self._server.dialect == "openai_chat", self._server.model
        if is_chat:
            content = f"<code>{record.before}</code>\n<update>{record.update}</update>"
            messages = [{"role": "user", "content": content}]
            path, body = "chat/completions", {"model": model or "auto", "messages": messages, "temperature": 0}
        else:
            path, body = "code/apply", {"initial_code": record.before, "edit_snippet": record.update}
            body |= {} if model is None else {"model": model}
        started = time.perf_counter()
        with translated(self._server.url):
            response = self._client.post(path, json={**body, "stream": False})
            refuse_bad_status(response)
            answer = response.json()
            latency_s = time.perf_counter() - started
            choice = answer["choices"][0] if is_chat else {}
            if is_chat:
                text = choice["message"]["content"]
            else:
                text = answer["mergedCode"] if "mergedCode" in answer else answer["merged_code"]
            if not isinstance(text, str):
                raise TypeError("the merged file is no text")
        if choice.get("finish_reason") == "length":
            raise Truncated("the service's answer reached its token limit", value=self.name)
        return Answer(text=text, latency_s=latency_s, **usage_fields(answer, latency_s))


def usage_fields(answer: Mapping[str, Any], latency_s: float) -> dict[str, Any]:
    """Fields of `Answer` from OpenAI's `usage`; none if that is missing or malformed.  The speed is over the whole
    latency: from outside, prefill, queue and network can't be told apart."""
    try:
        usage = UsageIn.model_validate(answer.get("usage"))
    except ValidationError:
        return {}
    n_tokens, accepted, rejected = usage.completion_tokens, usage.accepted_tokens, usage.rejected_tokens
    return {
        "n_prompt_tokens": usage.prompt_tokens,
        "n_tokens": n_tokens,
        "tok_s": n_tokens / latency_s if n_tokens and latency_s > 0 else None,
        "n_accepted": accepted,
        "n_drafted": accepted + rejected if accepted is not None and rejected is not None else None,
    }


# -- HTTP --------------------------------------------------------------------------------------------------------------
def open_client(url: str, *, timeout_s: float, api_key: str | None = None) -> httpx2.Client:
    """A client whose paths are relative to the service's `/v1` (added where `url` has no path of its own).  Proxies of
    the environment are not used; redirects are not followed.  Raises SettingsError: that is no http or https URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        message = "that is not the URL of a service"
        raise SettingsError(message, value=url, limit="http://HOST:PORT", remedy="correct the URL")
    base = url.rstrip("/") if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/v1"
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    return httpx2.Client(base_url=f"{base}/", headers=headers, timeout=timeout_s, trust_env=False)


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Turn errors of the transport and of reading an answer into our errors."""
    try:
        yield
    except httpx2.TimeoutException as error:
        raise DeadlineExceeded("the service did not answer in time", value=url, remedy="allow more time") from error
    except httpx2.HTTPError as error:
        message = str(error) or type(error).__name__
        raise Unreachable(f"the service can't be reached: {message}", value=url, remedy="correct the URL") from error
    except (KeyError, IndexError, TypeError, ValueError) as error:
        message = "the answer is not one of this dialect"
        raise Unreachable(message, value=url, remedy="correct --dialect or the URL") from error


def refuse_bad_status(response: httpx2.Response) -> None:
    """Raises the error of the status; nothing at 200."""
    status = response.status_code
    if status == 200:
        return
    response.read()
    try:
        body: Any = response.json()
    except ValueError:
        body = response.text
    # The message in the shapes of error that services use; else the body's beginning.
    found = body.get("error", body.get("message", body.get("detail", body))) if isinstance(body, dict) else body
    text = f"HTTP {status}: {found.get('message', found) if isinstance(found, dict) else found}"[:MAX_MESSAGE]
    if status in NO_SUCH_PLACE:
        raise NotReady(text, value=status, remedy="correct the URL, the key or the model's name")
    if status == 429:
        raise Overloaded(text, value=status, remedy="wait, and give the same command again")
    if status == 413:
        raise TooLarge(text, value=status)
    raise RequestError(text, value=status) if 400 <= status < 500 else ServiceError(text, value=status)

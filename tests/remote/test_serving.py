"""This service over HTTP with a model on another server behind it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest

from apply_service.build import build_runtime, open_service
from apply_service.clients.http import HttpClient
from apply_service.errors import RemoteFailure
from apply_service.settings import Settings
from apply_service.types import FinalEvent, TokenEvent
from tests.doubles import wait_for
from tests.live_server import serving
from tests.remote.scripted_server import Scripted, error, scripted_server, stream
from tests.remote.test_target import MERGED, ORIGINAL, OUTPUT, REQUEST, UPDATE, USAGE, hung


@contextlib.contextmanager
def service_before(answer: Any) -> Iterator[tuple[str, Scripted]]:
    with scripted_server(answer) as script:
        settings = Settings(model="remote:m", remote_url=script.url, remote_retries=0, drain_timeout_s=0)
        runtime = build_runtime(settings)
        with open_service(runtime, settings) as service, serving(service, settings) as (url, _):
            yield url, script
        runtime.load("remote:m").client.close()  # type: ignore[attr-defined]


def test_the_native_stream_carries_the_remote_models_text() -> None:
    with service_before(stream(OUTPUT, usage=USAGE)) as (url, _):
        *tokens, last = HttpClient(url).stream(REQUEST)
    assert "".join(one.text for one in tokens if isinstance(one, TokenEvent)) == MERGED
    assert isinstance(last, FinalEvent)
    assert (last.result.merged_code, last.result.model, last.result.determinism) == (MERGED, "remote:m", None)
    assert "passes" in last.result.stats.unknown


def test_the_openai_dialect_answers_with_what_the_server_counted() -> None:
    content = f"<code>{ORIGINAL}</code><update>{UPDATE}</update>"
    messages = [{"role": "user", "content": content}]
    body = {"model": "auto", "messages": messages, "apply_service": {"strategy": "model"}}
    with service_before(stream(OUTPUT, usage=USAGE)) as (url, _):
        headers = {"Content-Type": "application/json"}
        with urlopen(Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), headers)) as response:
            answer = json.load(response)
    assert answer["choices"][0]["message"]["content"] == MERGED
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (100, 40)
    assert answer["usage"]["completion_tokens_details"]["accepted_prediction_tokens"] == 30


def test_its_failure_is_the_callers_502() -> None:
    with service_before(error(500)) as (url, _), pytest.raises(RemoteFailure, match="answered 500"):
        HttpClient(url).apply(REQUEST)


def test_a_caller_who_goes_away_stops_the_writing_over_there() -> None:
    with service_before(hung(8)) as (url, script):
        events = HttpClient(url).stream(REQUEST)
        assert isinstance(next(events), TokenEvent)
        events.close()
        assert wait_for(lambda: script.n_hung_up == 1)

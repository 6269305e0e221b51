"""Large bodies are parsed beside the event loop: others are answered meanwhile."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

import httpx2
import pytest

from apply_service.api.dialect import PARSED_AT_ONCE
from apply_service.build import open_service
from apply_service.service import Service
from apply_service.settings import Settings
from apply_service.target import Runtime, Target
from tests.live_server import serving

SETTINGS = Settings()
N_BYTES = 15_000_000
EDIT = "<<<<<<< SEARCH\nx = 1\n=======\nx = 2\n>>>>>>> REPLACE\n"
LONG_LINE = "# " + "x" * 100 + "\n"
BODIES = {
    "one long text": (
        "/v1/apply",
        json.dumps(
            {"original": LONG_LINE * (N_BYTES // len(LONG_LINE)) + "x = 1\n", "update": EDIT, "strategy": "exact"}
        ),
        {200},
    ),
    "a million bad fields": (
        "/v1/apply",
        '{"original":"a","update":"b","on_verdict":{' + ",".join(f'"c{i}":"x"' for i in range(N_BYTES // 14)) + "}}",
        {422, 504},
    ),
    "a batch of empty edits": ("/v1/apply/batch", '{"edits":[' + "{}," * (N_BYTES // 3) + "{}]}", {422, 504}),
    "a batch of many edits": (
        "/v1/apply/batch",
        json.dumps({"edits": [{"original": "a", "update": "b", "path": f"{i}"} for i in range(N_BYTES // 50)]}),
        {413, 504},
    ),
}


def no_target(name: str) -> Target:
    raise AssertionError(f"{name} was loaded for nothing")


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
def test_health_is_answered_while_a_large_body_is_read(name: str) -> None:
    path, body, statuses = BODIES[name]
    with (
        open_service(Runtime(load=no_target), SETTINGS) as service,
        serving(service, SETTINGS) as (url, _),
        httpx2.Client(trust_env=False) as http,
    ):
        answers: list[httpx2.Response] = []
        headers = {"content-type": "application/json"}

        def post() -> None:
            answers.append(httpx2.post(f"{url}{path}", content=body.encode(), headers=headers, timeout=60))

        http.get(f"{url}/healthz")
        posting = threading.Thread(target=post)
        posting.start()
        times = []
        while posting.is_alive():
            began = time.monotonic()
            assert http.get(f"{url}/healthz").status_code == 200
            times.append(time.monotonic() - began)
            time.sleep(0.002)
        assert answers[0].status_code in statuses, answers[0].text[:300]
        assert len(times) > 20
        assert max(times) <= 0.05


@pytest.mark.parametrize("n_bytes", [PARSED_AT_ONCE, PARSED_AT_ONCE + 1])
def test_only_a_large_body_is_parsed_elsewhere(n_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Callable[[], object]] = []
    call = Service.call

    async def note(service: Service, work: Callable[[], object]) -> object:
        calls.append(work)
        return await call(service, work)

    monkeypatch.setattr(Service, "call", note)
    with open_service(Runtime(load=no_target), SETTINGS) as service, serving(service, SETTINGS) as (url, _):
        body = json.dumps({"original": "x = 1\n", "update": EDIT, "strategy": "exact"})
        answer = httpx2.post(
            f"{url}/v1/apply", content=body.ljust(n_bytes).encode(), headers={"content-type": "application/json"}
        )
    assert answer.json()["merged_code"] == "x = 2\n"
    assert len(calls) == (n_bytes > PARSED_AT_ONCE)


def test_errors_of_a_large_body_are_told_as_those_of_a_small_one() -> None:
    with open_service(Runtime(load=no_target), SETTINGS) as service, serving(service, SETTINGS) as (url, _):
        answers = [
            httpx2.post(
                f"{url}/v1/apply",
                content='{"original": "a", "updat": "b"}'.ljust(n_bytes).encode(),
                headers={"content-type": "application/json"},
            )
            for n_bytes in (100, 2 * PARSED_AT_ONCE)
        ]
    assert answers[0].status_code == answers[1].status_code == 422
    assert answers[0].json() == answers[1].json()

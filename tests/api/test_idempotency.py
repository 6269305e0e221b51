"""A request that is sent again: one edit, one answer."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from apply_service.api.calls import HttpCall, current_call
from apply_service.api.idempotency import IdempotencyMiddleware
from apply_service.errors import DeadlineExceeded, NeedsMoreContext, Overloaded
from apply_service.settings import Settings
from tests.api.layers import ALICE, BOB, BODY, bearer, layered, write_keys
from tests.doubles import ScriptedRun, make_result, wait_for
from tests.live_server import live_server

KEY = {"Idempotency-Key": "k-1"}


@pytest.mark.parametrize("body", [BODY, BODY | {"stream": True}], ids=["whole", "stream"])
def test_the_same_again_is_answered_from_memory(body: dict[str, Any]) -> None:
    run = ScriptedRun()
    with layered(run) as http:
        first, second = (http.post("/v1/apply", json=body, headers=KEY) for _ in range(2))
        without = http.post("/v1/apply", json=body)
    assert run.n_started == 2
    assert second.content == first.content
    assert second.status_code == first.status_code == 200
    assert second.headers["content-type"] == first.headers["content-type"]
    assert second.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert "idempotent-replayed" not in without.headers
    assert second.headers["x-request-id"] != first.headers["x-request-id"]
    assert len(second.headers.get_list("x-request-id")) == 1


def test_another_request_with_the_key_is_refused() -> None:
    run = ScriptedRun()
    with layered(run) as http:
        http.post("/v1/apply", json=BODY, headers=KEY)
        for path, body in (("/v1/apply", BODY | {"seed": 1}), ("/v1/apply?x=1", BODY)):
            refused = http.post(path, json=body, headers=KEY)
            assert (refused.status_code, refused.json()["error"]["code"]) == (422, "idempotency_conflict")
            assert refused.json()["error"]["value"] == "k-1"
        assert http.post("/v1/apply", json=BODY, headers=KEY).headers["idempotent-replayed"] == "true"
    assert run.n_started == 1


def test_callers_do_not_meet(tmp_path: Path) -> None:
    run = ScriptedRun()
    with layered(run, keys_file=write_keys(tmp_path)) as http:
        for key, body in ((ALICE, BODY), (BOB, BODY | {"seed": 1}), (ALICE, BODY)):
            assert http.post("/v1/apply", json=body, headers=KEY | bearer(key)).status_code == 200
    assert run.n_started == 2


def test_an_error_of_the_request_is_kept_and_one_of_the_moment_is_not() -> None:
    for error, n_runs in ((NeedsMoreContext("no anchor"), 1), (Overloaded("full"), 2), (DeadlineExceeded("late"), 2)):
        for tokens, stream in (((), False), (("x",), True)):
            run = ScriptedRun(tokens=tokens, error=error)
            with layered(run) as http:
                answers = [http.post("/v1/apply", json=BODY | {"stream": stream}, headers=KEY) for _ in range(2)]
            assert run.n_started == n_runs, (error.code, stream)
            assert error.code in answers[1].text


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb", "caf\xe9"])
def test_a_key_that_cannot_be_one(key: str) -> None:
    with layered(ScriptedRun()) as http:
        refused = http.post("/v1/apply", json=BODY, headers={b"Idempotency-Key": key.encode("latin-1")})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "invalid_field")


def test_switched_off_it_is_refused_and_not_ignored() -> None:
    with layered(ScriptedRun(), idempotency_ttl_s=0) as http:
        refused = http.post("/v1/apply", json=BODY, headers=KEY)
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "unsupported_parameter")
        assert http.post("/v1/apply", json=BODY).status_code == 200


def test_memory_is_bounded_and_answers_grow_old() -> None:
    run = ScriptedRun(result=make_result("x" * 10_000))
    with layered(run, idempotency_bytes=30_000) as http:
        for name in ("a", "b", "c", "a"):  # two fit
            http.post("/v1/apply", json=BODY, headers={"Idempotency-Key": name})
    assert run.n_started == 4
    run = ScriptedRun(result=make_result("x" * 10_000))
    with layered(run, idempotency_bytes=5_000) as http:
        for _ in range(2):
            assert http.post("/v1/apply", json=BODY, headers=KEY).status_code == 200
    assert run.n_started == 2
    run = ScriptedRun()
    with layered(run, idempotency_ttl_s=0.05) as http:
        http.post("/v1/apply", json=BODY, headers=KEY)
        assert wait_for(lambda: http.post("/v1/apply", json=BODY, headers=KEY) is not None and run.n_started == 2)


def test_a_body_over_the_limit_is_refused_as_ever() -> None:
    with layered(ScriptedRun(), max_body_bytes=2000) as http:
        refused = http.post("/v1/apply", json={"original": "x" * 3000}, headers=KEY)
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "too_large")


def test_a_twin_in_progress_waits_for_the_first() -> None:
    run = ScriptedRun(gate=threading.Event())
    answers: list[httpx2.Response] = []
    with live_server(run, Settings(drain_timeout_s=0)) as (url, _):

        def ask(body: dict[str, Any]) -> None:
            answers.append(httpx2.post(f"{url}/v1/apply", json=body, headers=KEY, trust_env=False))

        twins = [threading.Thread(target=ask, args=(BODY,)) for _ in range(4)]
        for twin in twins:
            twin.start()
        assert run.started.wait(5)
        ask(BODY | {"seed": 9})
        assert answers.pop().json()["error"]["code"] == "idempotency_conflict"
        assert run.gate is not None
        run.gate.set()
        for twin in twins:
            twin.join()
    assert run.n_started == 1
    assert len({answer.content for answer in answers}) == 1
    assert sorted(answer.headers.get("idempotent-replayed", "") for answer in answers) == ["", "true", "true", "true"]


def test_a_twin_takes_over_where_the_first_goes_away() -> None:
    """The first client breaks off: its answer is not kept, and the one that waited gets one of its own."""

    async def scenario() -> tuple[list[int], list[Message]]:
        n_runs: list[int] = []
        gate = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            n_runs.append(1)
            await Request(scope, receive).body()
            if len(n_runs) == 1:
                await gate.wait()
                return  # gone: nothing was sent
            await Response("second")(scope, receive, send)

        layer = IdempotencyMiddleware(app, Settings(idempotency_bytes=10_000))
        sent: list[Message] = []

        async def ask(messages: list[Message]) -> None:
            current_call.set(HttpCall("x"))

            async def receive() -> Message:
                return {"type": "http.request", "body": b"{}", "more_body": False}

            async def send(message: Message) -> None:
                messages.append(message)

            scope = {
                "type": "http",
                "method": "POST",
                "path": "/",
                "query_string": b"",
                "headers": [(b"idempotency-key", b"k")],
            }
            await layer(scope, receive, send)

        first = asyncio.create_task(ask([]))
        await asyncio.sleep(0)
        second = asyncio.create_task(ask(sent))
        await asyncio.sleep(0.01)
        assert not sent
        gate.set()
        await asyncio.gather(first, second)
        return n_runs, sent

    n_runs, sent = asyncio.run(scenario())
    assert len(n_runs) == 2
    assert sent[-1]["body"] == b"second"

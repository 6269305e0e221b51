"""The native dialect over a scripted pipeline, without a socket."""

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from apply_service.api.answer import NativeAnswer
from apply_service.api.app import create_app
from apply_service.api.native import NativeReply
from apply_service.clients.http import decode_answer
from apply_service.errors import NeedsMoreContext, StaleBase, UnknownModel
from apply_service.service import Run, Service
from apply_service.settings import Settings
from apply_service.types import ApplyResult, Hunk
from tests.doubles import ScriptedRun, make_result
from tests.live_server import live_server

BODY = {"original": "old\n", "update": "new\n"}


@contextmanager
def client(run: Run, **settings: Any) -> Iterator[TestClient]:
    chosen = Settings(**settings)
    with Service(run, queue_limit=chosen.queue_limit, max_timeout_s=chosen.max_timeout_s) as service:
        yield TestClient(create_app(service, chosen), raise_server_exceptions=False)
        assert service.wait_until_idle(5)
        service.check_integrity()


def sse_events(text: str) -> list[tuple[str, Any]]:
    """A stream's events, parsed as the standard says."""
    events = []
    for block in text.removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events


def test_the_answer_is_complete() -> None:
    run = ScriptedRun()
    with client(run) as http:
        response = http.post("/v1/apply", json=BODY)
    assert response.status_code == 200
    assert decode_answer(response.json()) == run.result
    assert set(response.json()) == set(NativeAnswer.model_fields)
    assert run.requests[0].original == "old\n"


def test_bytes_in_bytes_out() -> None:
    body = {"original_b64": base64.b64encode("é".encode("latin-1")).decode(), "encoding": "latin-1", "update": "x"}
    with client(ScriptedRun(result=make_result("éé", encoding="latin-1"))) as http:
        answer = http.post("/v1/apply", json=body).json()
    assert base64.b64decode(answer["merged_b64"]) == b"\xe9\xe9"


def test_a_stream_is_token_events_then_the_final_answer() -> None:
    run = ScriptedRun()
    with client(run) as http:
        response = http.post("/v1/apply", json=BODY | {"stream": True})
        plain = http.post("/v1/apply", json=BODY).json()
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-store"
    assert sse_events(response.text) == [
        ("token", {"text": "ne", "passes": []}),
        ("token", {"text": "w\n", "passes": []}),
        ("hunk", {"hunk": plain["hunks"][0], "edits": plain["edits"]}),
        ("verdict", plain["verdicts"][0]),
        ("verdict", plain["verdicts"][1]),
        ("final", plain),
    ]


def test_an_error_before_the_first_event_has_a_status() -> None:
    run = ScriptedRun(tokens=(), error=StaleBase("stale", value="a", limit="b", remedy="read again"))
    for stream in (False, True):
        with client(run) as http:
            response = http.post("/v1/apply", json=BODY | {"stream": stream})
        assert response.status_code == 409
        assert response.json()["error"] == {
            "code": "stale_base",
            "message": "stale",
            "value": "a",
            "limit": "b",
            "remedy": "read again",
        }


def test_an_error_after_the_first_event_is_the_streams_last_event() -> None:
    run = ScriptedRun(tokens=("x",), error=NeedsMoreContext("no anchor", value="def f"))
    with client(run) as http:
        response = http.post("/v1/apply", json=BODY | {"stream": True})
    assert response.status_code == 200
    assert [name for name, _ in sse_events(response.text)] == ["token", "error"]
    assert sse_events(response.text)[-1][1]["error"]["code"] == "needs_more_context"


def test_a_crash_is_one_answer_without_its_message() -> None:
    for stream in (False, True):
        with client(ScriptedRun(tokens=(), error=RuntimeError("secret"))) as http:
            response = http.post("/v1/apply", json=BODY | {"stream": stream})
        assert response.status_code == 500
        assert response.json()["error"]["code"] == "engine_failure"
        assert "secret" not in response.text


def test_a_deadline() -> None:
    with client(ScriptedRun(tokens=(), gate=threading.Event())) as http:
        response = http.post("/v1/apply", json=BODY | {"timeout_s": 0.05})
        too_long = http.post("/v1/apply", json=BODY | {"timeout_s": 601})
    assert (response.status_code, response.json()["error"]["code"]) == (504, "deadline_exceeded")
    assert (too_long.status_code, too_long.json()["error"]["code"]) == (422, "invalid_field")


def test_overload_is_429_with_retry_after() -> None:
    gate = threading.Event()
    run = ScriptedRun(gate=gate)
    with client(run, queue_limit=1) as http:
        threads = [threading.Thread(target=http.post, args=("/v1/apply",), kwargs={"json": BODY}) for _ in range(2)]
        threads[0].start()
        assert run.started.wait(5)
        threads[1].start()
        while http.get("/readyz").status_code == 200:
            pass
        response = http.post("/v1/apply", json=BODY)
        gate.set()
        for thread in threads:
            thread.join()
    assert (response.status_code, response.json()["error"]["code"]) == (429, "overloaded")
    assert response.headers["retry-after"].isdigit()


@pytest.mark.parametrize(
    ("body", "status", "code", "value"),
    [
        ({"original": "", "bla": 1}, 422, "unknown_field", "bla"),
        ({"original": "", "seed": -1}, 422, "invalid_field", -1),
        ({"update": "x"}, 422, "invalid_field", "original"),
        ({"original_b64": base64.b64encode(b"\xff").decode()}, 422, "bad_encoding", None),
    ],
)
def test_bad_requests_never_reach_the_pipeline(body: dict[str, Any], status: int, code: str, value: object) -> None:
    run = ScriptedRun()
    with client(run) as http:
        response = http.post("/v1/apply", json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert set(response.json()["error"]) == {"code", "message", "value", "limit", "remedy"}
    if value is not None:
        assert response.json()["error"]["value"] == value
    assert run.n_started == 0


def test_body_and_line_limits() -> None:
    with client(ScriptedRun(), max_body_bytes=2000, max_lines=50) as http:
        assert http.post("/v1/apply", json={"original": "\n" * 49, "update": "\n" * 49}).status_code == 200
        for body, limit in (
            ({"original": "x" * 2000}, 2000),
            ({"original": "\n" * 50}, 50),
            ({"original": "", "update": "\n" * 50}, 50),
        ):
            response = http.post("/v1/apply", json=body)
            assert (response.status_code, response.json()["error"]["code"]) == (413, "too_large")
            assert response.json()["error"]["limit"] == limit
            assert response.json()["error"]["value"] > limit


def test_only_json_is_taken() -> None:
    with client(ScriptedRun()) as http:
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            response = http.post("/v1/apply", content=json.dumps(BODY), headers={"content-type": kind})
            assert (response.status_code, response.json()["error"]["code"]) == (415, "unsupported_media_type")
        for kind in ("application/json; charset=utf-8", "Application/JSON", "application/vnd.apply+json"):
            assert http.post("/v1/apply", content=json.dumps(BODY), headers={"content-type": kind}).status_code == 200


def test_wrong_path_and_wrong_method() -> None:
    with client(ScriptedRun()) as http:
        missing, wrong = http.get("/v2/apply"), http.get("/v1/apply")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")
    assert missing.json()["error"]["value"] == "/v2/apply"
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")
    assert wrong.headers["allow"] == "POST"


def test_unknown_model_is_404_with_a_code_of_its_own() -> None:
    with client(ScriptedRun(tokens=(), error=UnknownModel("no such model", value="m"))) as http:
        response = http.post("/v1/apply", json=BODY | {"model": "m"})
    assert (response.status_code, response.json()["error"]["code"]) == (404, "unknown_model")


def test_health_and_readiness(monkeypatch: pytest.MonkeyPatch) -> None:
    with Service(ScriptedRun()) as service:
        http = TestClient(create_app(service, Settings()))
        assert http.get("/healthz").json() == {"status": "ok"}
        assert http.get("/readyz").json() == {
            "status": "ready",
            "model": "embedded",
            "models": ["embedded"],
            "n_active": 0,
            "queue_length": 0,
            "queue_limit": 64,
        }
        with monkeypatch.context() as patched:
            patched.setattr(Service, "has_workers", False)
            response = http.get("/readyz")
            assert (response.status_code, response.json()["error"]["code"]) == (503, "not_ready")
            assert "can't start the process" in response.json()["error"]["message"]
        assert http.get("/readyz").status_code == 200
        service.close()
        for path in ("/healthz", "/readyz"):
            response = http.get(path)
            assert (response.status_code, response.json()["error"]["code"]) == (503, "not_ready")
        refused = http.post("/v1/apply", json=BODY)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "not_ready")


@pytest.mark.parametrize("stream", [False, True])
def test_a_large_answer_is_written_beside_the_event_loop(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug: tens of thousands of hunks held up everybody for seconds."""
    threads: list[bool] = []
    written = NativeReply.whole

    def whole(self: NativeReply, result: ApplyResult) -> str:
        threads.append(bool(asyncio._get_running_loop()))
        return written(self, result)

    monkeypatch.setattr(NativeReply, "whole", whole)
    hunks = tuple(Hunk(i, i + 1, i, i + 1, 0, 0, None) for i in range(2000))
    for result in (make_result(), make_result(hunks=hunks), make_result("x\n" * 300_000)):
        with client(ScriptedRun(result=result)) as http:
            response = http.post("/v1/apply", json=BODY | {"stream": stream})
        assert response.status_code == 200
        assert json.dumps(result.merged_code)[:-1] in response.text
    assert threads == [True, False, False]


def test_probes_may_ask_for_the_head_alone() -> None:
    """The bug: 405, which some load balancers take for a dead server."""
    with live_server(ScriptedRun()) as (url, service):
        for path in ("/healthz", "/readyz"):
            response = httpx2.head(url + path)
            assert (response.status_code, response.content) == (200, b"")
        service.close()
        assert httpx2.head(url + "/readyz").status_code == 503


def test_openapi_documents_every_status_and_field() -> None:
    with client(ScriptedRun()) as http:
        schema = http.get("/openapi.json").json()
        page = http.get("/docs")
    operation = schema["paths"]["/v1/apply"]["post"]
    assert {"200", "404", "409", "413", "415", "422", "429", "499", "500", "503", "504"} <= set(operation["responses"])
    fields = operation["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert {"original", "original_b64", "update", "base_sha256", "stream"} <= set(fields)
    assert all(field.get("description") for field in fields.values())
    assert page.status_code == 200
    assert "openapi.json" in page.text


def test_a_failed_call_is_mended() -> None:
    original = "def load(path):\n    with open(path) as file:\n        return file.read()\n"
    old = "    with open(name) as file:\n        return file.read()"
    body = {"original": original, "update": json.dumps({"old_str": old, "new_str": old.replace("read", "readlines")})}
    with client(ScriptedRun()) as http:
        answer = http.post("/v1/repair", json=body)
        mended = json.loads(answer.json()["update"])
        assert answer.json()["mended"] == ["edit 1"]
        assert original.replace(mended["old_str"], mended["new_str"]) == original.replace("read()", "readlines()")
        error = http.post("/v1/repair", json=body | {"update": json.dumps({"old_str": "zzzz(1)", "new_str": "x"})})
    assert error.status_code == 422
    assert error.json()["error"]["failures"][0]["part"] == "edit 1"


def test_a_reading_may_be_named_by_a_number() -> None:
    run = ScriptedRun()
    with client(run) as http:
        for reading in (2, "2"):
            assert http.post("/v1/apply", json=BODY | {"reading": reading}).status_code == 200
        assert http.post("/v1/apply", json=BODY | {"reading": True}).status_code == 422
    assert [request.reading for request in run.requests] == ["2", "2"]

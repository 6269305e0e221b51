"""The outermost layer: ids, the log line, and an answer whatever happens further in."""

import asyncio
import json
import logging
import re

import pytest
from starlette.responses import Response
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from apply_service.api.app import shape_at
from apply_service.api.calls import CallMiddleware, JsonFormatter, current_call, error_response
from apply_service.api.errors import NATIVE
from apply_service.api.limits import LimitMiddleware
from apply_service.errors import ApplyError, StaleBase
from apply_service.settings import Settings
from tests.api.layers import BODY, layered
from tests.doubles import ScriptedRun

SECRET = "def secret_of_the_caller"


def around(app: object) -> TestClient:
    return TestClient(CallMiddleware(app, shape_at=shape_at), raise_server_exceptions=True)  # type: ignore[arg-type]


def test_a_request_id_comes_back_or_is_made() -> None:
    with layered(ScriptedRun()) as http:
        given = http.get("/healthz", headers={"X-Request-Id": "trace-1:2/3"})
        made = [
            http.get("/healthz", headers=headers)
            for headers in ({}, {"X-Request-Id": "a b"}, {"X-Request-Id": "x" * 129})
        ]
        wrong = http.get("/nothing")
    assert given.headers["x-request-id"] == "trace-1:2/3"
    ids = [answer.headers["x-request-id"] for answer in [*made, wrong]]
    assert all(re.fullmatch("[0-9a-f]{32}", text) for text in ids)
    assert len(set(ids)) == 4


@pytest.mark.parametrize("sent", [b"a\n", b"a\r\nSet-Cookie: x=1", b"\x1b[31m", b"a\x00", "\u0430".encode(), b"\xe9"])
def test_an_id_that_would_forge_a_header_or_a_log_line_is_dropped(sent: bytes) -> None:
    with layered(ScriptedRun()) as http:
        answer = http.get("/healthz", headers={b"X-Request-Id": sent})
    assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])
    assert "set-cookie" not in answer.headers


def test_streams_and_errors_carry_the_id_too() -> None:
    headers = {"X-Request-Id": "mine"}
    with layered(ScriptedRun()) as http:
        stream = http.post("/v1/apply", json=BODY | {"stream": True}, headers=headers)
        refused = http.post("/v1/apply", json={}, headers=headers)
    assert (stream.headers["x-request-id"], refused.headers["x-request-id"]) == ("mine", "mine")


def test_one_line_a_request_without_code(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "apply_service")
    body = {"original": SECRET, "update": SECRET, "instruction": SECRET}
    with layered(ScriptedRun()) as http:
        http.post("/v1/apply", json=body, headers={"X-Request-Id": "r1"})
        http.post("/v1/apply", json=body | {"bla": SECRET})
    fields = [record.fields for record in caplog.records if record.name == "apply_service.access"]  # type: ignore[attr-defined]
    assert [line["status"] for line in fields] == [200, 422]
    assert fields[0] | {"ms": 0, "client": "", "edits": []} == {
        "method": "POST",
        "path": "/v1/apply",
        "status": 200,
        "ms": 0,
        "bytes_out": fields[0]["bytes_out"],
        "caller": "anonymous",
        "client": "",
        "edits": [],
    }
    assert fields[0]["bytes_out"] > 100
    assert fields[0]["edits"][0] == {
        "strategy": "model",
        "format": "lazy_snippet",
        "language": "python",
        "model": "embedded",
        "prompt_tokens": 20,
        "completion_tokens": 6,
        "passes": 2,
        "rejections": 1,
        "findings": ["syntax"],
    }
    assert fields[1]["errors"] == ["unknown_field"]
    assert SECRET not in json.dumps(fields)
    assert SECRET not in caplog.text


def test_an_error_of_a_layer_has_the_shape_of_its_path() -> None:
    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        raise StaleBase("stale", remedy="read it again")

    http = around(refuse)
    assert http.post("/v1/apply").json()["error"]["code"] == "stale_base"
    flat = http.post("/v1/code/apply")
    assert (flat.status_code, flat.json()["code"]) == (409, "stale_base")


def test_a_crash_is_answered_and_its_message_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def crash(scope: Scope, receive: Receive, send: Send) -> None:
        raise ZeroDivisionError(SECRET)

    answer = around(crash).get("/x")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "engine_failure")
    assert answer.headers["x-request-id"]
    assert "ZeroDivisionError" in caplog.text
    assert SECRET not in caplog.text + answer.text


def test_a_crash_within_an_answer_leaves_it_unfinished() -> None:
    sent: list[object] = []

    async def crash(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ZeroDivisionError(SECRET)

    async def receive() -> dict[str, object]:
        return {"type": "http.disconnect"}

    async def send(message: object) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    asyncio.run(CallMiddleware(crash)(scope, receive, send))  # type: ignore[arg-type]
    assert len(sent) == 1


def test_every_request_has_a_call_of_its_own() -> None:
    seen = []

    async def look(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(current_call.get())
        await error_response(ApplyError("x"), NATIVE)(scope, receive, send)

    http = around(look)
    http.get("/")
    http.get("/")
    assert seen[0] is not None
    assert seen[0] is not seen[1]
    assert current_call.get() is None


def test_what_is_no_http_passes() -> None:
    seen = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    layers = CallMiddleware(LimitMiddleware(app, settings=Settings()))
    asyncio.run(layers({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["lifespan"]


def test_the_engines_own_log_lines_carry_the_id(caplog: pytest.LogCaptureFixture) -> None:
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(JsonFormatter().format(record))

    keeper = Keep()
    logging.getLogger("apply_service").addHandler(keeper)
    try:
        with layered(ScriptedRun(tokens=(), error=ZeroDivisionError(SECRET))) as http:
            http.post("/v1/apply", json=BODY, headers={"X-Request-Id": "crash-7"})
    finally:
        logging.getLogger("apply_service").removeHandler(keeper)
    crashes = [json.loads(line) for line in lines if "engine crashed" in line]
    assert [line["request_id"] for line in crashes] == ["crash-7"]
    assert SECRET not in "".join(lines)


@pytest.mark.parametrize(
    ("path", "status", "level"),
    [
        ("/v1/apply", 200, "INFO"),
        ("/healthz", 200, "DEBUG"),
        ("/readyz", 503, "DEBUG"),
        ("/v1/apply", 504, "INFO"),
        ("/v1/apply", 500, "ERROR"),
        ("/metrics", 500, "ERROR"),
    ],
)
def test_levels_of_the_log_line(path: str, status: int, level: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "apply_service.access")

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(status_code=status)(scope, receive, send)

    around(answer).get(path)
    assert [record.levelname for record in caplog.records if record.name == "apply_service.access"] == [level]

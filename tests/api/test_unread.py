"""A refusal before the body was read: little more of it is read, and the client sees the answer."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from apply_service.api import limits as unread
from apply_service.api.limits import KEPT_BYTES, LINGER_BYTES, UnreadBodies
from apply_service.clients.http import HttpClient
from apply_service.errors import TooLarge, Unauthorized
from apply_service.settings import Settings
from apply_service.types import ApplyRequest
from tests.api.layers import ALICE, BODY, write_keys
from tests.doubles import ScriptedRun
from tests.live_server import live_server

HUGE = 300_000_000
JSON = {"Content-Type": "application/json"}
KEY = {"Authorization": f"Bearer {ALICE}"}
SLACK = 512 * 1024
"""What the server's own buffers hold when it stops."""


@pytest.fixture
def n_received(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many bytes servers have read from their sockets."""
    sizes: list[int] = []
    receive = H11Protocol.data_received

    def count(protocol: H11Protocol, data: bytes) -> None:
        sizes.append(len(data))
        receive(protocol, data)

    monkeypatch.setattr(H11Protocol, "data_received", count)
    return lambda: sum(sizes)


@contextlib.contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        yield connection


def head(method: str, path: str, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", *(f"{n}: {v}" for n, v in ({"Host": "localhost"} | headers).items())]
    return "\r\n".join([*lines, "", ""]).encode()


def pour(connection: socket.socket, start: bytes, block: bytes, n_blocks: int) -> tuple[int, bytes]:
    """Send without end, as far as the server lets us, and then read: how many bytes went, and the answer."""
    n_sent, answer = 0, b""
    connection.setblocking(False)
    rest = start
    with contextlib.suppress(ConnectionError):
        until = time.monotonic() + 20
        while n_blocks and time.monotonic() < until:
            readable, writable, _ = select.select([connection], [connection], [], 1)
            if readable:
                if not (more := connection.recv(65536)):
                    break
                answer += more
            if writable:
                n = connection.send(rest)
                n_sent, rest = n_sent + n, rest[n:]
                if not rest:
                    n_blocks, rest = n_blocks - 1, block
    return n_sent, answer


REFUSALS: dict[int, tuple[str, str, dict[str, str]]] = {
    401: ("POST", "/v1/apply", JSON | {"Authorization": "Bearer wrong-key-0123456789-0123456789"}),
    404: ("POST", "/v1/nothing", JSON | KEY),
    405: ("PUT", "/v1/apply", JSON | KEY),
    413: ("POST", "/v1/apply", JSON | KEY),
    415: ("POST", "/v1/apply", {"Content-Type": "text/plain"} | KEY),
    429: ("POST", "/v1/apply", JSON | KEY),
    200: ("GET", "/docs", {}),
}


CASES = [(status, framing) for status in REFUSALS for framing in ("a length", "chunks")]


@pytest.mark.parametrize(("status", "framing"), [*CASES, (401, "chunks of one byte")])
def test_after_a_refusal_little_more_is_read(
    status: int, framing: str, tmp_path: Path, n_received: Callable[[], int]
) -> None:
    method, path, headers = REFUSALS[status]
    rate = "rate_limit = 1\n" if status == 429 else ""
    settings = Settings(keys_file=write_keys(tmp_path, more=rate), max_body_bytes=300_000, drain_timeout_s=0)
    with live_server(ScriptedRun(), settings) as (url, _):
        if status == 429:
            client = http.client.HTTPConnection(urlsplit(url).netloc)
            client.request("POST", "/v1/apply", json.dumps(BODY), JSON | KEY)
            assert client.getresponse().status == 200
            client.close()
        block = b" " * 65536
        if framing == "a length":
            start = head(method, path, headers | {"Content-Length": str(HUGE)})
        else:
            start = head(method, path, headers | {"Transfer-Encoding": "chunked"})
            block = b"10000\r\n" + block + b"\r\n" if framing == "chunks" else b"1\r\n \r\n" * 10_000
        answer = b""
        for _ in range(5):  # a client that sends so much may lose the answer to the reset that follows it
            before = n_received()
            with connected(url) as connection:
                n_sent, answer = pour(connection, start, block, HUGE // len(block))
            if answer:
                break
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        assert b"connection: close" in answer.partition(b"\r\n\r\n")[0].lower()
        # beyond its limit an oversized body is dropped for a while, so that honest clients see the answer
        body = LINGER_BYTES + (4 * 300_000 if status == 413 else 0)
        wire = 7 if framing == "chunks of one byte" else 1
        assert n_received() - before <= body * wire + SLACK
        assert n_sent < HUGE / 2


@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost:3000"])
def test_after_a_foreign_page_is_refused_too(origin: str, n_received: Callable[[], int]) -> None:
    with live_server(ScriptedRun()) as (url, _), connected(url) as connection:
        start = head("POST", "/v1/apply", JSON | {"Origin": origin, "Content-Length": str(HUGE)})
        _, answer = pour(connection, start, b" " * 65536, HUGE // 65536)
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert n_received() <= LINGER_BYTES + SLACK


def test_after_a_preflight_too(n_received: Callable[[], int]) -> None:
    settings = Settings(cors_origins=("https://good.example",), drain_timeout_s=0)
    asked = {"Origin": "https://good.example", "Access-Control-Request-Method": "POST", "Content-Length": str(HUGE)}
    with live_server(ScriptedRun(), settings) as (url, _), connected(url) as connection:
        _, answer = pour(connection, head("OPTIONS", "/v1/apply", asked), b" " * 65536, HUGE // 65536)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert n_received() <= LINGER_BYTES + SLACK


@pytest.mark.parametrize("n_bytes", [KEPT_BYTES + 1, LINGER_BYTES - 1])
def test_a_client_that_sends_all_before_it_reads_sees_the_answer(n_bytes: int, tmp_path: Path) -> None:
    settings = Settings(keys_file=write_keys(tmp_path), drain_timeout_s=0)
    with live_server(ScriptedRun(), settings) as (url, _), connected(url) as connection:
        connection.sendall(head("POST", "/v1/apply", JSON | {"Content-Length": str(n_bytes)}))
        for _ in range(0, n_bytes, 16384):
            connection.sendall(b" " * min(16384, n_bytes))
            n_bytes -= 16384
            time.sleep(0.001)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert (answer.status, json.loads(answer.read())["error"]["code"]) == (401, "unauthorized")


@pytest.mark.parametrize(
    ("limit", "code"), [(16 * 2**20, Unauthorized), (1024 * 1024, TooLarge)], ids=["no key", "too large"]
)
def test_our_client_sees_the_answer_to_any_body(limit: int, code: type[Exception], tmp_path: Path) -> None:
    settings = Settings(keys_file=write_keys(tmp_path), max_body_bytes=limit, drain_timeout_s=0)
    key = None if code is Unauthorized else ALICE
    with live_server(ScriptedRun(), settings) as (url, _), pytest.raises(code):
        HttpClient(url, api_key=key).apply(ApplyRequest("x\n" * 10_000_000, "y\n"))


def test_after_a_small_body_the_connection_stays(tmp_path: Path) -> None:
    settings = Settings(keys_file=write_keys(tmp_path), drain_timeout_s=0)
    with live_server(ScriptedRun(), settings) as (url, _):
        client = http.client.HTTPConnection(urlsplit(url).netloc)
        for _ in range(3):
            client.request("POST", "/v1/apply", b" " * 60_000, JSON)
            answer = client.getresponse()
            assert answer.status == 401
            answer.read()
            assert answer.headers["connection"] is None
            used = client.sock
            client.request("POST", "/v1/apply", json.dumps(BODY), JSON | KEY)
            answer = client.getresponse()
            assert answer.status == 200
            answer.read()
            assert client.sock is used
        client.close()


def test_a_client_that_stops_sending_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "LINGER_S", 0.1)
    settings = Settings(keys_file=write_keys(tmp_path), drain_timeout_s=0)
    with live_server(ScriptedRun(), settings) as (url, _), connected(url) as connection:
        connection.sendall(head("POST", "/v1/apply", JSON | {"Content-Length": str(HUGE)}))
        answer = b""
        while more := connection.recv(65536):
            answer += more
        assert answer.startswith(b"HTTP/1.1 401 ")


def test_who_waits_for_leave_to_send_is_refused_unasked(tmp_path: Path) -> None:
    settings = Settings(keys_file=write_keys(tmp_path), drain_timeout_s=0)
    asked = JSON | {"Content-Length": str(HUGE), "Expect": "100-continue"}
    with live_server(ScriptedRun(), settings) as (url, _), connected(url) as connection:
        connection.sendall(head("POST", "/v1/apply", asked))
        assert connection.recv(65536).startswith(b"HTTP/1.1 401 ")


def test_a_lingering_connection_holds_no_place(tmp_path: Path) -> None:
    settings = Settings(in_flight_limit=1, drain_timeout_s=0)
    with live_server(ScriptedRun(), settings) as (url, _), connected(url) as connection:
        connection.sendall(head("POST", "/v1/apply", {"Content-Length": str(HUGE)}))
        assert connection.recv(65536).startswith(b"HTTP/1.1 415 ")
        assert HttpClient(url).apply(ApplyRequest("old\n", "new\n")).merged_code


# -- without a socket --------------------------------------------------------------------------------------------------
def run(app: Any, headers: dict[str, str], bodies: list[bytes]) -> tuple[list[Message], int]:
    """What an application behind the layer sends, and how many messages of the body are left unread."""
    sent: list[Message] = []
    scope = {"type": "http", "headers": [(n.lower().encode(), v.encode()) for n, v in headers.items()]}

    async def receive() -> Message:
        return {"type": "http.request", "body": bodies.pop(0), "more_body": bool(bodies)}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(UnreadBodies(app)(scope, receive, send))
    return sent, len(bodies)


async def answers_at_once(_: Scope, __: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 401, "headers": []})
    await send({"type": "http.response.body", "body": b"no"})


async def reads_first(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive())["more_body"]:
        pass
    await answers_at_once(scope, receive, send)


@pytest.mark.parametrize("headers", [{}, {"Content-Length": "0"}, {"Content-Length": str(KEPT_BYTES)}])
def test_without_a_large_body_nothing_is_read_and_nothing_is_closed(headers: dict[str, str]) -> None:
    sent, n_left = run(answers_at_once, headers, [b"abc"])
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert (list(sent[0]["headers"]), n_left) == ([], 1)


def test_a_body_that_was_read_closes_nothing() -> None:
    for headers in ({"Content-Length": "600000"}, {"Transfer-Encoding": "chunked"}):
        sent, n_left = run(reads_first, headers, [b" " * 200_000] * 3)
        assert (list(sent[0]["headers"]), n_left, len(sent)) == ([], 0, 2)


def test_the_answer_is_out_before_the_rest_is_read() -> None:
    sent, n_left = run(answers_at_once, {"Content-Length": "99999999"}, [b" " * 65536] * 1000)
    assert [message.get("more_body") for message in sent] == [None, True, False]
    assert b"".join(message.get("body", b"") for message in sent) == b"no"
    assert (b"connection", b"close") in sent[0]["headers"]
    assert 1000 - n_left == LINGER_BYTES // 65536

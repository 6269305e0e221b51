"""Slow clients over real sockets: each loses its place, none holds up another."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from apply_service.api.http_protocol import ImpatientProtocol, protocol_class
from apply_service.settings import Settings
from tests.doubles import ScriptedRun, make_result, wait_for
from tests.live_server import live_server, stoppable_server

BODY = json.dumps({"original": "old\n", "update": "new\n"}).encode()
HEAD = b"POST /v1/apply HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
SHORT = Settings(drain_timeout_s=0, body_timeout_s=0.2, write_timeout_s=0.2)


@contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=10) as connection:
        yield connection


def read_all(connection: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    chunks = []
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            chunks.append(chunk)
    return b"".join(chunks)


def test_a_body_that_does_not_arrive() -> None:
    run = ScriptedRun()
    with live_server(run, SHORT) as (url, _), connected(url) as connection:
        connection.sendall(HEAD % len(BODY) + BODY[:5])
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"request_timeout"' in answer
    assert b"\r\nconnection: close\r\n" in answer.lower()
    assert run.n_started == 0


def test_a_body_that_drips() -> None:
    with live_server(ScriptedRun(), SHORT) as (url, _), connected(url) as connection:
        connection.sendall(HEAD % 1000)
        n_sent = 0
        with contextlib.suppress(ConnectionError):
            while n_sent < 1000:
                n_sent += connection.send(b" ")
                time.sleep(0.01)
    assert n_sent < 900  # closed long before the last byte


@pytest.mark.parametrize("start", [b"", b"POST /v1/ap", b"POST /v1/apply HTTP/1.1\r\nHost: localhost\r\nX-A: b"])
def test_headers_that_do_not_arrive(start: bytes) -> None:
    with live_server(ScriptedRun(), SHORT) as (url, _), connected(url) as connection:
        connection.sendall(start)
        assert read_all(connection) == b""


def test_the_time_for_headers_counts_anew_for_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[asyncio.TimerHandle] = []
    watch = ImpatientProtocol._watch_headers

    def recorded(self: ImpatientProtocol) -> None:
        watch(self)
        if self._header_timer is not None and self._header_timer not in timers:
            timers.append(self._header_timer)

    monkeypatch.setattr(ImpatientProtocol, "_watch_headers", recorded)
    head = HEAD % len(BODY)
    with live_server(ScriptedRun()) as (url, _), connected(url) as connection:
        for number in (1, 2, 3):
            connection.sendall(head[:10])
            assert wait_for(lambda number=number: len(timers) == number)
            connection.sendall(head[10:] + BODY)
            answer = HTTPResponse(connection)
            answer.begin()
            assert answer.status == 200
            assert answer.read()
            assert timers[-1].cancelled()
    assert timers[0].when() < timers[1].when() < timers[2].when()


def test_an_answer_that_is_not_read_is_cut_off() -> None:
    big = make_result("x" * 30_000_000)
    run = ScriptedRun(result=big)
    with stoppable_server(run, SHORT) as (url, _, server), connected(url) as connection:
        connection.sendall(HEAD % len(BODY) + BODY)
        assert run.closed.wait(60)
        assert wait_for(lambda: not server.server_state.connections, 60)
        assert 0 < len(read_all(connection)) < 30_000_000


class Unread(asyncio.Transport):
    """A connection whose client takes what the test says."""

    n_unread = 100
    is_cut_off = False

    def get_write_buffer_size(self) -> int:
        return self.n_unread

    def abort(self) -> None:
        self.is_cut_off = True

    def pause_reading(self) -> None:
        """Nothing comes in."""


def test_an_answer_that_is_read_slowly_goes_on_until_nothing_is_read() -> None:
    due: list[Callable[[], object]] = []

    class Loop(asyncio.SelectorEventLoop):
        def call_later(self, delay: float, callback: Any, *arguments: Any, **_: Any) -> Any:
            assert delay == 0.5
            due.append(lambda: callback(*arguments))

    times = protocol_class(header_timeout_s=0.5, write_timeout_s=0.5)
    with contextlib.closing(Loop()) as loop:
        protocol = times(Config(app=lambda: None), ServerState(), {}, loop)  # type: ignore[arg-type]
        transport = Unread()
        protocol.connection_made(transport)
        due.clear()  # of the headers
        protocol.pause_writing()
        for transport.n_unread in (90, 80, 10):
            due.pop()()
            assert not transport.is_cut_off
        due.pop()()
        assert transport.is_cut_off
        assert not due


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"POST /v1/apply HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"POST /v1/apply HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"y" * 200_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(20_000)) + b"\r\n",
        b"GET / HTTP/1.1\r\nNo colon\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["tls", "short", "length", "long header", "many headers", "no colon", "bytes"],
)
def test_what_is_no_http_is_refused(garbage: bytes) -> None:
    with live_server(ScriptedRun(), SHORT) as (url, _), connected(url) as connection:
        try:
            connection.sendall(garbage)
        except OSError:
            return  # closed while sending: nothing more can be said to it
        answer = read_all(connection)
    if answer:  # a client that still sends when the connection closes may see a reset
        assert answer.startswith(b"HTTP/1.1 400 ")


def test_a_broken_chunk_in_the_body() -> None:
    run = ScriptedRun()
    with live_server(run, SHORT) as (url, _), connected(url) as connection:
        connection.sendall(
            b"POST /v1/apply HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"ori\r\nZZ\r\n'
        )
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert run.n_started == 0

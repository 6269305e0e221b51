"""Slow clients over real sockets: each loses its place, none holds up another."""

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from apply_service.settings import Settings
from tests.doubles import ScriptedRun
from tests.live_server import live_server

BODY = json.dumps({"original": "old\n", "update": "new\n"}).encode()
HEAD = b"POST /v1/apply HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
SHORT = Settings(drain_timeout_s=0, body_timeout_s=0.2)


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

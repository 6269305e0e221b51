"""The client against real sockets: a true server, and servers that misbehave."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection

import pytest

from apply_service.clients.http import HttpClient
from apply_service.errors import (
    DeadlineExceeded,
    EngineFailure,
    InvalidField,
    NeedsMoreContext,
    SettingsError,
    TooLarge,
    Unreachable,
)
from apply_service.settings import Settings
from apply_service.types import ApplyRequest, FinalEvent, TokenEvent
from tests.doubles import ScriptedRun, make_result, wait_for
from tests.live_server import live_server

REQUEST = ApplyRequest(original="old\n", update="new\n")


def test_apply_and_stream_give_the_same_result() -> None:
    run = ScriptedRun(result=make_result("é\u2028\r\n\U0001f600\n" * 50))
    with live_server(run) as (url, _):
        client = HttpClient(url)
        assert client.is_ready()
        assert client.apply(REQUEST) == run.result
        assert list(client.stream(REQUEST)) == [TokenEvent("ne"), TokenEvent("w\n"), FinalEvent(run.result)]
    assert run.requests == [REQUEST, REQUEST]


def test_large_files_pass_both_ways() -> None:
    text = "x" * 200 + "\n"
    run = ScriptedRun(tokens=(text * 20_000,), result=make_result(text * 20_000))
    request = ApplyRequest(original=text * 20_000, update="u")
    with live_server(run) as (url, _):
        assert HttpClient(url).apply(request) == run.result
        assert list(HttpClient(url).stream(request))[-1] == FinalEvent(run.result)
    assert run.requests[0] == request


def test_errors_come_back_as_they_were_raised() -> None:
    error = NeedsMoreContext("no anchor", value="def f", limit="one place", remedy="show more")
    with live_server(ScriptedRun(tokens=(), error=error)) as (url, _):
        for call in _calls(HttpClient(url)):
            with pytest.raises(NeedsMoreContext) as caught:
                call(REQUEST)
            assert caught.value.as_dict() == error.as_dict()


def test_an_error_in_mid_stream_comes_after_the_tokens() -> None:
    with live_server(ScriptedRun(tokens=("x",), error=RuntimeError())) as (url, _):
        events = HttpClient(url).stream(REQUEST)
        assert next(events) == TokenEvent("x")
        with pytest.raises(EngineFailure):
            next(events)


def test_a_request_the_schema_refuses() -> None:
    with live_server(ScriptedRun()) as (url, _), pytest.raises(InvalidField, match="temperature"):
        HttpClient(url).apply(ApplyRequest(original="", temperature=3.0))


def test_a_body_that_is_too_large_is_refused_and_the_client_hears_why() -> None:
    with live_server(ScriptedRun(), Settings(max_body_bytes=10_000)) as (url, _):
        for n_bytes in (20_000, 3_000_000):
            with pytest.raises((TooLarge, Unreachable)) as caught:
                HttpClient(url).apply(ApplyRequest(original="x" * n_bytes))
            if n_bytes < 40_000:
                assert isinstance(caught.value, TooLarge)
                assert caught.value.limit == 10_000


def test_closing_a_stream_stops_the_decoding() -> None:
    run = ScriptedRun(gate=threading.Event())
    with live_server(run) as (url, service):
        events = HttpClient(url).stream(REQUEST)
        next(events)
        events.close()
        assert run.closed.wait(5)
        assert service.wait_until_idle(5)


@pytest.mark.parametrize("stream", [b"false", b"true"])
@pytest.mark.parametrize("tokens", [(), ("x",)])
def test_a_client_that_goes_away_stops_its_decoding(stream: bytes, tokens: tuple[str, ...]) -> None:
    run = ScriptedRun(tokens=tokens, gate=threading.Event())
    with live_server(run) as (url, service):
        body = b'{"original": "", "update": "x", "stream": ' + stream + b"}"
        with socket.create_connection(_address(url)) as connection:
            connection.sendall(_post(body))
            assert run.started.wait(5)
            assert not run.closed.wait(0.05)
        assert run.closed.wait(5)
        assert service.wait_until_idle(5)


def test_a_client_that_goes_away_while_queued_is_never_started() -> None:
    gate = threading.Event()
    run = ScriptedRun(gate=gate)
    with live_server(run) as (url, service):
        running = service.submit(REQUEST)
        assert run.started.wait(5)
        with socket.create_connection(_address(url)) as connection:
            connection.sendall(_post(b'{"original": "", "update": "x"}'))
            assert wait_for(lambda: service.queue_length == 1)
        assert wait_for(lambda: service.queue_length == 0)
        gate.set()
        list(running.events())
    assert run.n_started == 1


def test_a_client_that_goes_away_while_sending() -> None:
    run = ScriptedRun()
    with live_server(run) as (url, _):
        with socket.create_connection(_address(url)) as connection:
            connection.sendall(_post(b"x" * 1000)[:-500])
        assert HttpClient(url).apply(REQUEST) == run.result
    assert run.n_started == 1


def test_answers_on_a_kept_connection_are_not_held_back() -> None:
    """Nagle's algorithm on the server's side would cost each of them 40 ms."""
    body = b'{"original": "", "update": "x"}'
    with live_server(ScriptedRun()) as (url, _), contextlib.closing(HTTPConnection(*_address(url))) as connection:
        times = []
        for _ in range(15):
            start = time.perf_counter()
            connection.request("POST", "/v1/apply", body, {"Content-Type": "application/json"})
            assert connection.getresponse().read()
            times.append(time.perf_counter() - start)
    assert sorted(times)[7] < 0.03


# -- servers that misbehave --------------------------------------------------------------------------------------------
@contextlib.contextmanager
def raw_server(answer: bytes | None) -> Iterator[str]:
    """Answers every connection with these bytes and hangs up; with None it says nothing until the end."""
    with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as connections:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection = connections.enter_context(listener.accept()[0])
                    connection.recv(65536)
                    if answer is not None:
                        connection.sendall(answer)
                        connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    assert not HttpClient(url).is_ready()
    for call in _calls(HttpClient(url)):
        with pytest.raises(Unreachable) as caught:
            call(REQUEST)
        assert caught.value.value == url
        assert "serve" in caught.value.remedy


EVENT_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n<html/>",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nbad",
        EVENT_STREAM + b'event: token\ndata: {"text": "x"}\n\n',
        EVENT_STREAM + b"event: final\ndata: {}\n\n",
        EVENT_STREAM + b"event: token\ndata: {bad\n\n",
        EVENT_STREAM + b"event: token\ndata: \xff\n\n",
    ],
)
def test_a_server_that_is_none_of_ours(answer: bytes) -> None:
    with raw_server(answer) as url:
        for call in _calls(HttpClient(url)):
            with pytest.raises(Unreachable) as caught:
                call(REQUEST)
            assert caught.value.value == url


def test_a_silent_server_is_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apply_service.clients.http.GRACE_S", 0.05)
    with raw_server(None) as url:
        for call in _calls(HttpClient(url, timeout_s=0.05)):
            with pytest.raises(DeadlineExceeded):
                call(REQUEST)


@pytest.mark.parametrize("url", ["", "localhost:8765", "ftp://host", "http://", "http://host?x=1", "http://host:port"])
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        HttpClient(url)
    assert caught.value.value == url


def _calls(client: HttpClient) -> list[Callable[[ApplyRequest], object]]:
    return [client.apply, lambda request: list(client.stream(request))]


def _address(url: str) -> tuple[str, int]:
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


def _post(body: bytes) -> bytes:
    return (
        b"POST /v1/apply HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )

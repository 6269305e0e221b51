"""The client against real sockets: a true server, and servers that misbehave."""

import asyncio
import contextlib
import re
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from apply_service.batch import BatchItem, PatchRequest, PatchSource
from apply_service.batch.run import apply_edits, apply_patch_request
from apply_service.clients.http import HttpClient, Model
from apply_service.errors import (
    ApplyError,
    DeadlineExceeded,
    EngineFailure,
    InvalidField,
    NeedsMoreContext,
    SettingsError,
    TooLarge,
    Unreachable,
)
from apply_service.settings import Settings
from apply_service.types import ApplyRequest, FinalEvent, PassCount, TokenEvent
from tests.api.test_batch import pipeline_run
from tests.batch.test_edits import BROKEN, GOOD, LOST, NEW
from tests.doubles import ScriptedRun, make_result, wait_for
from tests.edits.test_patch import FILES, V4A
from tests.live_server import live_server

REQUEST = ApplyRequest(original="old\n", update="new\n")


def test_apply_and_stream_give_the_same_result() -> None:
    run = ScriptedRun(result=make_result("é\u2028\r\n\U0001f600\n" * 50))
    with live_server(run) as (url, _):
        client = HttpClient(url)
        assert client.is_ready()
        assert client.apply(REQUEST) == run.result
        assert list(client.stream(REQUEST)) == [TokenEvent("ne"), TokenEvent("w\n"), FinalEvent(run.result)]
    assert run.edits == [REQUEST, REQUEST]


def test_large_files_pass_both_ways() -> None:
    text = "x" * 200 + "\n"
    run = ScriptedRun(tokens=(text * 20_000,), result=make_result(text * 20_000))
    request = ApplyRequest(original=text * 20_000, update="u")
    with live_server(run) as (url, _):
        assert HttpClient(url).apply(request) == run.result
        assert list(HttpClient(url).stream(request))[-1] == FinalEvent(run.result)
    assert run.edits[0] == request


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


def test_the_server_does_not_hold_answers_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nagle's algorithm on its side would cost each answer on a kept connection 40 ms."""
    found = []
    made = H11Protocol.connection_made

    def look(self: H11Protocol, transport: asyncio.Transport) -> None:
        found.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        made(self, transport)  # type: ignore[arg-type]

    monkeypatch.setattr(H11Protocol, "connection_made", look)
    with live_server(ScriptedRun()) as (url, _):
        HttpClient(url).apply(REQUEST)
    assert found
    assert all(found)


# -- more than one file, and what else there is to ask -----------------------------------------------------------------
def facts(item: BatchItem) -> tuple[object, ...]:
    """An item without what differs between two runs: times, and the identity of errors."""
    text = None if item.result is None else item.result.merged_code
    error = None if item.error is None else item.error.as_dict()
    return item.path, item.source, item.action, item.status, item.verdicts, text, error, item.diff, item.new_mode


def test_batches_come_back_as_they_were_made() -> None:
    requests = [GOOD, NEW, LOST, BROKEN]
    with live_server(pipeline_run) as (url, service):
        for mode in ("independent", "all_or_nothing"):
            answered = HttpClient(url).apply_batch(requests, mode=mode)
            made = asyncio.run(apply_edits(service.submit, requests, mode))  # type: ignore[arg-type]
            assert [facts(item) for item in answered.items] == [facts(item) for item in made.items]
            assert answered.status == made.status
            assert [type(item.error) for item in answered.items] == [type(item.error) for item in made.items]


def test_patches_come_back_as_they_were_made() -> None:
    sources = tuple(PatchSource(path, text) for path, text in FILES.items())
    request = PatchRequest(V4A, sources, mode="independent", on_verdict={"syntax": "warn"}, diff=True)
    with live_server(pipeline_run) as (url, _):
        answered, made = HttpClient(url).apply_patch(request), apply_patch_request(request)
    assert [facts(item) for item in answered.items] == [facts(item) for item in made.items]


def test_a_client_that_goes_away_stops_its_batch() -> None:
    run = ScriptedRun(gate=threading.Event())
    with live_server(run) as (url, service):
        body = b'{"edits": [{"original": "", "update": "x"}, {"original": "", "update": "y"}]}'
        with socket.create_connection(_address(url)) as connection:
            connection.sendall(_post(body, "/v1/apply/batch"))
            assert run.started.wait(5)
        assert service.wait_until_idle(5)
    assert run.n_started == 1


def test_models_and_health() -> None:
    with live_server(ScriptedRun(), Settings(queue_limit=3, drain_timeout_s=0)) as (url, _):
        client = HttpClient(url)
        assert client.models()[0] == Model("embedded")
        health = client.health()
        assert (health.model, health.queue_length, health.queue_limit) == ("embedded", 0, 3)


def test_the_key_is_sent_and_never_quoted() -> None:
    with raw_server(None) as url, pytest.raises(SettingsError) as caught:
        HttpClient(url, api_key="secret\nkey")
    assert "secret" not in str(caught.value.as_dict())
    received = []
    with raw_server(b"", received) as url:
        for call in _calls(HttpClient(url, api_key="k-1")):
            with pytest.raises(Unreachable):
                call(REQUEST)
    assert len(received) == 2
    assert all(b"authorization: bearer k-1\r\n" in request.lower() for request in received)


def test_token_events_tell_the_passes() -> None:
    passes = (PassCount(n_new=2, n_drafted=3, n_accepted=1, source="merge"), PassCount(1, 0, 0, ""))
    with live_server(ScriptedRun(tokens=("x",), passes=passes)) as (url, _):
        event = next(HttpClient(url).stream(REQUEST))
    assert isinstance(event, TokenEvent)
    assert event.passes == passes


def test_an_event_of_a_kind_unknown_is_passed_over() -> None:
    stream = EVENT_STREAM + b'event: news\ndata: {"x": 1}\n\nevent: token\ndata: {"text": "t"}\n\n'
    with raw_server(stream) as url:
        events = HttpClient(url).stream(REQUEST)
        assert next(events) == TokenEvent("t")
        with pytest.raises(Unreachable, match="cut off"):
            next(events)


def test_a_client_that_is_closed_stops_the_decoding() -> None:
    run, errors = ScriptedRun(gate=threading.Event()), list[ApplyError]()

    def ask(client: HttpClient) -> None:
        try:
            client.apply(REQUEST)
        except ApplyError as error:
            errors.append(error)

    with live_server(run) as (url, service):
        client = HttpClient(url)
        thread = threading.Thread(target=ask, args=(client,))
        thread.start()
        assert run.started.wait(5)
        client.close()
        thread.join(5)
        assert run.closed.wait(5)
        assert service.wait_until_idle(5)
    assert isinstance(errors[0], Unreachable)


# -- servers that misbehave --------------------------------------------------------------------------------------------
@contextlib.contextmanager
def raw_server(answer: bytes | None, received: list[bytes] | None = None) -> Iterator[str]:
    """Answers every connection with these bytes and hangs up; with None it says nothing until the end."""
    with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as connections:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection = connections.enter_context(listener.accept()[0])
                    data = _read_request(connection)
                    if received is not None:
                        received.append(data)
                    if answer is not None:
                        connection.sendall(answer)
                        connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def _read_request(connection: socket.socket) -> bytes:
    """All of it: to close on unread bytes would reset the connection, and lose the answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (piece := connection.recv(65536)):
            return data
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head.lower())
    while length is not None and len(body) < int(length[1]):
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


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


def _post(body: bytes, path: str = "/v1/apply") -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        path.encode(),
        len(body),
        body,
    )

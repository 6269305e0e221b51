"""A loopback server that answers chat completions by a script, faults included, and keeps what it was sent."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]


@dataclass
class Answer:
    """One answer: `pieces` are sent one by one, with `pause_s` before each; `is_cut` drops the connection after them,
    though more was promised."""

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    pause_s: float = 0.0
    is_cut: bool = False
    is_hung: bool = False
    """Sends its pieces and then nothing, until the client goes away."""


def chunk(text: str | None = None, finish_reason: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": {} if text is None else {"content": text}, "finish_reason": finish_reason}
    return event({"object": "chat.completion.chunk", "choices": [choice | more.pop("choice", {})], **more})


def event(data: Body | str) -> bytes:
    return f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def stream(output: str, *, n_chars: int = 7, usage: Body | None = None, finish_reason: str = "stop") -> Answer:
    """A well-formed stream of `output`."""
    pieces = [chunk(output[at : at + n_chars]) for at in range(0, len(output), n_chars)]
    last = [] if usage is None else [event({"choices": [], "usage": usage})]
    return Answer([*pieces, chunk(finish_reason=finish_reason), *last, event("[DONE]")], headers=SSE)


def error(status: int, body: Body | str = "", **headers: str) -> Answer:
    text = body if isinstance(body, str) else json.dumps(body)
    return Answer([text.encode()], status, {"Content-Type": "application/json", **headers})


SSE = {"Content-Type": "text/event-stream"}


@dataclass
class Scripted:
    """The server: answers in turn, the last one again and again."""

    answers: list[Answer | Callable[[Body], Answer]]
    url: str = ""
    bodies: list[Body] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    n_hung_up: int = 0
    """Clients that went away before the end of their answer."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, path: str, headers: dict[str, str], body: Body) -> Answer:
        with self.lock:
            answer = self.answers[min(len(self.bodies), len(self.answers) - 1)]
            self.bodies.append(body)
            self.headers.append(headers)
            self.paths.append(path)
        return answer(body) if callable(answer) else answer


@contextlib.contextmanager
def scripted_server(*answers: Answer | Callable[[Body], Answer]) -> Iterator[Scripted]:
    script = Scripted(list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = script.next(self.path, dict(self.headers), body)
            self.close_connection = True
            try:
                self._write(answer)
            except OSError:
                script.n_hung_up += 1

        def _write(self, answer: Answer) -> None:
            if answer.status:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                length = sum(map(len, answer.pieces)) + (1 if answer.is_cut or answer.is_hung else 0)
                self.send_header("Content-Length", str(length))
                self.send_header("Connection", "close")
                self.end_headers()
            for piece in answer.pieces:
                if answer.pause_s and self._is_gone(answer.pause_s):
                    raise ConnectionError
                self.wfile.write(piece)
                self.wfile.flush()
            if answer.is_hung:
                self._is_gone(20)
                raise ConnectionError

        def _is_gone(self, wait_s: float) -> bool:
            """Whether the client closes its connection within the time; else it has passed."""
            end = time.monotonic() + wait_s
            readable, _, _ = select.select([self.connection], [], [], wait_s)
            is_gone = bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
            time.sleep(0 if is_gone else max(0.0, end - time.monotonic()))
            return is_gone

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield script
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()

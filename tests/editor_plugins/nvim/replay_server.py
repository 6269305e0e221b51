"""A server that answers with the contract's recorded bytes, and holds them back or leaves where a test says so."""

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from editor_plugins.contract.generate import FOLDER


@dataclass
class Script:
    """What the server does, and what it has seen."""

    case: str = "three_hunks"
    first: tuple[str, ...] = ()
    """The cases of the first requests, in order."""
    key: str | None = None
    gate: threading.Event | None = None
    """Waited for before the final event (a stream) or the body."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    client_left: threading.Event = field(default_factory=threading.Event)
    sent_tokens: threading.Event = field(default_factory=threading.Event)

    def answer_to(self, request: dict[str, Any], authorization: str | None) -> dict[str, Any]:
        at = len(self.requests) - 1
        case = self.first[at] if at < len(self.first) else self.case
        if self.key is not None and authorization != f"Bearer {self.key}":
            case = "wrong_key"
        fixture = json.loads((FOLDER / f"{case}.json").read_text(encoding="utf-8"))
        kind: dict[str, Any] = fixture["stream" if request.get("stream") else "reply"]
        return kind


@contextlib.contextmanager
def replay_server(script: Script) -> Iterator[str]:
    """Serve on a free loopback port; gives the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            script.requests.append(request)
            answer = script.answer_to(request, self.headers["Authorization"])
            self.send_response(answer["status"])
            for name, value in answer["headers"].items():
                self.send_header(name, value)
            self.end_headers()
            self._send_body(answer["body"])

        def _send_body(self, body: str) -> None:
            at = max(body.find("event: hunk"), 0)
            self.wfile.write(body[:at].encode())
            self.wfile.flush()
            script.sent_tokens.set()
            self._wait_for_gate()
            with contextlib.suppress(OSError):
                self.wfile.write(body[at:].encode())

        def _wait_for_gate(self) -> None:
            """A client that leaves ends the wait: reading then gives nothing."""
            self.connection.settimeout(0.01)
            while script.gate is not None and not script.gate.is_set():
                with contextlib.suppress(TimeoutError):
                    if not self.connection.recv(1):
                        script.client_left.set()
                        return

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        if script.gate is not None:
            script.gate.set()
        server.shutdown()
        thread.join(10)
        server.server_close()

"""A server on loopback that answers what the test tells it to, and remembers what it was asked."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Reply(NamedTuple):
    """`body` is JSON unless it is text already; None drops the connection."""

    body: Any
    status: int = 200
    type: str = "application/json"


@dataclass
class Asked:
    """One request as it arrived."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Stub:
    url: str
    asked: list[Asked] = field(default_factory=list)


@contextlib.contextmanager
def stub_server(answer: Callable[[Asked], Reply]) -> Iterator[Stub]:
    """Serves until the block ends."""
    stub = Stub("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            self._answer(json.loads(self.rfile.read(length)))

        def _answer(self, body: dict[str, Any]) -> None:
            asked = Asked(self.path, body, {name.lower(): value for name, value in self.headers.items()})
            stub.asked.append(asked)
            reply = answer(asked)
            if reply.body is None:
                self.close_connection = True
                return
            data = (reply.body if isinstance(reply.body, str) else json.dumps(reply.body)).encode()
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.type)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield stub
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()

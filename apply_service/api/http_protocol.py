"""uvicorn's HTTP/1.1 protocol, less patient: bytes that are no HTTP get a typed error, and a client that never finishes
its headers, or leaves its answer unread, is let go.

It stands below the application: what it refuses never becomes a request, and has no id.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from apply_service.api.errors import error_body
from apply_service.errors import InvalidField


def protocol_class(*, header_timeout_s: float, write_timeout_s: float) -> type[H11Protocol]:
    """The protocol for uvicorn's `http`: headers must be complete within the one time, and of an answer some must be
    read within the other."""
    times = {"header_timeout_s": header_timeout_s, "write_timeout_s": write_timeout_s}
    return type("TimedProtocol", (ImpatientProtocol,), times)


class ImpatientProtocol(H11Protocol):
    """Closes a connection whose headers do not arrive or whose answer is not read, and answers what is no HTTP with 400
    and an error body."""

    header_timeout_s: float
    write_timeout_s: float
    _header_timer: asyncio.TimerHandle | None = None
    _unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch_headers()
        self._unwatch_answer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_answer()

    def resume_writing(self) -> None:
        self._unwatch_answer()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer and close.  Raises nothing where an answer is on its way already: the connection is closed only."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        message = "The request is not HTTP/1.1, or its headers are too large."
        error = InvalidField(message, value=msg, remedy="Send shorter headers, or none that are no HTTP.")
        body = json.dumps(error_body(error)).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        events: list[Any] = [
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ]
        for event in events:
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _watch_headers(self) -> None:
        """One deadline for the headers of a request, from its first byte (of the first: from the connection) on."""
        if self.conn.their_state is not h11.IDLE:
            self._unwatch_headers()
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(self.header_timeout_s, self._give_up)

    def _unwatch_headers(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _watch_answer(self) -> None:
        """More waits to be read than the buffers hold: some of it must be taken within the time, again and again."""
        n_unread = self.transport.get_write_buffer_size()
        self._unread_timer = self.loop.call_later(self.write_timeout_s, self._drop_unless_read, n_unread)

    def _unwatch_answer(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _drop_unless_read(self, n_unread: int) -> None:
        if self.transport.get_write_buffer_size() < n_unread:
            self._watch_answer()
        else:
            self.transport.abort()  # to close it would wait for the reader

    def _give_up(self) -> None:
        self._header_timer = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()

"""uvicorn's HTTP/1.1 protocol, less patient: a client that never finishes its headers, or leaves its answer unread, is
let go.  uvicorn has no setting for either.

It stands below the application: what it refuses never becomes a request, and has no id.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def protocol_class(*, header_timeout_s: float, write_timeout_s: float) -> type[H11Protocol]:
    """The protocol for uvicorn's `http`: headers must be complete within the one time, and of an answer some must be
    read within the other."""
    times = {"header_timeout_s": header_timeout_s, "write_timeout_s": write_timeout_s}
    return type("TimedProtocol", (ImpatientProtocol,), times)


class ImpatientProtocol(H11Protocol):
    """Closes a connection whose headers do not arrive or whose answer is not read."""

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
        for timer in (self._header_timer, self._unread_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_answer()

    def resume_writing(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, and close; where an answer is on its way already, uvicorn's own would raise."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _watch_headers(self) -> None:
        """One deadline for the headers of a request, from its first byte (of the first: from the connection) on."""
        if self.conn.their_state is not h11.IDLE:
            if self._header_timer is not None:
                self._header_timer.cancel()
                self._header_timer = None
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(self.header_timeout_s, self._give_up)

    def _give_up(self) -> None:
        self._header_timer = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()

    def _watch_answer(self) -> None:
        """More waits to be read than the buffers hold: some of it must be taken within the time, again and again."""
        n_unread = self.transport.get_write_buffer_size()
        self._unread_timer = self.loop.call_later(self.write_timeout_s, self._drop_unless_read, n_unread)

    def _drop_unless_read(self, n_unread: int) -> None:
        if self.transport.get_write_buffer_size() < n_unread:
            self._watch_answer()
        else:
            self.transport.abort()  # to close it would wait for the reader

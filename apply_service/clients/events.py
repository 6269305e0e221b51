"""A native stream as a client reads it: bytes in, events out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from apply_service.clients.wire import decode_answer, decode_error
from apply_service.types import ApplyEvent, FinalEvent, TokenEvent


class EventReader:
    """Server-sent events, in whatever pieces they arrive.  Lines end at `\\n` alone: text may hold other separators.

    An event of a kind that this client does not know is passed over: a newer server may tell more.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """The pieces of a line that has not ended."""
        self._name = ""
        self._has_ended = False

    @property
    def has_ended(self) -> bool:
        """Whether the final event has been read; nothing follows it."""
        return self._has_ended

    def feed(self, data: bytes) -> Iterator[ApplyEvent]:
        """The events that these bytes complete.

        Raises:
            ApplyError: the stream's own terminal error.
            KeyError, TypeError, ValueError: it is no stream of this service.
        """
        first, *others = data.split(b"\n")
        self._rest.append(first)
        if not others:
            return
        lines = [b"".join(self._rest), *others]
        self._rest = [lines.pop()]
        for line in lines:
            field, _, value = line.decode().partition(": ")
            if field == "event":
                self._name = value
            elif field == "data" and (event := self._decode(json.loads(value))) is not None:
                yield event

    def finish(self) -> None:
        """To be called at the end of the bytes.  Raises ConnectionError where the stream was cut off."""
        if not self._has_ended:
            raise ConnectionError("the stream was cut off")

    def _decode(self, data: dict[str, Any]) -> ApplyEvent | None:
        if self._name == "error":
            raise decode_error(data)
        if self._name == "token":
            return TokenEvent(data["text"])
        if self._name != "final":
            return None
        self._has_ended = True
        return FinalEvent(decode_answer(data))

"""The data of server-sent events, out of a body that comes in pieces cut anywhere."""

from __future__ import annotations

from collections.abc import Iterator


class EventData:
    """Reads one stream.  Names and ids of events say nothing here and are skipped, as comments are."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        """Pieces of the line that has not ended."""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> Iterator[str]:
        """The data of the events that are whole with this piece.

        Raises:
            UnicodeDecodeError: a line is not UTF-8.
        """
        ended, is_ended, rest = piece.rpartition(b"\n")
        if not is_ended:
            self._line.append(piece)
            return
        lines = b"".join([*self._line, ended]).split(b"\n")
        self._line = [rest]
        for raw in lines:
            line = raw.removesuffix(b"\r").decode()
            if line.startswith("data:"):
                self._data.append(line[5:].removeprefix(" "))
            elif not line and self._data:
                data, self._data = "\n".join(self._data), []
                yield data

"""Server-sent events: how a stream of events looks on the wire."""

from __future__ import annotations

MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""No proxy may keep or hold back a stream."""


def format_event(name: str, data: str) -> bytes:
    """One event; `data` is a JSON text without line breaks."""
    return f"event: {name}\ndata: {data}\n\n".encode()

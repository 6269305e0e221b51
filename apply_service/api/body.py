"""Reading a request's body: JSON only, no more of it than allowed, and a large one beside the event loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request

from apply_service.deadline import cancelled_error
from apply_service.errors import TooLarge, UnsupportedMediaType
from apply_service.service import Service

T = TypeVar("T")

PARSED_AT_ONCE = 64 * 1024
"""Bytes of JSON up to which the event loop parses them itself: the worst of so many take some 40 ms."""

DRAIN_FACTOR = 4
"""An oversized body is read on, and thrown away, up to so many times the limit: a client that is still sending when the
connection closes would not see the answer."""


async def read_call(request: Request, max_bytes: int, parse: Callable[[bytes], T], service: Service) -> T:
    """What `parse` makes of the body; of a large one where edits are read, as others wait for the event loop.

    Raises:
        ApplyError: as `read_json_body` and `parse`; DeadlineExceeded where parsing takes too long.
    """
    body = await read_json_body(request, max_bytes)
    if len(body) <= PARSED_AT_ONCE:
        return parse(body)
    return await service.call(partial(parse, body))


async def read_json_body(request: Request, max_bytes: int) -> bytes:
    """The body's bytes.

    Raises:
        UnsupportedMediaType: not declared as JSON (a web page cannot send JSON to another origin unasked), or
            compressed.
        TooLarge: more than `max_bytes`.
        Cancelled: the client went away while sending.
    """
    _refuse_unless_json(request.headers.get("content-type", ""))
    _refuse_compressed(request.headers.get("content-encoding", "identity"))
    chunks: list[bytes] = []
    n_bytes = 0
    try:
        async for chunk in request.stream():
            n_bytes += len(chunk)
            if n_bytes <= max_bytes:
                chunks.append(chunk)
            elif n_bytes > DRAIN_FACTOR * max_bytes:
                break
    except ClientDisconnect:
        raise cancelled_error() from None
    if n_bytes > max_bytes:
        raise TooLarge(
            "The body is too large.", value=n_bytes, limit=max_bytes, remedy="Send less, or raise max_body_bytes."
        )
    return b"".join(chunks)


def _refuse_unless_json(content_type: str) -> None:
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise UnsupportedMediaType(
            "The body must be JSON.",
            value=kind,
            limit="application/json",
            remedy="Send the header Content-Type: application/json.",
        )


def _refuse_compressed(encoding: str) -> None:
    if encoding.strip().lower() != "identity":
        raise UnsupportedMediaType(
            "The body must not be compressed.",
            value=encoding,
            limit="identity",
            remedy="Leave the header Content-Encoding out, and send the JSON as it is.",
        )

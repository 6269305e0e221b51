"""A client that goes away stops its decoding."""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from apply_service.ticket import Ticket


def cancel_when_gone(request: Request, ticket: Ticket) -> asyncio.Task[None]:
    """A task that cancels the ticket when the client disconnects.  Cancel the task when the answer is out.

    The body must have been read: what comes after it is the disconnection.
    """
    return asyncio.create_task(_watch(request, ticket))


async def _watch(request: Request, ticket: Ticket) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    ticket.cancel()

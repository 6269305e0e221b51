"""An edit that is made by one of many engines: asked, followed, and asked again of another where an engine is lost.

`Forwarding` takes the pipeline's place in the ingress's `Service`, which gives it a thread for each edit; queue,
deadline, cancellation and drain are those of a single server.  Knows no Ray: `Engines` is what it asks.

What was not answered is asked again, since an edit changes nothing but its own answer.  The text of a stream that had
begun goes on where the new engine writes the same text, which it does wherever engines are deterministic; where it does
not, nothing more is streamed before the final event, which alone is an answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Protocol

from apply_service.deadline import Deadline, late_error
from apply_service.deploy.affinity import file_key
from apply_service.errors import ApplyError, EngineFailure, NotReady
from apply_service.remote.client import EventLoop
from apply_service.types import ApplyEvent, ApplyRequest, FinalEvent, TokenEvent

BACK_OFFS_S = (0.0, 0.1, 0.4)
"""Seconds before each try.  There are few of them: should it be the edit that kills the engines, it kills no more."""
LOST = "an engine was lost before it answered"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Failed:
    """An edit's error as its engine tells it; a value, so that whatever carries it does not mistake it for its own."""

    error: ApplyError


Item = ApplyEvent | Failed


class EngineLost(Exception):
    """The engine went away before it had answered."""


class Engines(Protocol):
    """All engines that an edit may be sent to."""

    def ask(self, request: ApplyRequest, key: str) -> AsyncGenerator[Item]:
        """What one of them, the one that `key` prefers if it can be had, says of the edit: token events, then a final
        event or `Failed`.  Closing it stops the edit there.

        Raises:
            EngineLost: it went away; nothing is wrong with the request.
            ApplyError: no engine takes it.
        """
        ...


class Forwarding:
    """The `run` of an ingress's `Service`.  Close it when the service is closed."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._loop = EventLoop()

    def close(self) -> None:
        """Stop all edits.  A second call does nothing."""
        self._loop.close()

    def __call__(self, request: ApplyRequest, deadline: Deadline) -> Generator[ApplyEvent, object, None]:
        """As `pipeline.run`, of which the engine that is asked makes its events."""
        items: SimpleQueue[Item | None] = SimpleQueue()
        work = self._loop.start(self._deliver(request, deadline, items.put))
        work.add_done_callback(lambda _: items.put(None))
        deadline.on_cancel(work.cancel)
        try:
            while (item := items.get()) is not None:
                yield _event(item)
                if isinstance(item, FinalEvent):
                    return
            deadline.check()
            work.result()  # raises what kept it from its end
            raise EngineFailure("The engine's answer has no end.", remedy="Send the edit again.")
        finally:
            work.cancel()

    async def _deliver(self, request: ApplyRequest, deadline: Deadline, put: Callable[[Item], None]) -> None:
        """Put the edit's items, the last of them a final event or `Failed`, whichever engine answers in the end."""
        text = StreamedText(put)
        for back_off_s in BACK_OFFS_S:
            await asyncio.sleep(back_off_s)
            if deadline.is_late:
                raise late_error(deadline.timeout_s)
            try:
                await self._try(replace(request, timeout_s=deadline.remaining_s), text)
                return
            except EngineLost:
                log.warning(LOST)
                text.begin_again()
        raise EngineFailure(
            "The engines that this edit was sent to went away one after the other.",
            value=len(BACK_OFFS_S),
            remedy="Send it again; if the same edit fails again, see the engines' logs.",
        )

    async def _try(self, request: ApplyRequest, text: StreamedText) -> None:
        """Ask one engine.  Raises EngineLost where it does not answer to the end, or is about to stop."""
        async with aclosing(self._engines.ask(request, file_key(request))) as items:
            async for item in items:
                if isinstance(item, Failed) and isinstance(item.error, NotReady):
                    raise EngineLost
                text.put(item)
                if not isinstance(item, TokenEvent):
                    return
        raise EngineLost


class StreamedText:
    """Passes on what an edit's engines say, so that a text that is written again is streamed once."""

    def __init__(self, put: Callable[[Item], None]) -> None:
        self._put = put
        self._sent = ""
        self._again: str | None = None
        """What an engine has written since it began again, while that is less than what was sent."""
        self._is_other = False

    def begin_again(self) -> None:
        """The next engine writes from the start."""
        self._again, self._is_other = "", False

    def put(self, item: Item) -> None:
        """The next item of the engine that writes now."""
        if not isinstance(item, TokenEvent):
            self._put(item)
        elif not self._is_other and (new := self._new_text(item.text)):
            self._sent += new
            self._put(TokenEvent(new))

    def _new_text(self, text: str) -> str:
        """What of it has not been sent."""
        if self._again is None:
            return text
        self._again += text
        known = min(len(self._again), len(self._sent))
        self._is_other = self._again[:known] != self._sent[:known]
        if self._is_other or known < len(self._sent):
            return ""
        new, self._again = self._again[known:], None
        return new


def _event(item: Item) -> ApplyEvent:
    """Raises the engine's error."""
    if isinstance(item, Failed):
        raise item.error
    return item

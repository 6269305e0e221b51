"""An edit that is made by one of many engines: asked, followed, and asked again of another where an engine is lost.

`Forwarding` takes the pipeline's place in the ingress's `Service`, which gives it a thread for each edit; queue,
deadline, cancellation and drain are those of a single server.  Knows no Ray: `Engines` is what it asks.

What was not answered is asked again, since an edit changes nothing but its own answer.  The text of a stream that had
begun goes on where the new engine writes the same text, which it does wherever engines are deterministic; where it does
not, nothing more is streamed before the final event, which alone is an answer.

Which engine is asked: the one whose prefix cache is likely to hold the file (`file_key`), unless that one has too much
to do (`Overflow`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from hashlib import blake2b
from queue import SimpleQueue
from typing import Protocol

from apply_service.deadline import Deadline, late_error
from apply_service.errors import ApplyError, EngineFailure, NotReady
from apply_service.remote.client import EventLoop
from apply_service.types import ApplyEvent, ApplyRequest, FinalEvent, TokenEvent

BACK_OFFS_S = (0.0, 0.1, 0.4)
"""Seconds before each try.  There are few of them: should it be the edit that kills the engines, it kills no more."""
LOST = "an engine was lost before it answered"
PREFIX_CHARS = 256
"""The beginning of the original that counts: about what the first chunk of a prompt (64 tokens) holds of it, so that a
version of the file that begins otherwise would find nothing in the cache anyway."""

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
                if isinstance(item, Failed):
                    raise item.error
                yield item
                if isinstance(item, FinalEvent):
                    return
            deadline.check()
            work.result()  # raises what kept it from its end
            raise EngineFailure("the engine's answer has no end", remedy="send the edit again")
        finally:
            work.cancel()

    async def _deliver(self, request: ApplyRequest, deadline: Deadline, put: Callable[[Item], None]) -> None:
        """Put the edit's items, the last of them a final event or `Failed`, whichever engine answers in the end."""
        text = StreamedText(put)
        for back_off_s in BACK_OFFS_S:
            await asyncio.sleep(back_off_s)
            if deadline.is_late:
                raise late_error(deadline.timeout_s)
            asked = self._engines.ask(replace(request, timeout_s=deadline.remaining_s), file_key(request))
            with contextlib.suppress(EngineLost):
                async with aclosing(asked) as items:
                    async for item in items:
                        if isinstance(item, Failed) and isinstance(item.error, NotReady):
                            break  # it is about to stop
                        text.put(item)
                        if not isinstance(item, TokenEvent):
                            return
            log.warning(LOST)
            text.begin_again()
        raise EngineFailure(
            "the engines that this edit was sent to went away one after the other",
            value=len(BACK_OFFS_S),
            remedy="send it again; if the same edit fails again, see the engines' logs",
        )


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
            return
        new = item.text
        if self._again is not None:
            self._again += new
            n_known = min(len(self._again), len(self._sent))
            self._is_other |= self._again[:n_known] != self._sent[:n_known]
            if self._is_other or n_known < len(self._sent):
                return
            new, self._again = self._again[n_known:], None
        if new:
            self._sent += new
            self._put(TokenEvent(new))


def file_key(request: ApplyRequest) -> str:
    """The same for all edits of a file whose prompts can share keys and values: by owner and model, as the prefix cache
    is, by path and by the beginning of the text."""
    digest = blake2b(digest_size=16)
    for part in (request.owner, request.model or "", request.path or "", request.original[:PREFIX_CHARS]):
        digest.update(blake2b(part.encode("utf-8", "surrogatepass"), digest_size=16).digest())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Overflow:
    """When a replica has so much to do that a file is sent to another one: above `depth` requests, and above `ratio`
    times its share of all of them.

    The bound on the share is that of consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam, 2016).
    The defaults come from a simulation (docs/log.md): with windows beyond the knee, edits that share an engine slow
    each other down, and waiting costs more than reading a file once more.
    """

    depth: int = 2
    ratio: float = 1.25

    def __post_init__(self) -> None:
        if self.depth < 1 or self.ratio < 1:
            raise ValueError(f"depth {self.depth} and ratio {self.ratio} must be 1 or more")

    def order(self, loads: Sequence[int | None]) -> list[int]:
        """Indices of the replicas, given in order of preference with the requests that each one has (None: not known,
        taken for none), in the order in which they are to be tried: those within bounds as preferred, then the others,
        the least loaded first."""
        known = [load or 0 for load in loads]
        bound = max(self.depth, self.ratio * (sum(known) + 1) / len(known)) if known else 0
        within = [i for i, load in enumerate(known) if load < bound]
        over = sorted((i for i, load in enumerate(known) if load >= bound), key=lambda i: known[i])
        return within + over

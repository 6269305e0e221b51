"""One engine: what a single server has behind its HTTP, without the HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from apply_service.build import build_runtime, open_service
from apply_service.deploy.forwarding import Failed, Item
from apply_service.errors import ApplyError, NotReady
from apply_service.service import Service
from apply_service.settings import Settings
from apply_service.types import ApplyRequest


class EngineReplica:
    """A runtime with its models loaded, and the queue and thread in front of it."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @classmethod
    def load(cls, settings: Settings) -> EngineReplica:
        """Load every model of the settings, so that no edit waits for that.  Raises ApplyError."""
        runtime = build_runtime(settings)
        for name in (settings.model, *settings.more_models):
            runtime.load(name)
        return cls(open_service(runtime, settings))

    async def apply(self, request: ApplyRequest) -> AsyncGenerator[Item]:
        """The edit's token events, then its final event or how it failed.  Closing it stops the edit."""
        try:
            async with aclosing(self._service.submit(request).events_async()) as events:
                async for event in events:
                    yield event
        except ApplyError as error:
            yield Failed(error)

    def check_health(self) -> None:
        """
        Raises:
            NotReady: the engine's thread has ended: this replica will answer nothing more.
        """
        if not self._service.is_alive:
            raise NotReady("The engine thread has ended.", remedy="Start another replica in its place.")

    def close(self, drain_timeout_s: float = 0.0) -> None:
        """As `Service.close`."""
        self._service.close(drain_timeout_s)

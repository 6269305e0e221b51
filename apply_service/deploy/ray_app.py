"""The application for Ray Serve: `serve run apply_service.deploy.ray_app:build_app` with one of the YAML files here.

Two deployments.  `Ingress` is the HTTP application of a single server (`api.app`: same dialects, same errors) over a
`Service` whose edits are forwarded; it loads no model.  `Engine` is one model on one device; Ray keeps as many of them
as its configuration says, adds some when edits pile up, drains those it replaces and starts others for the dead.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.exceptions import RayActorError, RayTaskError
from ray.serve.config import AutoscalingConfig, RequestRouterConfig
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from ray.serve.handle import DeploymentHandle

from apply_service.api.app import create_app
from apply_service.api.calls import configure_logging
from apply_service.build import build_runtime, open_service
from apply_service.deploy.fleet_settings import FleetSettings, read_fleet_settings
from apply_service.deploy.forwarding import EngineLost, Failed, Forwarding, Item
from apply_service.errors import ApplyError, EngineFailure, NotReady, Overloaded
from apply_service.service import Service
from apply_service.settings import Settings
from apply_service.types import ApplyRequest, TokenEvent

ROUTER = "apply_service.deploy.file_router.FileRouter"
TARGET_ONGOING = 2
"""Edits in an engine that autoscaling aims at; with more, another engine comes too late (docs/log.md)."""
MAX_ONGOING = 64
"""Edits that one engine takes at once; more wait in the ingress or go to others."""
SPARE_ONGOING = 64
"""Beyond `in_flight_limit`, what an ingress takes so that it is the application that refuses, with an error of ours,
and so that probes get through."""
CLOSING_S = 5.0
"""A draining replica has so much more time than the edits in it."""


class Engine:
    """What a single server has behind its HTTP, in a process of its own: models, and the queue and thread in front."""

    def __init__(self, settings: Settings) -> None:
        """Loads every model of the settings, so that no edit waits for that.  Raises ApplyError."""
        configure_logging(settings)
        runtime = build_runtime(settings)
        for name in (settings.model, *settings.more_models):
            runtime.load(name)
        self._service = open_service(runtime, settings)

    async def apply(self, request: ApplyRequest) -> AsyncGenerator[Item]:
        """The edit's token events, then its final event or how it failed.  Closing it stops the edit."""
        try:
            async with aclosing(self._service.submit(request).events_async()) as events:
                async for event in events:
                    yield event
        except ApplyError as error:
            yield Failed(error)

    def check_health(self) -> None:
        """Asked by Ray, which replaces a replica where this raises."""
        if not self._service.is_alive:
            raise NotReady("the engine thread has ended", remedy="start another replica in its place")

    def __del__(self) -> None:
        """Called by Ray once the edits in it have ended, or have had their time."""
        self._service.close()


class Ingress:
    """The HTTP side."""

    def __init__(self, engines: DeploymentHandle, settings: Settings) -> None:
        configure_logging(settings)
        self._settings = settings
        self._forwarding = Forwarding(ServeEngines(engines))
        self._service = Service(
            self._forwarding,
            is_remote=lambda _: True,
            max_threads=settings.in_flight_limit,
            queue_limit=settings.queue_limit,
            default_timeout_s=settings.default_timeout_s,
            max_timeout_s=settings.max_timeout_s,
        )

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Called by Ray once, after the constructor."""
        return create_app(self._service, self._settings)

    def check_health(self) -> None:
        """Asked by Ray, as for `Engine`."""
        if not self._service.is_alive:
            raise NotReady("the thread that forwards edits has ended", remedy="start another ingress in its place")

    def __del__(self) -> None:
        self._service.close()
        self._forwarding.close()


class ServeEngines:
    """The replicas of a deployment as `forwarding.Engines`.  Ray's errors become ours here and nowhere else."""

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle.options(stream=True)

    async def ask(self, request: ApplyRequest, key: str) -> AsyncGenerator[Item]:
        """See `forwarding.Engines`."""
        answer = self._handle.options(session_id=key).apply.remote(request)
        is_over = False
        try:
            async for item in answer:
                is_over = not isinstance(item, TokenEvent)
                yield item
        except RayActorError as error:
            raise EngineLost from error
        except RayTaskError as error:
            if isinstance(error.cause, RayActorError):  # of a process below the engine
                raise EngineLost from error
            kind = type(error.cause).__name__
            message = f"the engine failed on this request ({kind})"
            raise EngineFailure(message, value=kind, remedy="see the engine's log") from error
        except BackPressureError as error:
            raise Overloaded("all engines are busy", value=str(error), remedy="wait a moment") from error
        except DeploymentUnavailableError as error:
            raise NotReady("no engine could be started", remedy="see `serve status` and the engines' logs") from error
        finally:
            if not is_over:
                answer.cancel()


def build_app(args: Mapping[str, Any]) -> serve.Application:
    """What the `args` of a configuration file describe: settings of the service by name.  Raises SettingsError: see
    `fleet_settings.read_fleet_settings`."""
    fleet = read_fleet_settings(args)
    engine = engine_deployment(fleet.settings)
    return ingress_deployment(fleet).bind(engine.bind(fleet.settings), fleet.settings)


def engine_deployment(settings: Settings) -> serve.Deployment:
    """Its defaults; a configuration file's `deployments` goes before them."""
    return serve.deployment(
        Engine,
        max_ongoing_requests=MAX_ONGOING,
        autoscaling_config=AutoscalingConfig(target_ongoing_requests=TARGET_ONGOING),
        request_router_config=RequestRouterConfig(request_router_class=ROUTER),
        graceful_shutdown_timeout_s=settings.drain_timeout_s + CLOSING_S,
        ray_actor_options={"num_cpus": 1},
    )


def ingress_deployment(fleet: FleetSettings) -> serve.Deployment:
    """As `engine_deployment`.  In an update a new ingress starts before an old one goes: nobody waits for it."""
    return serve.deployment(
        serve.ingress()(Ingress),
        num_replicas=fleet.n_ingresses,
        max_surge_percent=100,
        max_ongoing_requests=fleet.settings.in_flight_limit + SPARE_ONGOING,
        graceful_shutdown_timeout_s=fleet.settings.drain_timeout_s + CLOSING_S,
        ray_actor_options={"num_cpus": 1},
    )

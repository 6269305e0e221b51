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
from apply_service.api.logging import configure_logging
from apply_service.deploy.fleet_settings import FleetSettings, read_fleet_settings
from apply_service.deploy.forwarding import EngineLost, Forwarding, Item
from apply_service.deploy.replica import EngineReplica
from apply_service.errors import EngineFailure, NotReady, Overloaded
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
    """One engine in a process of its own."""

    def __init__(self, settings: Settings) -> None:
        configure_logging(settings)
        self._replica = EngineReplica.load(settings)

    async def apply(self, request: ApplyRequest) -> AsyncGenerator[Item]:
        """As `EngineReplica.apply`."""
        async with aclosing(self._replica.apply(request)) as items:
            async for item in items:
                yield item

    def check_health(self) -> None:
        """Asked by Ray, which replaces a replica where this raises."""
        self._replica.check_health()

    def __del__(self) -> None:
        """Called by Ray once the edits in it have ended, or have had their time."""
        self._replica.close()


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
            raise NotReady("The thread that forwards edits has ended.", remedy="Start another ingress in its place.")

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
            raise _error_of(error) from error
        except BackPressureError as error:
            raise Overloaded("All engines are busy.", value=str(error), remedy="Wait a moment.") from error
        except DeploymentUnavailableError as error:
            raise NotReady("No engine could be started.", remedy="See `serve status` and the engines' logs.") from error
        finally:
            if not is_over:
                answer.cancel()


def _error_of(error: RayTaskError) -> EngineLost | EngineFailure:
    """What an error that an engine raised means: its process or one below it went, or it failed on this edit."""
    if isinstance(error.cause, RayActorError):
        return EngineLost()
    kind = type(error.cause).__name__
    return EngineFailure(f"The engine failed on this request ({kind}).", value=kind, remedy="See the engine's log.")


def build_app(args: Mapping[str, Any]) -> serve.Application:
    """What the `args` of a configuration file describe: settings of the service by name.

    Raises:
        SettingsError: see `fleet_settings.read_fleet_settings`.
    """
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

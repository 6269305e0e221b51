"""Runs many servers on Ray Serve: `serve run apply_service.deploy.ray_app:build_app` with one of the YAML files here.

Each replica is what `apply-service serve` runs on one machine: HTTP application, queue and engine.  Ray's proxy sends
all requests of a session (header `x-session-id`) to the same replica, so its prefix cache has their files.  Ray adds
replicas when requests pile up, drains those that it replaces, and replaces dead ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.serve.config import AutoscalingConfig, RequestRouterConfig

from apply_service.api.app import create_app
from apply_service.api.calls import configure_logging
from apply_service.build import build_runtime, open_service
from apply_service.errors import NotReady
from apply_service.settings import Settings, fleet_settings

ROUTER = "ray.serve.experimental.consistent_hash_router.ConsistentHashRouter"
TARGET_ONGOING = 2
"""The number of requests per replica that autoscaling aims at.  With a higher number, new replicas come too late
(docs/log.md)."""
SPARE_ONGOING = 64
"""How many requests a replica takes beyond `in_flight_limit`.  The application can refuse these with our own error, and
health checks get through."""
CLOSING_S = 5.0
"""How much longer than its edits a draining replica may live."""


class Server:
    """One replica."""

    def __init__(self, settings: Settings) -> None:
        """Load every model of the settings, so that no edit waits for a model to load.  Raises ApplyError."""
        configure_logging(settings)
        self._settings = settings
        runtime = build_runtime(settings)
        for name in (settings.model, *settings.more_models):
            runtime.load(name)
        self._service = open_service(runtime, settings)

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Return the application.  Ray calls this once, after the constructor."""
        return create_app(self._service, self._settings)

    def check_health(self) -> None:
        """Raise NotReady if the replica is broken.  Ray calls this method, and replaces a broken replica."""
        if not self._service.is_alive:
            raise NotReady("the thread that runs the models has ended", remedy="start another replica in its place")

    def __del__(self) -> None:
        """Close the service.  Ray calls this method once the replica's edits have ended or their time is over."""
        self._service.close()


def build_app(args: Mapping[str, Any]) -> serve.Application:
    """Return the application that the `args` of a configuration file describe: settings of the service by name.  A
    file's `deployments` override what is set here.  Raises the errors of `settings.fleet_settings`."""
    settings = fleet_settings(args)
    deployment = serve.deployment(
        serve.ingress()(Server),
        max_ongoing_requests=settings.in_flight_limit + SPARE_ONGOING,
        autoscaling_config=AutoscalingConfig(target_ongoing_requests=TARGET_ONGOING),
        request_router_config=RequestRouterConfig(request_router_class=ROUTER),
        graceful_shutdown_timeout_s=settings.drain_timeout_s + CLOSING_S,
        ray_actor_options={"num_cpus": 1},
    )
    return deployment.bind(settings)

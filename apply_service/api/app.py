"""The HTTP application: dialects and health on one FastAPI app, and around them the layers of operations.

A request passes the layers in this order: cross-origin rules, its id and log line, time limits, authentication, limits,
kept answers; then its dialect.  The service it is given is neither opened nor closed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, Response

from apply_service.api.auth import AuthMiddleware
from apply_service.api.batch import batch_router
from apply_service.api.calls import note_error
from apply_service.api.dialects import dialect_routers
from apply_service.api.docs_page import render_docs
from apply_service.api.error_shapes import error_response
from apply_service.api.errors import from_status, from_validation
from apply_service.api.health import health_router
from apply_service.api.idempotency import REPLAYED, IdempotencyMiddleware
from apply_service.api.keys import load_keys
from apply_service.api.limits import RATE_HEADERS, BodyBudget, LimitMiddleware
from apply_service.api.metrics import Metrics, metrics_router
from apply_service.api.middleware import REQUEST_ID, CallMiddleware
from apply_service.api.native import native_router
from apply_service.api.observation import log_code, note_outcome
from apply_service.api.timeouts import TimeoutMiddleware
from apply_service.api.tracing import install_tracing, open_exporter
from apply_service.errors import ApplyError
from apply_service.service import Service
from apply_service.settings import Settings


def create_app(service: Service, settings: Settings) -> FastAPI:
    """The application over a running service.

    Raises:
        SettingsError: the file of API keys is not as it should be.
        MissingDependency: traces are wanted, and OpenTelemetry is not installed.
    """
    metrics, budget = Metrics(), BodyBudget(settings)
    app = FastAPI(
        title="apply-service",
        version=version("apply-service"),
        description="Code-edit apply service: original file + edit -> merged file.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,  # clients do not send a body again: a typed 404 tells them more
        middleware=[*_cors(settings), *_layers(settings, metrics, budget)],
    )
    app.include_router(native_router(service, settings))
    app.include_router(batch_router(service, settings))
    for router in dialect_routers(service, settings):
        app.include_router(router)
    app.include_router(health_router(service, settings, budget))
    app.include_router(metrics_router(metrics))
    _add_docs_page(app)
    _add_error_handlers(app)
    if settings.keys_file is not None:
        _document_keys(app)
    _observe(app, service, settings, metrics)
    return app


def _observe(app: FastAPI, service: Service, settings: Settings, metrics: Metrics) -> None:
    """Who learns of every edit that has ended."""
    metrics.watch(service, settings)
    service.observe(note_outcome)
    service.observe(metrics.observe_ticket)
    if settings.trace_endpoint is not None:
        service.observe(install_tracing(app, open_exporter(settings.trace_endpoint)))
    if settings.log_code:
        service.observe(log_code)


# -- layers, outermost first -------------------------------------------------------------------------------------------
def _cors(settings: Settings) -> Iterator[Middleware]:
    if settings.cors_origins:
        yield Middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=[REQUEST_ID, REPLAYED, "Retry-After", *RATE_HEADERS],
        )


def _layers(settings: Settings, metrics: Metrics, budget: BodyBudget) -> Iterator[Middleware]:
    yield Middleware(CallMiddleware, render=error_response, on_end=metrics.observe_call)
    yield Middleware(TimeoutMiddleware, body_timeout_s=settings.body_timeout_s)
    yield Middleware(
        AuthMiddleware,
        keys=load_keys(settings.keys_file),
        cors_origins=settings.cors_origins,
        own_host=None if settings.allow_open else settings.host.lower(),
    )
    yield Middleware(LimitMiddleware, settings=settings, budget=budget)
    yield Middleware(
        IdempotencyMiddleware,
        ttl_s=settings.idempotency_ttl_s,
        max_bytes=settings.idempotency_bytes,
        max_body_bytes=settings.max_body_bytes,
    )


# -- around the dialects -----------------------------------------------------------------------------------------------
def _add_docs_page(app: FastAPI) -> None:
    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(render_docs(app.openapi()))


def _document_keys(app: FastAPI) -> None:
    """Say in the OpenAPI page how a key is sent."""
    describe = app.openapi

    def with_keys() -> dict[str, Any]:
        schema = describe()
        schema["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"key": []}]
        return schema

    app.openapi = with_keys  # type: ignore[method-assign]


def _add_error_handlers(app: FastAPI) -> None:
    """Errors within the application; those of the layers, and crashes, end in `CallMiddleware`."""

    @app.exception_handler(ApplyError)
    async def on_apply_error(request: Request, error: ApplyError) -> Response:
        return _refuse(request, error)

    @app.exception_handler(HTTPException)
    async def on_http_exception(request: Request, error: HTTPException) -> Response:
        response = _refuse(request, from_status(error.status_code, request.url.path, request.method))
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(RequestValidationError)
    async def on_validation_error(request: Request, error: RequestValidationError) -> Response:
        return _refuse(request, from_validation(error.errors(), []))


def _refuse(request: Request, error: ApplyError) -> Response:
    note_error(error)
    return error_response(error, request.url.path)

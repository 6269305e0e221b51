"""The HTTP application: dialects and health on one FastAPI app, and around them the layers of operations.

A request passes the layers in this order: cross-origin rules, its id and log line, authentication, limits, kept
answers; then its dialect.  The service it is given is neither opened nor closed here.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from prometheus_client import exposition
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, Response

from apply_service.api import code_apply, native, openai
from apply_service.api.auth import AuthMiddleware
from apply_service.api.calls import (
    REQUEST_ID,
    CallMiddleware,
    error_response,
    log_code,
    note_error,
    note_outcome,
)
from apply_service.api.docs_page import render_docs
from apply_service.api.errors import ErrorBody, from_status
from apply_service.api.idempotency import REPLAYED, IdempotencyMiddleware
from apply_service.api.keys import load_keys
from apply_service.api.limits import RATE_HEADERS, BodyBudget, LimitMiddleware
from apply_service.api.metrics import Metrics
from apply_service.api.tracing import install_tracing, open_exporter
from apply_service.errors import ApplyError, NotReady
from apply_service.service import Service
from apply_service.settings import Settings


def create_app(service: Service, settings: Settings) -> FastAPI:
    """The application over a running service.

    Raises:
        SettingsError: the file of API keys is not as it should be.
        MissingDependency: traces are wanted, and OpenTelemetry is not installed.
    """
    metrics, budget = Metrics(service, settings), BodyBudget(settings)
    layers = [  # outermost first
        Middleware(CallMiddleware, on_end=metrics.observe_call),
        Middleware(
            AuthMiddleware,
            keys=load_keys(settings.keys_file),
            cors_origins=settings.cors_origins,
            own_host=None if settings.allow_open else settings.host.lower(),
        ),
        Middleware(LimitMiddleware, settings=settings, budget=budget),
        Middleware(IdempotencyMiddleware, settings=settings),
    ]
    if settings.cors_origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=[REQUEST_ID, REPLAYED, "Retry-After", *RATE_HEADERS],
        )
        layers.insert(0, cors)
    app = FastAPI(
        title="apply-service",
        version=version("apply-service"),
        description="Code-edit apply service: original file + edit -> merged file.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # clients do not send a body again: a typed 404 tells them more
        middleware=layers,
    )
    app.state.service, app.state.settings = service, settings
    for router in (native.router, openai.router, code_apply.router, health_router(service, settings, budget)):
        app.include_router(router)

    @app.get("/metrics", include_in_schema=False)
    async def read_metrics() -> Response:
        return Response(exposition.generate_latest(metrics.registry), media_type=exposition.CONTENT_TYPE_LATEST)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(render_docs(app.openapi()))

    _add_error_handlers(app)
    if settings.keys_file is not None:
        _document_keys(app)
    service.observe(note_outcome)
    service.observe(metrics.observe_ticket)
    if settings.trace_endpoint is not None:
        service.observe(install_tracing(app, open_exporter(settings.trace_endpoint)))
    if settings.log_code:
        service.observe(log_code)
    return app


def _add_error_handlers(app: FastAPI) -> None:
    """Errors within the application; those of the layers, and crashes, end in `CallMiddleware`."""

    @app.exception_handler(ApplyError)
    async def on_apply_error(request: Request, error: ApplyError) -> Response:
        note_error(error)
        return error_response(error, request.url.path)

    @app.exception_handler(HTTPException)
    async def on_http_exception(request: Request, error: HTTPException) -> Response:
        path = request.url.path
        response = await on_apply_error(request, from_status(error.status_code, path, request.method))
        response.headers.update(error.headers or {})
        return response


def _document_keys(app: FastAPI) -> None:
    """Say in the OpenAPI page how a key is sent."""
    describe = app.openapi

    def with_keys() -> dict[str, Any]:
        schema = describe()
        schema["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"key": []}]
        return schema

    app.openapi = with_keys  # type: ignore[method-assign]


# -- health ------------------------------------------------------------------------------------------------------------
class Health(BaseModel):
    status: str


class Readiness(BaseModel):
    status: str
    model: str
    models: list[str]
    n_active: int
    queue_length: int
    queue_limit: int


def health_router(service: Service, settings: Settings, budget: BodyBudget) -> APIRouter:
    """`/healthz`: the process works.  `/readyz`: a request would be taken now.  Some probes ask for the HEAD alone."""
    router = APIRouter()
    unready: dict[int | str, dict[str, Any]] = {503: {"description": "Error codes: not_ready.", "model": ErrorBody}}

    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz", summary="Whether the engine thread is alive", responses=unready)
    async def healthz() -> Health:
        if not service.is_alive:
            raise NotReady("the engine thread has ended", remedy="restart the service")
        return Health(status="ok")

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz", summary="Whether a request would be taken", responses=unready)
    async def readyz() -> Readiness:
        n_waiting, wait = service.queue_length, "wait a moment"
        if not service.is_ready:
            raise NotReady("the service is shutting down", remedy="ask another replica, or wait")
        if budget.is_full:
            raise NotReady("bodies fill the service", value=budget.n_held, limit=budget.limit, remedy=wait)
        if not service.has_room:
            raise NotReady("the queue is full", value=n_waiting, limit=settings.queue_limit, remedy=wait)
        return Readiness(
            status="ready",
            model=settings.model,
            models=list(settings.model_sources),
            n_active=service.n_active,
            queue_length=n_waiting,
            queue_limit=settings.queue_limit,
        )

    return router

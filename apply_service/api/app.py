"""Builds the HTTP application: one FastAPI app with the dialects and health routes, inside the middleware.

A dialect is a set of paths with their own JSON: the native one, OpenAI's, and others.  A request passes the middleware
in this order: unread bodies, cross-origin rules, id and log line, authentication, limits.  Then it reaches its dialect.
This module neither opens nor closes the service.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import PureWindowsPath
from typing import Any, NoReturn

from fastapi import APIRouter, FastAPI, Request, Security
from fastapi.security import HTTPBearer
from prometheus_client import exposition
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, Response

from apply_service.api import code_apply, native, openai, pages, responses
from apply_service.api.auth import AuthMiddleware
from apply_service.api.calls import REQUEST_ID, CallMiddleware, note_outcome, this_call
from apply_service.api.dialect import state_of
from apply_service.api.errors import NATIVE, ErrorBody, ErrorShape, from_status
from apply_service.api.keys import hold_keys
from apply_service.api.limits import RATE_HEADERS, BodyBudget, LimitMiddleware, UnreadBodies
from apply_service.api.metrics import Metrics
from apply_service.errors import NotReady
from apply_service.service import Service
from apply_service.settings import Settings

DIALECTS = (native, openai, code_apply, responses)
"""The modules of the dialects.  Each module has its routes (`router`), and the form of errors at its paths
(`ERRORS`)."""
SHAPES: dict[str, ErrorShape] = {start: shape for dialect in DIALECTS for start, shape in dialect.ERRORS.items()}


def shape_at(path: str) -> ErrorShape:
    """Return the form of errors at a path: the form that belongs to the longest matching path prefix of any dialect."""
    return SHAPES.get(max(filter(path.startswith, SHAPES), key=len, default=""), NATIVE)


def create_app(service: Service, settings: Settings) -> FastAPI:
    """Return the application for a running service.  Raises SettingsError if the file of API keys is not valid."""
    metrics, budget, keys = Metrics(service, settings), BodyBudget(settings), hold_keys(settings.keys_file)
    has_any_name = settings.allow_open or keys is not None
    cors, own_host = settings.cors_origins, None if has_any_name else settings.host.lower()
    exposed = [REQUEST_ID, "Retry-After", *RATE_HEADERS, openai.CONFIDENCE_HEADER, openai.DOUBT_HEADER]
    cors_rules: dict[str, Any] = {"allow_origins": cors, "allow_methods": ["GET", "POST"], "allow_headers": ["*"]}
    app = FastAPI(
        title="apply-service",
        version=version("apply-service"),
        description="Code-edit apply service: original file + edit -> merged file.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # clients do not resend a body after a redirect; a 404 tells them more
        # `AuthMiddleware` checks the keys; this only documents in OpenAPI how to send one
        dependencies=[Security(HTTPBearer(scheme_name="key", auto_error=False))] if keys is not None else [],
        middleware=[  # outermost first
            Middleware(UnreadBodies),
            *([Middleware(CORSMiddleware, expose_headers=exposed, **cors_rules)] if cors else []),
            Middleware(CallMiddleware, on_end=metrics.observe_call, shape_at=shape_at),
            Middleware(
                AuthMiddleware,
                keys=keys,
                cors_origins=cors,
                own_host=own_host,
                has_playground=settings.has_playground,
            ),
            Middleware(LimitMiddleware, settings=settings, budget=budget),
        ],
    )
    app.state.service, app.state.settings, app.state.metrics, app.state.budget = service, settings, metrics, budget
    app.state.keys = keys
    for part in (*(dialect.router for dialect in DIALECTS), router, *pages.playground_routers(settings)):
        app.include_router(part)
    app.add_exception_handler(HTTPException, on_http_error)
    service.observe(note_outcome)
    service.observe(metrics.observe_ticket)
    return app


async def on_http_error(request: Request, error: Exception) -> NoReturn:
    """Turn the framework's errors into ApplyErrors, which `CallMiddleware` answers."""
    assert isinstance(error, HTTPException)
    this_call().headers.update(error.headers or {})
    raise from_status(error.status_code, request.url.path, request.method)


# -- health and metrics ------------------------------------------------------------------------------------
router = APIRouter()
UNREADY: dict[int | str, dict[str, Any]] = {503: {"description": "Error codes: not_ready.", "model": ErrorBody}}


class Health(BaseModel):
    status: str


class Readiness(BaseModel):
    status: str
    model: str
    models: list[str]
    n_active: int
    queue_length: int
    queue_limit: int


@router.head("/healthz", include_in_schema=False)  # some probes send HEAD
@router.get("/healthz", summary="Whether the engine thread is alive", responses=UNREADY)
async def healthz(request: Request) -> Health:
    if not state_of(request)[0].is_alive:
        raise NotReady("the thread that runs the models has ended", remedy="restart the service")
    return Health(status="ok")


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", summary="Whether a request would be taken", responses=UNREADY)
async def readyz(request: Request) -> Readiness:
    (service, settings), budget = state_of(request), request.app.state.budget
    n_waiting, limit = service.queue_length, settings.queue_limit
    if not service.is_ready:
        raise NotReady("the service is shutting down", remedy="ask another replica, or wait until this one is back")
    if not service.has_workers:
        message = "the service can't start the process that reads edits"
        raise NotReady(message, remedy="wait a moment and try again; the service's log says why")
    if budget.is_full:
        message = "the requests in progress use all the memory allowed for request bodies"
        raise NotReady(message, value=budget.n_held, limit=budget.limit, remedy="wait a moment and try again")
    if not service.has_room:
        raise NotReady("the queue is full", value=n_waiting, limit=limit, remedy="wait a moment and try again")
    name = str if this_call().is_known else public_name
    return Readiness(
        status="ready",
        model=name(settings.model),
        models=list(map(name, settings.model_sources)),
        n_active=service.n_active,
        queue_length=n_waiting,
        queue_limit=limit,
    )


def public_name(model: str) -> str:
    """Return the part of a model's name that anyone may see.  Folders are left out, because the name may be a path on
    this machine."""
    return PureWindowsPath(model).name or "model"


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    return HTMLResponse(pages.render_docs(request.app.openapi()), headers=pages.DOCS_HEADERS)


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request) -> Response:
    text = exposition.generate_latest(request.app.state.metrics.registry)
    return Response(text, media_type=exposition.CONTENT_TYPE_LATEST)

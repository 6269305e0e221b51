"""The HTTP application: dialects and health on one FastAPI app, every error in the one shape.

It neither opens nor closes the service it is given.
"""

from __future__ import annotations

import logging
import traceback
from importlib.metadata import version

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from apply_service.api.batch import batch_router
from apply_service.api.dialects import dialect_routers
from apply_service.api.docs_page import render_docs
from apply_service.api.error_shapes import error_response
from apply_service.api.errors import from_status, from_validation
from apply_service.api.health import health_router
from apply_service.api.native import native_router
from apply_service.errors import ApplyError, EngineFailure
from apply_service.service import Service
from apply_service.settings import Settings

log = logging.getLogger(__name__)


def create_app(service: Service, settings: Settings) -> FastAPI:
    """The application over a running service."""
    app = FastAPI(
        title="apply-service",
        version=version("apply-service"),
        description="Code-edit apply service: original file + edit -> merged file.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    app.include_router(native_router(service, settings))
    app.include_router(batch_router(service, settings))
    for router in dialect_routers(service, settings):
        app.include_router(router)
    app.include_router(health_router(service, settings))
    _add_docs_page(app)
    _add_error_handlers(app)
    return app


def _add_docs_page(app: FastAPI) -> None:
    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(render_docs(app.openapi()))


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(ApplyError)
    async def on_apply_error(request: Request, error: ApplyError) -> Response:
        return error_response(error, request.url.path)

    @app.exception_handler(HTTPException)
    async def on_http_exception(request: Request, error: HTTPException) -> Response:
        path = request.url.path
        response = error_response(from_status(error.status_code, path, request.method), path)
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(RequestValidationError)
    async def on_validation_error(request: Request, error: RequestValidationError) -> Response:
        return error_response(from_validation(error.errors(), []), request.url.path)

    @app.exception_handler(Exception)
    async def on_crash(request: Request, error: Exception) -> Response:
        log.error("request crashed: %s\n%s", type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))
        failure = EngineFailure("The service failed on this request.", value=type(error).__name__)
        return error_response(failure, request.url.path)

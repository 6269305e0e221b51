"""`/healthz`: the process works.  `/readyz`: a request would be taken now.  Both answer HEAD, as some probes ask."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from apply_service.api.answer import ErrorBody
from apply_service.api.limits import BodyBudget
from apply_service.errors import NotReady
from apply_service.service import Service
from apply_service.settings import Settings


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
    router = APIRouter()
    unready: dict[int | str, dict[str, Any]] = {503: {"description": "Error codes: not_ready.", "model": ErrorBody}}

    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz", summary="Whether the engine thread is alive", responses=unready)
    async def healthz() -> Health:
        if not service.is_alive:
            raise NotReady("The engine thread has ended.", remedy="Restart the service.")
        return Health(status="ok")

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz", summary="Whether a request would be taken", responses=unready)
    async def readyz() -> Readiness:
        if not service.is_ready:
            raise NotReady("The service is shutting down.", remedy="Ask another replica, or wait.")
        if budget.is_full:
            raise NotReady("Bodies fill the service.", value=budget.n_held, limit=budget.limit, remedy="Wait a moment.")
        if not service.has_room:
            raise NotReady(
                "The queue is full.", value=service.queue_length, limit=settings.queue_limit, remedy="Wait a moment."
            )
        return Readiness(
            status="ready",
            model=settings.model,
            models=list(settings.model_sources),
            n_active=service.n_active,
            queue_length=service.queue_length,
            queue_limit=settings.queue_limit,
        )

    return router

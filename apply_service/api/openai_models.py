"""`GET /v1/models`: the names that a request may give, models first, then their aliases."""

from __future__ import annotations

import time
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from apply_service.api.dialect import documented_responses
from apply_service.api.model_names import aliases, served_models
from apply_service.errors import UnknownModel
from apply_service.settings import Settings

PATHS = ("/v1/models", "/v1/apply/models")


class ModelCard(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "apply-service"
    alias_of: str | None = Field(description="The model that answers for this name; null where it is one.")


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelCard]


def models_router(settings: Settings) -> APIRouter:
    """The routes that list models."""
    router = APIRouter()
    cards = _cards(settings)
    for path in PATHS:
        _add_routes(router, path, cards)
    return router


def _cards(settings: Settings) -> dict[str, ModelCard]:
    started = int(time.time())
    own = dict.fromkeys(served_models(settings))
    names: dict[str, str | None] = {**aliases(settings), **own}
    ordered = [*own, *(name for name in names if name not in own)]
    return {name: ModelCard(id=name, created=started, alias_of=names[name]) for name in ordered}


def _add_routes(router: APIRouter, path: str, cards: dict[str, ModelCard]) -> None:
    answers: dict[str, Any] = {"responses": _responses(path)}

    @router.get(path, summary="The models that a request may name", **answers)
    async def models() -> ModelList:
        return ModelList(data=list(cards.values()))

    @router.get(path + "/{name:path}", summary="One of the models", **answers)
    async def model(name: str) -> ModelCard:
        if name not in cards:
            raise UnknownModel("No such model.", value=name, limit=list(cards), remedy="Name one of these.")
        return cards[name]


def _responses(path: str) -> dict[int | str, dict[str, Any]]:
    return {status: said for status, said in documented_responses(path, ModelList).items() if status != 200}

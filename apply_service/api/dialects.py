"""All dialects but the native one.  A new dialect is one new file and one line here."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter

from apply_service.api.code_apply import code_apply_router
from apply_service.api.openai_chat import chat_router
from apply_service.api.openai_completions import completions_router
from apply_service.api.openai_models import models_router
from apply_service.service import Service
from apply_service.settings import Settings


def dialect_routers(service: Service, settings: Settings) -> Iterator[APIRouter]:
    """Their routes, in the order of the OpenAPI page."""
    yield chat_router(service, settings)
    yield completions_router(service, settings)
    yield models_router(settings)
    yield code_apply_router(service, settings)

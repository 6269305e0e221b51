"""Model names as clients send them -> the models that there are.

A client of another service asks for that service's models; the setting `model_aliases` says which of those names are
taken here, and for what.  A name that is neither a model nor an alias goes on as it is, and is refused by the pipeline.
"""

from __future__ import annotations

from apply_service.settings import Settings


def served_models(settings: Settings) -> tuple[str, ...]:
    """The models that a request may name, the service's own first."""
    return tuple(settings.model_sources)


def aliases(settings: Settings) -> dict[str, str]:
    """Alias -> model.  An entry `NAME` stands for the service's own model, `NAME=MODEL` for that one."""
    pairs = (entry.partition("=") for entry in settings.model_aliases)
    return {alias: model or settings.model for alias, _, model in pairs}


def resolve_model(name: str | None, settings: Settings) -> str | None:
    """The model that a request means; None, the service's own, stays so."""
    if name is None or name in served_models(settings):
        return name
    return aliases(settings).get(name, name)

"""Batches, models and readiness seen from the client: values to JSON, JSON to values.  The mirror of
`api.batch_schema`, `api.openai_models` and `api.health`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apply_service.batch.requests import PatchRequest, PatchSource
from apply_service.batch.results import BatchItem, BatchMode, BatchResult
from apply_service.clients.wire import decode_answer, decode_error, decode_verdict, encode_request
from apply_service.types import ApplyRequest


@dataclass(frozen=True, slots=True)
class Model:
    """A name that requests may give."""

    id: str
    alias_of: str | None = None
    """The model that answers for this name; None where it is one."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """A service that takes requests."""

    model: str
    queue_length: int
    queue_limit: int


def encode_edits(requests: Sequence[ApplyRequest], mode: BatchMode) -> dict[str, object]:
    return {"mode": mode, "edits": [encode_request(request) for request in requests]}


def encode_patch(request: PatchRequest) -> dict[str, object]:
    return {
        "mode": request.mode,
        "patch": request.patch,
        "files": [_encode_source(source) for source in request.files],
        "on_verdict": dict(request.on_verdict),
        "diff": request.diff,
    }


def decode_batch(answer: Mapping[str, Any]) -> BatchResult:
    """Raises KeyError, TypeError or ValueError: it is no answer of this service."""
    return BatchResult(answer["mode"], tuple(_decode_item(item) for item in answer["items"]))


def decode_models(answer: Mapping[str, Any]) -> tuple[Model, ...]:
    """Raises as `decode_batch` does."""
    return tuple(Model(card["id"], card.get("alias_of")) for card in answer["data"])


def decode_readiness(answer: Mapping[str, Any]) -> Readiness:
    """Raises as `decode_batch` does."""
    return Readiness(answer["model"], answer["queue_length"], answer["queue_limit"])


def _encode_source(source: PatchSource) -> dict[str, object]:
    return {"path": source.path, "original": source.text, "encoding": source.encoding}


def _decode_item(item: Mapping[str, Any]) -> BatchItem:
    return BatchItem(
        path=item["path"],
        action=item["action"],
        status=item["status"],
        verdicts=tuple(decode_verdict(verdict) for verdict in item["verdicts"]),
        result=None if item["answer"] is None else decode_answer(item["answer"]),
        error=None if item["error"] is None else decode_error(item),
        source=item["source"],
        new_mode=item["new_mode"],
        diff=item["diff"],
    )

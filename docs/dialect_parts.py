"""The generated parts of the page on dialects: fields, paths, error shapes, aliases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from fastapi import APIRouter
from pydantic import BaseModel

from apply_service.api import code_apply, openai, responses
from apply_service.api.app import shape_at
from apply_service.api.chat_edit import MERCURY, MORPH
from apply_service.api.code_apply import SPELLINGS, CodeApplyAnswer, CodeApplyRequest, FlatErrorBody
from apply_service.api.openai import (
    ApplyOptions,
    ChatRequest,
    CompletionAnswer,
    CompletionDetails,
    CompletionRequest,
    ModelCard,
    OpenAIErrorDetail,
    Usage,
)
from apply_service.api.schema import EditOptions
from apply_service.settings import Settings
from docs.tables import field_table, named_fields, table


def paths() -> str:
    """Every route of the dialects."""
    return table(
        ("path", "what", "errors"), (row for part in (openai, code_apply, responses) for row in _rows(part.router))
    )


def _rows(router: APIRouter) -> Iterator[tuple[str, str, str]]:
    shapes = {"OpenAIErrorBody": "OpenAI's", "FlatErrorBody": "flat"}
    for route in router.routes:
        path, methods, summary = (getattr(route, name) for name in ("path", "methods", "summary"))
        yield f"`{next(iter(methods))} {path}`", summary, shapes[shape_at(path).model.__name__]


def chat_fields() -> str:
    with_effect, without = _split(ChatRequest)
    own = [name for name in CompletionRequest.model_fields if name not in ChatRequest.model_fields]
    return "\n".join(
        (
            field_table(ChatRequest, only=with_effect),
            "Completions have, in the place of `messages` and `prediction`:\n",
            field_table(CompletionRequest, only=own),
            "Taken from clients that always send them, and without effect:\n",
            field_table(ChatRequest, only=without),
        )
    )


def _split(model: type[BaseModel]) -> tuple[list[str], list[str]]:
    """The names of the fields that have an effect, and of those that have none."""
    idle = [name for name, field in model.model_fields.items() if str(field.description).startswith("No effect")]
    return [name for name in model.model_fields if name not in idle], idle


def option_fields() -> str:
    native = ", ".join(f"`{name}`" for name in EditOptions.model_fields)
    own = [name for name in ApplyOptions.model_fields if name not in EditOptions.model_fields]
    return f"Those of `POST /v1/apply`: {native}; and\n\n" + field_table(ApplyOptions, only=own)


def responses_fields() -> str:
    """What a request of `/v1/responses` has beside what a chat has."""
    chat = CompletionRequest.model_fields.keys() | ChatRequest.model_fields.keys()
    own = [name for name in responses.ResponsesRequest.model_fields if name not in chat]
    return field_table(responses.ResponsesRequest, only=own)


def chat_answer_fields() -> str:
    shapes: dict[str, type[BaseModel]] = {"usage": Usage, "completion_tokens_details": CompletionDetails}
    return "\n".join([field_table(CompletionAnswer), *(named_fields(name, shape) for name, shape in shapes.items())])


def code_apply_fields() -> str:
    rows = ((f"`{name}`", f"`{other}`") for name, other in SPELLINGS.items())
    spellings = table(("field", "also spelled"), rows)
    answer = "The answer:\n\n" + field_table(CodeApplyAnswer)
    fields = field_table(CodeApplyRequest, only=CodeApplyRequest.model_fields)
    return "\n".join((fields, spellings, answer))


def model_fields() -> str:
    return field_table(ModelCard)


def aliases() -> str:
    return ", ".join(f"`{name}`" for name in Settings().model_aliases) + "\n"


def tag_rules() -> str:
    rows = [
        ("Morph, Relace", MORPH.seam.pattern, MORPH.opening.pattern, MORPH.closing),
        ("Mercury", MERCURY.seam.pattern, MERCURY.opening.pattern, MERCURY.closing),
    ]
    return table(("tags", "seam, exactly once", "the file begins after", "the edit ends before the last"), _code(rows))


def _code(rows: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    for name, *patterns in rows:
        yield name, *(f"`{pattern}`" for pattern in patterns)


def dialect_errors() -> str:
    return "\n".join(
        (
            "OpenAI-like paths, under `error`:\n",
            field_table(OpenAIErrorDetail),
            "`/v1/code/apply`, at the top:\n",
            field_table(FlatErrorBody),
        )
    )


DIALECT_PARTS: Mapping[str, Callable[[], str]] = {
    "dialect-paths": paths,
    "chat-request": chat_fields,
    "chat-answer": chat_answer_fields,
    "responses": responses_fields,
    "apply-options": option_fields,
    "tag-rules": tag_rules,
    "code-apply": code_apply_fields,
    "model-card": model_fields,
    "model-aliases": aliases,
    "dialect-errors": dialect_errors,
}

"""Serves `/v1/code/apply`, the structured endpoint of Morph and Relace.

Its answer and errors have a form of their own; its stream has OpenAI's form (`openai`).  In an error, `error` is the
message, and the other fields stand beside it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import AliasChoices, ConfigDict, Field

from apply_service.api.answer import AnswerPart
from apply_service.api.chat_edit import ChatEdit
from apply_service.api.dialect import documented, read_call
from apply_service.api.errors import RETRY_AFTER_S, ErrorDetail, ErrorShape, details_of, with_remedy
from apply_service.api.openai import (
    EVENTS,
    REPORT_TEXT,
    EditBody,
    OpenAIReply,
    Usage,
    apply_edit,
    report_of,
    usage_of,
)
from apply_service.errors import ApplyError, Overloaded
from apply_service.types import ApplyResult

router = APIRouter()
SPELLINGS = {
    "initial_code": "initialCode",
    "edit_snippet": "editSnippet",
    "instruction": "instructions",
    "relace_metadata": "relaceMetadata",
}
"""Field -> its other spelling.  A request may use only one of the two."""


def _spelled(name: str, default: Any, description: str) -> Any:
    return Field(default, validation_alias=AliasChoices(name, SPELLINGS[name]), description=description)


def _with_spellings(schema: dict[str, Any]) -> None:
    """Add the other spelling of each field to the schema of `CodeApplyRequest`."""
    needed = schema.pop("required")
    for name, other in SPELLINGS.items():
        schema["properties"][other] = schema["properties"][name]
    choices = [{"oneOf": [{"required": [name]}, {"required": [SPELLINGS[name]]}]} for name in needed]
    unmixed = [{"not": {"required": [name, other]}} for name, other in SPELLINGS.items() if name not in needed]
    schema["allOf"] = [*choices, *unmixed]


class CodeApplyRequest(EditBody):
    """One edit of one file.  A field that is not listed is refused, and the error names it."""

    model_config = ConfigDict(json_schema_extra=_with_spellings)

    initial_code: str = _spelled("initial_code", ..., "The file as it is.")
    edit_snippet: str = _spelled("edit_snippet", ..., "The edit.")
    instruction: str | None = _spelled("instruction", None, "What the edit is to do, in words.")
    relace_metadata: Any = _spelled("relace_metadata", None, "Its `file_path` is the file's name; no other effect.")

    @property
    def with_usage(self) -> bool:
        return True


class CodeApplyAnswer(AnswerPart):
    """The merged file under two names, because clients differ in the name that they read."""

    mergedCode: str  # noqa: N815 - the clients' spelling
    merged_code: str
    usage: Usage
    apply_service: dict[str, Any] = Field(description=REPORT_TEXT)


class FlatErrorBody(ErrorDetail):
    """An error on `/v1/code/apply`."""

    error: str = Field(description="What is wrong, and what to do.")


class FlatErrors(ErrorShape):
    """Errors as the clients of this path read them."""

    model = FlatErrorBody

    def headers(self, error: ApplyError) -> dict[str, str]:
        headers = super().headers(error)
        if isinstance(error, Overloaded):  # Relace's clients read this header of a 429
            reset = str(int(time.time()) + RETRY_AFTER_S)
            headers |= {"X-RateLimit-Limit": str(error.limit), "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}
        return headers

    def body(self, error: ApplyError) -> dict[str, Any]:
        details = details_of(error)
        return {"error": with_remedy(details), **details}


FLAT = FlatErrors()
ERRORS: Mapping[str, ErrorShape] = {"/v1/code/": FLAT}


class CodeApplyReply(OpenAIReply):
    """The `ReplyWriter` of `/v1/code/apply`: OpenAI's chunks, but its own answer and errors."""

    errors = FLAT

    def _answer(self, result: ApplyResult) -> dict[str, Any]:
        code = {"mergedCode": result.merged_code, "merged_code": result.merged_code}
        return {**code, "usage": usage_of(result.stats), "apply_service": report_of(result)}


@router.post(
    **documented("/v1/code/apply", CodeApplyRequest, CodeApplyAnswer, EVENTS, FLAT),
    summary="Apply one edit, file and edit in fields of their own",
)
async def code_apply(request: Request) -> Response:
    """With `stream: true`, the answer is OpenAI's chunks, then `[DONE]`; the last chunk but one has `usage`."""
    call = await read_call(request, CodeApplyRequest.parse)
    edit = ChatEdit(call.initial_code, call.edit_snippet, call.instruction or "")
    said = call.relace_metadata if isinstance(call.relace_metadata, dict) else {}
    path = call.apply_service.path or said.get("file_path", said.get("filePath"))
    return await apply_edit(request, edit, call, CodeApplyReply, path=path if isinstance(path, str) else None)

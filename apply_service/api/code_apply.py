"""`POST /v1/code/apply`, the structured endpoint of Morph and Relace, in all spellings that their clients use.

`initial_code` or `initialCode`, `edit_snippet` or `editSnippet`, `instruction` or `instructions`; the answer has
`mergedCode` and `merged_code`.  Errors are flat: `{"error": "what and why", ...}`.  A stream is OpenAI's, with usage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from apply_service.api.body import read_call
from apply_service.api.chat_edit import ChatEdit
from apply_service.api.dialect import documented_responses, respond
from apply_service.api.error_shapes import flat_error
from apply_service.api.openai_answer import EVENTS, REPORT_TEXT, Usage, data_frame, report
from apply_service.api.openai_reply import OpenAIReply, is_sent_at_once, refuse_unseen
from apply_service.api.openai_schema import ApplyOptions, options_field
from apply_service.api.schema import RequestModel, body_schema
from apply_service.errors import ApplyError
from apply_service.service import Service
from apply_service.settings import Settings
from apply_service.types import ApplyEvent, ApplyRequest, ApplyResult

PATH = "/v1/code/apply"
SPELLINGS = {
    "initial_code": ("initialCode",),
    "edit_snippet": ("editSnippet",),
    "instruction": ("instructions",),
    "relace_metadata": ("relaceMetadata",),
}
"""Field -> what else it is called.  One spelling of each may be sent."""


def _spelled(name: str, default: Any, description: str) -> Any:
    return Field(default, validation_alias=AliasChoices(name, *SPELLINGS[name]), description=description)


class CodeApplyRequest(RequestModel):
    """One edit of one file.  A field that is not listed is refused by name."""

    initial_code: str = _spelled("initial_code", ..., "The file as it is.")
    edit_snippet: str = _spelled("edit_snippet", ..., "The edit.")
    instruction: str | None = _spelled("instruction", None, "What the edit is to do, in words.")
    relace_metadata: Any = _spelled("relace_metadata", None, "No effect.")
    model: str | None = Field(None, description="Model by name or alias; left out, the service's own.")
    stream: bool | None = Field(None, description="Answer as OpenAI's chat completion chunks.")
    apply_service: ApplyOptions = options_field()

    def to_request(self) -> ApplyRequest:
        """The service's own request."""
        options = self.apply_service.model_dump(exclude={"stream_at_once"})
        return ApplyRequest(
            original=self.initial_code,
            update=self.edit_snippet,
            instruction=self.instruction or "",
            model=self.model,
            **options,
        )


class CodeApplyAnswer(BaseModel):
    """The merged file, twice: clients read either name."""

    model_config = ConfigDict(extra="forbid")

    mergedCode: str  # noqa: N815 - the clients' spelling
    merged_code: str
    usage: Usage
    apply_service: dict[str, Any] = Field(description=REPORT_TEXT)


class CodeApplyReply:
    """The dialect's `Reply`."""

    def __init__(self, call: CodeApplyRequest, settings: Settings) -> None:
        self._options = call.apply_service
        self._stream = OpenAIReply(
            "chat.completion",
            ChatEdit(call.initial_code, call.edit_snippet, ""),
            model=call.model or settings.model,
            options=call.apply_service,
            at_once=is_sent_at_once(call.apply_service, settings),
            with_usage=True,
        )

    def whole(self, result: ApplyResult) -> str:
        refuse_unseen(result, self._options)
        return CodeApplyAnswer(
            mergedCode=result.merged_code,
            merged_code=result.merged_code,
            usage=Usage.of(result.stats),
            apply_service=report(result),
        ).model_dump_json()

    def frames(self, event: ApplyEvent) -> Iterable[bytes]:
        return self._stream.frames(event)

    def error_frame(self, error: ApplyError) -> bytes:
        return data_frame(json.dumps(flat_error(error), ensure_ascii=True))


def code_apply_router(service: Service, settings: Settings) -> APIRouter:
    """The dialect's route."""
    router = APIRouter()

    @router.post(
        PATH,
        summary="Apply one edit, file and edit in fields of their own",
        description="With `stream: true`: OpenAI's chunks, the last but one with `usage`, then `[DONE]`.",
        response_model=None,
        responses=documented_responses(PATH, CodeApplyAnswer, events=EVENTS),
        openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": _schema()}}}},
    )
    async def apply(request: Request) -> Response:
        call = await read_call(request, settings.max_body_bytes, CodeApplyRequest.parse_json, service)
        reply = CodeApplyReply(call, settings)
        wanted = call.to_request()
        return await respond(request, wanted, reply, stream=bool(call.stream), service=service, settings=settings)

    return router


def _schema() -> dict[str, Any]:
    """The body's schema with every spelling, each of which stands for the other."""
    schema = body_schema(CodeApplyRequest)
    needed = schema.pop("required")
    for name, others in SPELLINGS.items():
        schema["properties"].update(dict.fromkeys(others, schema["properties"][name]))
    choices = [{"oneOf": [{"required": [n]} for n in (name, *SPELLINGS[name])]} for name in needed]
    unmixed = [{"not": {"required": [name, *others]}} for name, others in SPELLINGS.items() if name not in needed]
    return {**schema, "allOf": [*choices, *unmixed]}

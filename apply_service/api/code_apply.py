"""`POST /v1/code/apply`, the structured endpoint of Morph and Relace, in all spellings that their clients use.

`initial_code` or `initialCode`, `edit_snippet` or `editSnippet`, `instruction` or `instructions`; the answer has
`mergedCode` and `merged_code`.  Errors are flat: `{"error": "what and why", ...}`.  A stream is OpenAI's, with usage.
"""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import AliasChoices, Field

from apply_service.api.answer import AnswerPart
from apply_service.api.chat_edit import ChatEdit
from apply_service.api.dialect import body_schema, documented, read_call, sse_event, state_of
from apply_service.api.errors import error_json
from apply_service.api.openai import EVENTS, REPORT_TEXT, EditBody, OpenAIReply, Usage, apply_edit, report_of, usage_of
from apply_service.errors import ApplyError
from apply_service.types import ApplyResult

PATH = "/v1/code/apply"
SPELLINGS = {
    "initial_code": "initialCode",
    "edit_snippet": "editSnippet",
    "instruction": "instructions",
    "relace_metadata": "relaceMetadata",
}
"""Field -> what else it is called.  One spelling of each may be sent."""


def _spelled(name: str, default: Any, description: str) -> Any:
    return Field(default, validation_alias=AliasChoices(name, SPELLINGS[name]), description=description)


class CodeApplyRequest(EditBody):
    """One edit of one file.  A field that is not listed is refused by name."""

    initial_code: str = _spelled("initial_code", ..., "The file as it is.")
    edit_snippet: str = _spelled("edit_snippet", ..., "The edit.")
    instruction: str | None = _spelled("instruction", None, "What the edit is to do, in words.")
    relace_metadata: Any = _spelled("relace_metadata", None, "No effect.")


class CodeApplyAnswer(AnswerPart):
    """The merged file, twice: clients read either name."""

    mergedCode: str  # noqa: N815 - the clients' spelling
    merged_code: str
    usage: Usage
    apply_service: dict[str, Any] = Field(description=REPORT_TEXT)


class CodeApplyReply(OpenAIReply):
    """The dialect's `ReplyWriter`: OpenAI's chunks, but an answer and errors of its own."""

    def whole(self, result: ApplyResult) -> str:
        self.refuse_unseen(result)
        code = {"mergedCode": result.merged_code, "merged_code": result.merged_code}
        more = {"usage": usage_of(result.stats), "apply_service": report_of(result)}
        return json.dumps({**code, **more}, ensure_ascii=False)

    def error_frame(self, error: ApplyError) -> bytes:
        return sse_event(error_json(error, PATH))


def _with_spellings(options: dict[str, Any]) -> dict[str, Any]:
    """The route's description with every spelling, each of which stands for the other."""
    schema = body_schema(CodeApplyRequest)
    needed = schema.pop("required")
    for name, other in SPELLINGS.items():
        schema["properties"][other] = schema["properties"][name]
    choices = [{"oneOf": [{"required": [name]}, {"required": [SPELLINGS[name]]}]} for name in needed]
    unmixed = [{"not": {"required": [name, other]}} for name, other in SPELLINGS.items() if name not in needed]
    body = options["openapi_extra"]["requestBody"]["content"]["application/json"]
    body["schema"] = {**schema, "allOf": [*choices, *unmixed]}
    return options


router = APIRouter()


@router.post(
    **_with_spellings(documented(PATH, CodeApplyRequest, CodeApplyAnswer, EVENTS)),
    summary="Apply one edit, file and edit in fields of their own",
)
async def apply(request: Request) -> Response:
    """With `stream: true`: OpenAI's chunks, the last but one with `usage`, then `[DONE]`."""
    call = await read_call(request, CodeApplyRequest.parse)
    edit = ChatEdit(call.initial_code, call.edit_snippet, call.instruction or "")
    reply = CodeApplyReply("chat.completion", edit, call, state_of(request)[1], with_usage=True)
    return await apply_edit(request, edit, call, reply)

"""The older OpenAI completions, for the client that sends its tagged apply prompt there: `POST /v1/completions`.

The same edit as in `openai_chat`, with the prompt in the place of the user message.  A prompt without tags is refused.
"""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response

from apply_service.api.body import read_call
from apply_service.api.chat_edit import read_chat
from apply_service.api.chat_tags import MORPH
from apply_service.api.dialect import documented_responses
from apply_service.api.openai_answer import EVENTS, TextAnswer
from apply_service.api.openai_chat import answer_edit
from apply_service.api.openai_schema import CompletionRequest
from apply_service.api.schema import request_body
from apply_service.service import Service
from apply_service.settings import Settings

PATH = "/v1/completions"


def completions_router(service: Service, settings: Settings) -> APIRouter:
    """The dialect's route."""
    router = APIRouter()

    @router.post(
        PATH,
        summary="Apply one edit, asked as a tagged prompt",
        description="The prompt holds `<code>FILE</code><update>EDIT</update>`; any other prompt is refused.",
        response_model=None,
        responses=documented_responses(PATH, TextAnswer, events=EVENTS),
        openapi_extra={"requestBody": request_body(CompletionRequest)},
    )
    async def complete(request: Request) -> Response:
        call = await read_call(request, settings.max_body_bytes, CompletionRequest.parse_json, service)
        reading = partial(read_chat, [], [call.prompt], None, MORPH)
        return await answer_edit("text_completion", call, reading, request, service, settings)

    return router

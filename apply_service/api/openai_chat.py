"""The OpenAI dialect: chat completions with tags or a prediction, at every base URL that clients build.

`/v1/chat/completions` and `/v1/apply/chat/completions` take Morph's tags, `/v1/apply/completions` (chat-shaped, in
spite of its name) takes Mercury's.  What a chat asks for is decided in `chat_edit`; what is written back in
`openai_reply`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from fastapi import APIRouter, Request, Response

from apply_service.api.body import read_call
from apply_service.api.chat_edit import ChatEdit, read_chat
from apply_service.api.chat_tags import MERCURY, MORPH, TagSet
from apply_service.api.dialect import documented_responses, respond
from apply_service.api.openai_answer import EVENTS, ChatAnswer, Kind
from apply_service.api.openai_reply import OpenAIReply, is_sent_at_once
from apply_service.api.openai_schema import ChatRequest, CompletionFields
from apply_service.api.schema import request_body
from apply_service.deadline import Deadline
from apply_service.service import Service
from apply_service.settings import Settings
from apply_service.types import ApplyRequest

MORPH_PATHS = ("/v1/chat/completions", "/v1/apply/chat/completions")
MERCURY_PATH = "/v1/apply/completions"
MORPH_TEXT = (
    "The user message holds `<code>FILE</code><update>EDIT</update>`, with `<instruction>` before it if wanted; or "
    "`prediction` is the file and the user message the edit. Anything else is refused: `not_an_edit`. With "
    "`stream: true`: chunks, then `[DONE]`; the text is held back until nothing can replace it any more."
)
MERCURY_TEXT = (
    "As chat completions, tagged `<|original_code|>FILE<|/original_code|>` and "
    "`<|update_snippet|>EDIT<|/update_snippet|>`, each tag on a line of its own."
)


def chat_router(service: Service, settings: Settings) -> APIRouter:
    """The dialect's routes."""
    router = APIRouter()
    for path in MORPH_PATHS:
        _add_route(router, path, MORPH, MORPH_TEXT, service, settings)
    _add_route(router, MERCURY_PATH, MERCURY, MERCURY_TEXT, service, settings)
    return router


def _add_route(router: APIRouter, path: str, tags: TagSet, text: str, service: Service, settings: Settings) -> None:
    @router.post(
        path,
        summary="Apply one edit, asked as a chat",
        description=text,
        response_model=None,
        responses=documented_responses(path, ChatAnswer, events=EVENTS),
        openapi_extra={"requestBody": request_body(ChatRequest)},
    )
    async def chat(request: Request) -> Response:
        call = await read_call(request, settings.max_body_bytes, ChatRequest.parse_json, service)
        prediction = None if call.prediction is None else call.prediction.text
        reading = partial(read_chat, call.texts("system"), call.texts("user"), prediction, tags)
        return await answer_edit("chat.completion", call, reading, request, service, settings)


async def answer_edit(
    kind: Kind,
    call: CompletionFields,
    reading: Callable[[], ChatEdit],
    request: Request,
    service: Service,
    settings: Settings,
) -> Response:
    """Have the edit read out of the chat, apply it and answer as the call asks, all of it by one deadline."""
    deadline = Deadline(call.apply_service.timeout_s)
    edit = await service.call(reading, timeout_s=deadline.timeout_s)
    wanted = to_request(call, edit)
    if deadline.timeout_s is not None:
        deadline.check()
        wanted = replace(wanted, timeout_s=deadline.remaining_s)
    reply = OpenAIReply(
        kind,
        edit,
        model=call.model or settings.model,
        options=call.apply_service,
        at_once=is_sent_at_once(call.apply_service, settings),
        token_limit=call.token_limit,
        with_usage=call.stream_options is not None and call.stream_options.include_usage,
    )
    return await respond(request, wanted, reply, stream=bool(call.stream), service=service, settings=settings)


def to_request(call: CompletionFields, edit: ChatEdit) -> ApplyRequest:
    """The service's own request."""
    options = call.apply_service.model_dump(exclude={"stream_at_once"})
    return ApplyRequest(
        original=edit.original,
        update=edit.update,
        instruction=edit.instruction,
        model=call.model,
        temperature=call.temperature or 0.0,
        seed=call.seed or 0,
        **options,
    )

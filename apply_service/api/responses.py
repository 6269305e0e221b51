"""Serves `POST /v1/responses`: OpenAI's Responses in their simplest form, one tagged message in and one text out.

Nothing is stored.  `chat_edit` reads the edit, as it does for a chat.  A client that declares the tool `apply_patch`
gets the edit as a call of that tool, and no file.  `openai` says when streams send their text, and what errors look
like.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal, Self

from fastapi import APIRouter, Request, Response
from pydantic import Field, model_validator

from apply_service.api.answer import AnswerPart
from apply_service.api.chat_edit import ChatEdit, TagSet, read_chat
from apply_service.api.dialect import documented, sse_event
from apply_service.api.openai import (
    NEUTRAL,
    OPENAI,
    REPORT_TEXT,
    EditBody,
    OpenAIBody,
    OpenAIReply,
    TextFormat,
    apply_chat,
    report_of,
    usage_of,
)
from apply_service.api.schema import RequestModel
from apply_service.formats.write_call import write_call
from apply_service.settings import Settings
from apply_service.text.fidelity import normalise
from apply_service.types import ApplyResult

PATH = "/v1/responses"
EVENTS = (
    *("response.created", "response.output_item.added", "response.content_part.added", "response.output_text.delta"),
    *("response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed"),
    "error",
)
ERRORS = {PATH: OPENAI}
router = APIRouter()


class InputText(RequestModel):
    type: Literal["input_text"]
    text: str
    prompt_cache_breakpoint: Any = Field(None, description="No effect.")


class InputMessage(RequestModel):
    type: Literal["message"] | None = None
    role: Literal["system", "developer", "user"]
    content: str | list[InputText]

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class TextOptions(RequestModel):
    format: TextFormat | None = None
    verbosity: Any = Field(None, description="No effect.")


class PatchTool(RequestModel):
    type: Literal["apply_patch"]


class ResponsesRequest(OpenAIBody):
    """An edit, tagged in the user message."""

    input: str | list[InputMessage] = Field(description="A tagged message; or messages, one of them the user's.")
    instructions: str | None = Field(None, description="As a system message.")
    max_output_tokens: int | None = Field(None, ge=1, description="Most tokens; a longer answer is refused, never cut.")
    text: TextOptions | None = Field(None, description=NEUTRAL)
    tools: list[PatchTool] | None = Field(
        None, max_length=1, description="`apply_patch`: the answer is a call of it. No other tool is called."
    )
    tool_choice: Literal["auto", "none"] | None = Field(None, description="`none`: the answer is the file.")
    include: list[Any] | None = Field(None, max_length=0, description=NEUTRAL)
    top_logprobs: Literal[0] | None = Field(None, description=NEUTRAL)
    prompt: None = Field(None, description=NEUTRAL)
    context_management: None = Field(None, description=NEUTRAL)
    previous_response_id: None = Field(None, description=NEUTRAL)
    conversation: None = Field(None, description=NEUTRAL)
    background: Literal[False] | None = Field(None, description=NEUTRAL)
    truncation: Literal["disabled"] | None = Field(None, description=NEUTRAL)
    store: Literal[False] | None = Field(None, description="No effect: nothing is stored.")
    parallel_tool_calls: Any = Field(None, description="No effect: at most one tool is called.")
    max_tool_calls: Any = Field(None, description="No effect: at most one tool is called.")
    reasoning: Any = Field(None, description="No effect.")
    stream_options: Any = Field(None, description="No effect.")

    @property
    def token_limit(self) -> int | None:
        return self.max_output_tokens

    @property
    def wants_call(self) -> bool:
        """Whether the answer is a call of `apply_patch`."""
        return bool(self.tools) and self.tool_choice != "none"

    @model_validator(mode="after")
    def _refuse_streamed_call(self) -> Self:
        if self.wants_call and self.stream:
            raise ValueError("a call of `apply_patch` is not streamed: leave out `stream`")
        return self

    def read(self, tags: TagSet, max_anchored: int | None) -> ChatEdit:
        messages = [InputMessage(role="user", content=self.input)] if isinstance(self.input, str) else self.input
        user = [message.text for message in messages if message.role == "user"]
        system = [self.instructions or "", *(message.text for message in messages if message.role != "user")]
        return read_chat(system, user, None, tags, max_anchored)


class ResponsesAnswer(AnswerPart):
    """The merged file as one of OpenAI's responses; OpenAI's other fields have their defaults."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["completed"]
    model: str = Field(description="The model as it was asked for; `apply_service.model` says which one decided.")
    output: list[dict[str, Any]] = Field(
        description="One message with one `output_text`: the whole merged file; or one `apply_patch_call`."
    )
    usage: dict[str, Any]
    apply_service: dict[str, Any] = Field(description=REPORT_TEXT)


class ResponsesReply(OpenAIReply):
    """The `ReplyWriter` of responses."""

    error_event = "error"

    def __init__(self, edit: ChatEdit, call: EditBody, settings: Settings) -> None:
        super().__init__(edit, call, settings)
        name = str(self._head["id"]).removeprefix("chatcmpl-")
        self._place = {"item_id": f"msg_{name}", "output_index": 0, "content_index": 0}
        self._n_events = 0
        self._fixed = {
            "id": f"resp_{name}",
            "object": "response",
            "created_at": self._head["created"],
            "model": self._head["model"],
            **dict.fromkeys(("error", "incomplete_details", "instructions", "temperature", "top_p")),
            **{"metadata": {}, "parallel_tool_calls": False, "tool_choice": "none", "tools": []},
        }

    def _message(self, status: str, *texts: str) -> dict[str, Any]:
        content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []} for text in texts]
        return {
            "id": self._place["item_id"],
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": content,
        }

    def _answer(self, result: ApplyResult) -> dict[str, Any]:
        counts = usage_of(result.stats)
        usage = {
            "input_tokens": counts["prompt_tokens"],
            "input_tokens_details": {"cached_tokens": counts["prompt_tokens_details"]["cached_tokens"] or 0},
            "output_tokens": counts["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": counts["total_tokens"],
        }
        output = [self._call_of(result) or self._message("completed", self._edit.whole(result.merged_code))]
        more = {"usage": usage, "apply_service": report_of(result)}
        return {**self._fixed, "status": "completed", "output": output, **more}

    def _call_of(self, result: ApplyResult) -> dict[str, Any] | None:
        """Return the edit as a call of `apply_patch`; None if the client does not want one or nothing changes."""
        if not (isinstance(self._call, ResponsesRequest) and self._call.wants_call):
            return None
        path = self._call.apply_service.path or "file"
        original, merged = normalise(self._edit.original), normalise(result.merged_code)
        patch = write_call("v4a_patch", '{"type": "update_file", "path": "", "diff": ""}', original, merged, path)
        if patch is None:
            return None
        name = str(self._place["item_id"]).removeprefix("msg_")
        made = json.loads(patch)
        return {"id": f"apc_{name}", "call_id": f"call_{name}", "status": "completed", **made}

    def _opening(self) -> Iterator[bytes]:
        response = {**self._fixed, "status": "in_progress", "output": [], "usage": None}
        yield self._event(EVENTS[0], response=response)
        yield self._event(EVENTS[1], output_index=0, item=self._message("in_progress"))
        yield self._event(EVENTS[2], **self._place, part=self._message("", "")["content"][0])

    def _delta(self, text: str) -> bytes:
        return self._event(EVENTS[3], **self._place, delta=text, logprobs=[])

    def _ending(self, result: ApplyResult) -> Iterator[bytes]:
        text = self._edit.whole(result.merged_code)
        message = self._message("completed", text)
        yield self._event(EVENTS[4], **self._place, text=text, logprobs=[])
        yield self._event(EVENTS[5], **self._place, part=message["content"][0])
        yield self._event(EVENTS[6], output_index=0, item=message)
        yield self._event(EVENTS[7], response=self._answer(result))

    def _event(self, name: str, **said: Any) -> bytes:
        numbered = {"type": name, "sequence_number": self._n_events, **said}
        self._n_events += 1
        return sse_event(json.dumps(numbered, ensure_ascii=False), name)


@router.post(
    **documented(PATH, ResponsesRequest, ResponsesAnswer, EVENTS, OPENAI), summary="Apply one edit, as a response"
)
async def responses(request: Request) -> Response:
    """The input holds `<code>FILE</code><update>EDIT</update>`, with `<instruction>` before it if wanted.
    Anything else is refused: `not_an_edit`."""
    return await apply_chat(request, ResponsesRequest, ResponsesReply)

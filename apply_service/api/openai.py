"""Serves OpenAI's chats, completions and models.

`/v1/chat/completions` and `/v1/apply/chat/completions` take Morph's tags or a prediction; `/v1/apply/completions` takes
a chat with Mercury's tags; `/v1/completions` takes a tagged prompt.  `chat_edit` reads the edit.

Clients of these paths do not look at verdicts, so an answer is refused if a check found an error (`refuse_unseen`).  A
stream sends no text before the text is certain: another strategy may replace it, and so may the original's line ends.
With `stream_at_once`, a stream sends text at once.  If that text turns out not to be the answer, the stream ends in an
error and has no finish reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from apply_service.api.answer import AnswerPart, NativeAnswer, UsageOut
from apply_service.api.calls import this_call
from apply_service.api.chat_edit import EXTRALONG, MERCURY, MORPH, ChatEdit, TagSet, read_chat
from apply_service.api.dialect import (
    admissible,
    documented,
    error_responses,
    model_names,
    read_call,
    respond,
    sse_event,
    state_of,
    watch_client,
)
from apply_service.api.errors import ErrorDetail, ErrorShape, details_of, with_remedy
from apply_service.api.schema import MAX_SEED, EditOptions, RequestModel
from apply_service.deadline import Deadline
from apply_service.errors import (
    ApplyError,
    CheckFailed,
    ContextLimitExceeded,
    ResultError,
    StreamReplaced,
    Truncated,
    Unauthorized,
    UnknownField,
    UnknownModel,
    UnsupportedParameter,
)
from apply_service.settings import FOREIGN_MODELS, Settings
from apply_service.types import (
    DOUBT,
    ApplyEvent,
    ApplyRequest,
    ApplyResult,
    Certainty,
    DecodeStats,
    FinalEvent,
    OtherReading,
    Verdict,
    is_refused,
)

SAMPLING = "No effect: what is written is decided by file and edit, and `temperature` alone varies it."
NEUTRAL = "No effect: taken only as OpenAI's default, as anything else would change the answer."
DRAFTING = "No effect: the service drafts by itself, and drafts change no answer."
REPORT_TEXT = "The answer of `POST /v1/apply` without the merged file and usage: strategy, verdicts, edits, confidence."
EVENTS = ("message",)
"""All events of these streams are unnamed."""
DONE = b"data: [DONE]\n\n"
EVEN = 0.5
"""A result with less confidence than this is more likely wrong than right."""
CONFIDENCE_HEADER, DOUBT_HEADER = "X-Apply-Confidence", "X-Apply-Doubt"
MAX_HEADER_CHARS = 1000
PIECE_CHARS = 4096
"""Text that was held back is sent in pieces of about this size, cut at line ends."""
CHAT, TEXT = "chat.completion", "text_completion"
MAX_CHOICES = 5


# -- requests ----------------------------------------------------------------------------------------------------------
class ApplyOptions(EditOptions):
    """Options that the other services do not have."""

    stream_at_once: bool | None = Field(
        None, description="Stream text as it is decoded, though the end may still refuse it. Default: the setting."
    )


class EditBody(RequestModel):
    """The fields of all bodies of these dialects."""

    model: str | None = Field(None, description="Model by name or alias; left out, the service's own.")
    stream: bool | None = Field(None, description="Answer as server-sent events: OpenAI's chunks.")
    apply_service: ApplyOptions = Field(
        default_factory=lambda: ApplyOptions.model_validate({}),
        description="This service's own options: those of `POST /v1/apply`, and `stream_at_once`.",
    )

    @property
    def token_limit(self) -> int | None:
        """The maximum number of tokens; a longer answer is refused."""
        return None

    @property
    def with_usage(self) -> bool:
        """Whether a stream ends with a chunk of `usage`."""
        return False

    @property
    def most_choices(self) -> int:
        """The maximum number of choices (possible merges of the edit) that the client wants."""
        return 1


class TextPart(RequestModel):
    type: Literal["text"]
    text: str
    cache_control: Any = Field(None, description="No effect.")
    prompt_cache_breakpoint: Any = Field(None, description="No effect.")


class _Content(RequestModel):
    content: str | list[TextPart]

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class PredictedFile(_Content):
    """The file as it is now; most of the answer is expected to repeat it."""

    type: Literal["content"]


class StreamOptions(RequestModel):
    include_usage: bool | None = Field(False, description="End the stream with a chunk of `usage` and no choices.")
    include_obfuscation: Any = Field(None, description="No effect.")


class ChatMessage(_Content):
    role: Literal["system", "developer", "user"]
    name: str | None = None


class OpenAIBody(EditBody):
    """The fields of all of OpenAI's bodies.  Fields without effect say nothing about a merge; clients send some of them
    by default."""

    temperature: float | None = Field(None, ge=0.0, le=2.0, description="0, the default, is greedy.")
    top_p: Any = Field(None, description=SAMPLING)
    user: Any = Field(None, description="No effect.")
    metadata: Any = Field(None, description="No effect.")
    service_tier: Any = Field(None, description="No effect.")
    safety_identifier: Any = Field(None, description="No effect.")
    prompt_cache_key: Any = Field(None, description="No effect.")
    prompt_cache_options: Any = Field(None, description="No effect.")
    prompt_cache_retention: Any = Field(None, description="No effect.")
    moderation: None = Field(None, description=NEUTRAL)

    def read(self, tags: TagSet, max_anchored: int | None) -> ChatEdit:
        """Return the edit that the body holds; see `read_chat`."""
        raise NotImplementedError

    @property
    def sampling(self) -> dict[str, Any]:
        """The fields of the same names in an `ApplyRequest`."""
        return {"temperature": self.temperature or 0.0}


class CompletionFields(OpenAIBody):
    """The fields of chat completions and completions."""

    stream_options: StreamOptions | None = None
    seed: int | None = Field(None, ge=-MAX_SEED - 1, le=MAX_SEED, description="Seed of the sampling.")
    max_tokens: int | None = Field(
        None, ge=1, description="Most tokens that an answer may have; a longer one is refused, never cut."
    )
    n: int | None = Field(
        None,
        ge=1,
        le=MAX_CHOICES,
        description="The most choices: the answer, then other readings of the edit, the likeliest first. There are "
        "fewer where the edit has fewer. Not with `stream`.",
    )
    frequency_penalty: Any = Field(None, description=SAMPLING)
    presence_penalty: Any = Field(None, description=SAMPLING)
    stop: Any = Field(None, description="No effect: an answer is a whole file, never a part of one.")
    logit_bias: dict[str, Any] | None = Field(None, max_length=0, description=NEUTRAL)

    @property
    def token_limit(self) -> int | None:
        return self.max_tokens

    @property
    def with_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def most_choices(self) -> int:
        return self.n or 1

    @property
    def sampling(self) -> dict[str, Any]:
        return {**super().sampling, "seed": (self.seed or 0) & MAX_SEED}  # OpenAI's seeds may be negative


class TextFormat(RequestModel):
    type: Literal["text"]


class ChatRequest(CompletionFields):
    """An edit as a chat: tagged in the user message, or as a message beside a prediction."""

    messages: list[ChatMessage] = Field(
        min_length=1, description="System messages, and one user message with the edit."
    )
    prediction: PredictedFile | None = None
    max_completion_tokens: int | None = Field(None, ge=1, description="As `max_tokens`; the smaller of both counts.")
    logprobs: Literal[False] | None = Field(None, description=NEUTRAL)
    top_logprobs: Literal[0] | None = Field(None, description=NEUTRAL)
    tools: list[Any] | None = Field(None, max_length=0, description=NEUTRAL)
    functions: list[Any] | None = Field(None, max_length=0, description=NEUTRAL)
    tool_choice: Literal["auto", "none"] | None = Field(None, description=NEUTRAL)
    function_call: Literal["auto", "none"] | None = Field(None, description=NEUTRAL)
    parallel_tool_calls: Any = Field(None, description="No effect: no tool is called.")
    response_format: TextFormat | None = Field(None, description=NEUTRAL)
    modalities: list[Literal["text"]] | None = Field(None, description=NEUTRAL)
    audio: None = Field(None, description=NEUTRAL)
    web_search_options: None = Field(None, description=NEUTRAL)
    store: Literal[False] | None = Field(None, description="No effect: nothing is stored.")
    reasoning_effort: Any = Field(None, description="No effect.")
    verbosity: Any = Field(None, description="No effect.")
    adaptive_speculation: Any = Field(None, description=DRAFTING)
    speculation_length_on_strong_match: Any = Field(None, description=DRAFTING)
    speculation_min_length_on_strong_match: Any = Field(None, description=DRAFTING)
    speculation_strong_match_threshold: Any = Field(None, description=DRAFTING)
    nextEdit: Any = Field(None, description="No effect.")  # noqa: N815 - the client's spelling

    def read(self, tags: TagSet, max_anchored: int | None) -> ChatEdit:
        user = [message.text for message in self.messages if message.role == "user"]
        system = [message.text for message in self.messages if message.role != "user"]
        prediction = None if self.prediction is None else self.prediction.text
        return read_chat(system, user, prediction, tags, max_anchored)

    @property
    def token_limit(self) -> int | None:
        return min((n for n in (self.max_tokens, self.max_completion_tokens) if n is not None), default=None)


class CompletionRequest(CompletionFields):
    """An edit as a prompt: tagged, as one client sends its apply prompt."""

    prompt: str | Annotated[list[str], Field(min_length=1, max_length=1)] = Field(
        description="A tagged message, or a list of one."
    )
    logprobs: None = Field(None, description=NEUTRAL)
    echo: Literal[False] | None = Field(None, description=NEUTRAL)
    best_of: Literal[1] | None = Field(None, description=NEUTRAL)
    suffix: None = Field(None, description=NEUTRAL)

    def read(self, tags: TagSet, max_anchored: int | None) -> ChatEdit:
        prompt = self.prompt if isinstance(self.prompt, str) else self.prompt[0]
        return read_chat([], [prompt], None, tags, max_anchored)


# -- errors ------------------------------------------------------------------------------------------------------------
OPENAI_CODES: Mapping[type[ApplyError], tuple[str, str]] = {
    Unauthorized: ("invalid_api_key", "Incorrect API key provided: "),
    UnknownModel: ("model_not_found", ""),
    ContextLimitExceeded: ("context_length_exceeded", "This model's maximum context length is {limit} tokens: "),
}
"""Errors for which OpenAI has a code of its own.  The second text begins the message, as some clients look for it."""


class OpenAIErrorDetail(ErrorDetail):
    message: str = Field(description="What is wrong, and what to do.")
    type: str = Field(description="`invalid_request_error`, `rate_limit_error` or `server_error`.")
    param: str | None = Field(description="The field at fault, where it does not exist.")


class OpenAIErrorBody(BaseModel):
    """An error on the OpenAI-like paths; its message also says what to do."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    error: OpenAIErrorDetail


class OpenAIErrors(ErrorShape):
    """The form of OpenAI's errors, with its codes and statuses, so that its SDKs raise their own classes.  The message
    includes the remedy, because clients show only the message."""

    model = OpenAIErrorBody

    def status(self, kind: type[ApplyError]) -> int:
        """Return OpenAI's status: 400 for a context that is too long, and for every error that is 422 in the native
        API."""
        status = super().status(kind)
        return 400 if status == 422 or issubclass(kind, ContextLimitExceeded) else status

    def code(self, kind: type[ApplyError]) -> str:
        return OPENAI_CODES[kind][0] if kind in OPENAI_CODES else kind.code

    def body(self, error: ApplyError) -> dict[str, Any]:
        details, status = details_of(error), self.status(type(error))
        message = OPENAI_CODES.get(type(error), ("", ""))[1].format(limit=error.limit) + with_remedy(details)
        kind = "rate_limit_error" if status == 429 else "server_error" if status >= 500 else "invalid_request_error"
        param = error.value if isinstance(error, UnknownField) else None
        details |= {"code": self.code(type(error)), "message": message, "type": kind, "param": param}
        return {"error": details}


OPENAI = OpenAIErrors()
ERRORS: Mapping[str, ErrorShape] = dict.fromkeys(
    (f"/v1/{base}{name}" for base in ("", "apply/") for name in ("chat/", "completions", "models")), OPENAI
)
"""The beginnings of all paths in this dialect, including unknown paths."""


# -- answers -----------------------------------------------------------------------------------------------------------
class PromptDetails(AnswerPart):
    """How much of the prompt was cached."""

    cached_tokens: int | None = Field(description="Prompt tokens whose keys and values were already there.")


class CompletionDetails(AnswerPart):
    """What became of the drafts."""

    accepted_prediction_tokens: int | None = Field(description="Drafted tokens that were accepted.")
    rejected_prediction_tokens: int | None = Field(
        description="Drafted tokens that were not; no part of completion_tokens."
    )


class Usage(AnswerPart):
    """Counts of the decode; all 0 if no model took part; details are null if a remote server did not report them."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails


class CompletionAnswer(AnswerPart):
    """The merged file as a completion of OpenAI's."""

    id: str
    object: Literal["chat.completion", "text_completion"]
    created: int
    model: str = Field(description="The model as it was asked for; `apply_service.model` says which one decided.")
    choices: list[dict[str, Any]] = Field(
        description="As OpenAI's, one for each reading: the whole merged file, in chats bare or in the tags that the "
        "prompt asks for. `finish_reason` is always `stop`: what would be cut is an error."
    )
    usage: Usage
    apply_service: dict[str, Any] = Field(description=f"{REPORT_TEXT} It is about the first choice.")


def usage_of(stats: DecodeStats) -> dict[str, Any]:
    """Return the values of `Usage`."""
    counts = UsageOut.of(stats)
    details = ("accepted_prediction_tokens", "rejected_prediction_tokens")
    return {
        **{name: getattr(counts, name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")},
        "prompt_tokens_details": {"cached_tokens": counts.cached_prompt_tokens},
        "completion_tokens_details": {name: getattr(counts, name) for name in details},
    }


def report_of(result: ApplyResult) -> dict[str, Any]:
    """Return the native answer without the file and usage, as JSON values."""
    answer = NativeAnswer.of(result, with_bytes=False)
    return answer.model_dump(mode="json", exclude={"merged_code", "merged_b64", "usage"})


def how_sure(result: ApplyResult) -> dict[str, str]:
    """Return two texts for clients that see only the file: the confidence (`unknown` if nobody measured it), and what
    may be wrong (`none` if nothing was found)."""
    is_determined = result.confidence is None and result.strategy == "exact" and result.certainty is Certainty.CERTAIN
    known = "unknown" if result.confidence is None else f"{result.confidence:.4f}"
    found = [verdict for verdict in result.verdicts if verdict.severity in ("warning", "error")]
    found.sort(key=lambda verdict: verdict.check != DOUBT)
    said = "; ".join(f"{verdict.check}: {verdict.message}" for verdict in found)
    plain = "".join(char if " " <= char <= "~" else "?" for char in said)  # a header; the message may quote the file
    return {
        CONFIDENCE_HEADER: "1.0000" if is_determined else known,
        DOUBT_HEADER: plain[:MAX_HEADER_CHARS] or "none",
    }


class OpenAIReply:
    """The `ReplyWriter` of the chat and completion endpoints.  All chunks share id, time and model."""

    error_event = ""
    errors: ErrorShape = OPENAI

    def __init__(self, edit: ChatEdit, call: EditBody, settings: Settings) -> None:
        self._edit = edit
        self._call = call
        self._is_chat = not isinstance(call, CompletionRequest)
        prefix = "chatcmpl-" if self._is_chat else "cmpl-"
        name, created = prefix + uuid.uuid4().hex, int(time.time())
        self._head = {"id": name, "created": created, "model": call.model or settings.model}
        asked = call.apply_service.stream_at_once
        at_once = settings.stream_at_once if asked is None else asked
        # Decoded text has LF line ends and no byte-order mark, so it is not the answer for a file that has CR or such a
        # mark.
        self._at_once = at_once and "\r" not in edit.original and not edit.original.startswith("\ufeff")
        self._sent = ""
        self._is_open = False

    def whole(self, result: ApplyResult) -> str:
        self.refuse_unseen(result)
        return json.dumps(self._answer(result), ensure_ascii=False)

    def choices(self, first: ApplyResult, others: Sequence[ApplyResult]) -> str:
        """Return the whole answer with a choice for each result.  Results that must not be handed out are left out.  If
        there are other results, the first one may be doubtful, because the client chooses."""
        shown = [one for one in others if not self._refused(one)]
        self.refuse_unseen(first, is_chosen=bool(shown))
        answer = self._answer(first)
        answer["choices"] += [self._choice(n, one) for n, one in enumerate(shown, 1)]
        return json.dumps(answer, ensure_ascii=False)

    def frames(self, event: ApplyEvent) -> Iterator[bytes]:
        if isinstance(event, FinalEvent):
            result = event.result
            self.refuse_unseen(result)
            if not result.merged_code.startswith(self._sent):
                message = "the text that was streamed is not the answer"
                remedy = "throw it away and ask again without stream_at_once"
                raise StreamReplaced(message, value=result.strategy, remedy=remedy)
            parts = [*map(self._edit.write, pieces(result.merged_code[len(self._sent) :])), self._edit.tail]
        elif self._at_once:
            self._sent += event.text
            parts = [*map(self._edit.write, pieces(event.text))]
        else:
            return
        if not self._is_open:
            self._is_open = True
            yield from self._opening()
            parts = [self._edit.head, *parts]
        for part in parts:
            if part:
                yield self._delta(part)
        if isinstance(event, FinalEvent):
            yield from self._ending(event.result)

    def refuse_unseen(self, result: ApplyResult, *, is_chosen: bool = False) -> None:
        """Refuse a result that these clients should not write to a file.  Otherwise say in headers how sure the result
        is.

        `is_chosen`: whether the client chooses, so that a doubt is not a reason to refuse.

        Raises:
            Truncated: the result has more tokens than allowed.
            CheckFailed: a check found an error, or the result is more likely wrong than right, and `on_verdict` does
                not say `warn`.
        """
        n_tokens, limit = result.stats.completion_tokens, self._call.token_limit
        if limit is not None and n_tokens > limit:
            message = "the merged file has more tokens than were allowed"
            raise Truncated(message, value=n_tokens, limit=limit, remedy="allow more tokens")
        if failed := self._refused(result, is_chosen=is_chosen):
            message = f"{failed[0].check}: {failed[0].message}"
            accepts = json.dumps({"on_verdict": {one.check: "warn" for one in failed}})
            remedy = f'mend the edit, or accept the finding: "apply_service": {accepts}'
            error = CheckFailed(message, value=sorted({verdict.check for verdict in failed}), remedy=remedy)
            if result.reading is not None and any(verdict.check == DOUBT for verdict in failed):
                first = OtherReading(result.reading, result.confidence or 0.0, "", result.diff)
                error.readings = [asdict(one) for one in (first, *result.readings)]
            raise error
        this_call().headers.update(how_sure(result))

    def _refused(self, result: ApplyResult, *, is_chosen: bool = False) -> list[Verdict]:
        """Return the findings that forbid handing out the result."""
        rules: dict[str, Literal["warn", "fail"]] = dict(self._call.apply_service.on_verdict)
        if is_chosen:
            rules.setdefault(DOUBT, "warn")
        elif result.confidence is not None and result.confidence < EVEN:
            rules.setdefault(DOUBT, "fail")
        return [v for v in result.verdicts if is_refused(v.check, v.severity, rules)]

    def _choice(self, index: int, result: ApplyResult) -> dict[str, Any]:
        text = self._edit.whole(result.merged_code)
        message = {"role": "assistant", "content": text, "refusal": None}
        said = {"message": message} if self._is_chat else {"text": text}
        return {"index": index, **said, "finish_reason": "stop", "logprobs": None}

    def _answer(self, result: ApplyResult) -> dict[str, Any]:
        """Return the JSON of a whole answer."""
        head = {**self._head, "object": CHAT if self._is_chat else TEXT, "choices": [self._choice(0, result)]}
        return {**head, "usage": usage_of(result.stats), "apply_service": report_of(result)}

    def _opening(self) -> Iterator[bytes]:
        """Yield the frames before the first text."""
        if self._is_chat:
            yield self._chunk({"delta": {"role": "assistant", "content": ""}})

    def _delta(self, text: str) -> bytes:
        return self._chunk({"delta": {"content": text}} if self._is_chat else {"text": text})

    def _ending(self, result: ApplyResult) -> Iterator[bytes]:
        """Yield the frames after the last text."""
        empty: dict[str, object] = {"delta": {}} if self._is_chat else {"text": ""}
        yield self._chunk(empty, finish_reason="stop", apply_service=report_of(result))
        if self._call.with_usage:
            yield self._chunk(None, usage=usage_of(result.stats))
        yield DONE

    def _chunk(self, said: Mapping[str, object] | None, finish_reason: str | None = None, **more: Any) -> bytes:
        """Return a chunk with one choice that holds `said`, or with no choice if `said` is None."""
        choices = [] if said is None else [{"index": 0, **said, "finish_reason": finish_reason, "logprobs": None}]
        kind = f"{CHAT}.chunk" if self._is_chat else TEXT
        return sse_event(json.dumps({**self._head, "object": kind, "choices": choices, **more}, ensure_ascii=False))


def pieces(text: str) -> Iterator[str]:
    """Yield the text in pieces of whole lines, of about `PIECE_CHARS` characters."""
    start = 0
    while start < len(text):
        cut = text.find("\n", start + PIECE_CHARS - 1)
        end = len(text) if cut < 0 else cut + 1
        yield text[start:end]
        start = end


# -- routes ------------------------------------------------------------------------------------------------------------
router = APIRouter()
CHAT_SUMMARY = "Apply one edit, asked as a chat"


@router.post(
    **documented("/v1/apply/chat/completions", ChatRequest, CompletionAnswer, EVENTS, OPENAI), summary=CHAT_SUMMARY
)
@router.post(**documented("/v1/chat/completions", ChatRequest, CompletionAnswer, EVENTS, OPENAI), summary=CHAT_SUMMARY)
async def chat(request: Request) -> Response:
    """The user message holds `<code>FILE</code><update>EDIT</update>`, with `<instruction>` before it if wanted.  Or
    `prediction` is the file and the user message the edit. Anything else is refused: `not_an_edit`. With `stream:
    true`, chunks come, then `[DONE]`; text is sent only once nothing can replace it."""
    return await apply_chat(request, ChatRequest, OpenAIReply)


@router.post(**documented("/v1/apply/completions", ChatRequest, CompletionAnswer, EVENTS, OPENAI), summary=CHAT_SUMMARY)
async def mercury_chat(request: Request) -> Response:
    """Works as chat completions do, with other tags: `<|original_code|>FILE<|/original_code|>` and
    `<|update_snippet|>EDIT<|/update_snippet|>`, each tag on a line of its own.
    """
    return await apply_chat(request, ChatRequest, OpenAIReply, MERCURY)


@router.post(
    **documented("/v1/completions", CompletionRequest, CompletionAnswer, EVENTS, OPENAI),
    summary="Apply one edit, asked as a tagged prompt",
)
async def completion(request: Request) -> Response:
    """The prompt holds `<code>FILE</code><update>EDIT</update>`; any other prompt is refused."""
    return await apply_chat(request, CompletionRequest, OpenAIReply)


async def apply_chat(
    request: Request, body: type[OpenAIBody], reply: type[OpenAIReply], tags: TagSet = MORPH
) -> Response:
    """Read the edit in a chat, apply it and answer, all within one deadline."""
    call = await read_call(request, body.parse)
    service, settings = state_of(request)
    header, extralong = EXTRALONG
    max_anchored = settings.max_body_bytes if request.headers.get(header) == extralong else None
    deadline, options = Deadline(call.apply_service.timeout_s), call.sampling
    edit = await service.call(partial(call.read, tags, max_anchored), timeout_s=deadline.timeout_s)
    if deadline.timeout_s is not None:
        deadline.check()
        options["timeout_s"] = deadline.remaining_s
    return await apply_edit(request, edit, call, reply, **options)


async def apply_edit(
    request: Request, edit: ChatEdit, call: EditBody, reply: type[OpenAIReply], **more: Any
) -> Response:
    """Apply the edit and answer.  `more`: request fields that replace those from the call."""
    service, settings = state_of(request)
    if call.stream and call.most_choices > 1:
        remedy = "leave out `stream` or `n`"
        raise UnsupportedParameter("a stream has one choice", value=call.most_choices, limit=1, remedy=remedy)
    options = call.apply_service.model_dump(exclude={"stream_at_once"}) | more
    if options["path"] is None and options["language"] is None:
        options["language"] = await service.call(edit.language, len(edit.original))
    wanted = ApplyRequest(edit.original, edit.update, edit.instruction, model=call.model, **options)
    writer = reply(edit, call, settings)
    if call.most_choices > 1:
        return await respond_with_choices(request, wanted, writer, call.most_choices)
    return await respond(request, wanted, writer, stream=bool(call.stream))


async def respond_with_choices(request: Request, wanted: ApplyRequest, reply: OpenAIReply, most: int) -> Response:
    """Admit the request, and answer it with the edit's other possible merges (readings) as further choices.  A program
    makes these merges, within the same deadline.  Each choice that is wanted counts against the key's rate limit.
    Raises ApplyError."""
    service, settings = state_of(request)
    this_call().count_edits(most - 1)  # the request itself was counted as the first
    deadline, results, gone = Deadline(wanted.timeout_s), list[ApplyResult](), list[ApplyError]()
    ticket = service.submit(admissible(wanted, settings))

    def give_up(error: ApplyError) -> None:
        gone.append(error)
        ticket.end(error)

    watcher = watch_client(request, give_up)
    try:
        first = await ticket.result_async()
        for one in first.readings[: most - 1]:
            left_s = None if deadline.timeout_s is None else deadline.remaining_s
            deadline.check()
            if gone:
                raise gone[0]
            again = replace(wanted, reading=one.id, strategy="exact", timeout_s=left_s)
            ticket = service.submit(admissible(again, settings))
            with contextlib.suppress(ResultError):  # a reading that fails is not offered as a choice
                results.append(await ticket.result_async())
    finally:
        watcher.cancel()
    body = await asyncio.to_thread(reply.choices, first, results)
    this_call().refuse_revoked()
    return Response(body, media_type="application/json")


# -- models ------------------------------------------------------------------------------------------------------------
class ModelCard(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "apply-service"
    alias_of: str | None = Field(description="The model that answers for this name; null where it is one.")


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelCard]


STARTED = int(time.time())
ONE, ALL = "A model, or what a name stands for", "The models that are served, and names for them"


def _cards(request: Request) -> dict[str, ModelCard]:
    alias_of = {name: None if model == name else model for name, model in model_names(state_of(request)[1]).items()}
    return {name: ModelCard(id=name, created=STARTED, alias_of=model) for name, model in alias_of.items()}


@router.get("/v1/apply/models", summary=ALL, responses=error_responses(OPENAI))
@router.get("/v1/models", summary=ALL, responses=error_responses(OPENAI))
async def models(request: Request) -> ModelList:
    cards = _cards(request).values()
    return ModelList(data=[card for card in cards if card.alias_of is None or card.id not in FOREIGN_MODELS])


@router.get("/v1/apply/models/{name:path}", summary=ONE, responses=error_responses(OPENAI))
@router.get("/v1/models/{name:path}", summary=ONE, responses=error_responses(OPENAI))
async def model(request: Request, name: str) -> ModelCard:
    cards = _cards(request)
    if name not in cards:
        raise UnknownModel("no such model", value=name, limit=list(cards), remedy="name one of these")
    return cards[name]

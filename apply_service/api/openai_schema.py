"""What the OpenAI-like endpoints take: chat completions and the older completions, and what of them has no effect here.

A field that is not listed is refused by name.  The fields with no effect are those that clients send without being
asked, and that say nothing about a merge; each says why.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from apply_service.api.schema import MAX_SEED, EditOptions, RequestModel

SAMPLING = "No effect: what is written is decided by file and edit, and `temperature` alone varies it."
DRAFTING = "No effect: the service drafts by itself, and drafts change no answer."


class ApplyOptions(EditOptions):
    """What this service can do beyond the other services' fields."""

    stream_at_once: bool | None = Field(
        None, description="Stream text as it is decoded, though the end may still refuse it. Default: the setting."
    )


def options_field() -> Any:
    """The field of a dialect that holds `ApplyOptions`."""
    return Field(
        default_factory=lambda: ApplyOptions.model_validate({}),
        description="This service's own options: those of `POST /v1/apply`, and `stream_at_once`.",
    )


class TextPart(RequestModel):
    type: Literal["text"]
    text: str


class Prediction(RequestModel):
    """The file as it is, which the answer is expected to repeat for the most part."""

    type: Literal["content"]
    content: str | list[TextPart]

    @property
    def text(self) -> str:
        return joined(self.content)


class StreamOptions(RequestModel):
    include_usage: bool = Field(False, description="End the stream with a chunk that holds `usage` and no choices.")


class Message(RequestModel):
    role: Literal["system", "developer", "user"]
    content: str | list[TextPart]
    name: str | None = None

    @property
    def text(self) -> str:
        return joined(self.content)


class CompletionFields(RequestModel):
    """What chat completions and completions have in common."""

    model: str | None = Field(None, description="Model by name or alias; left out, the service's own.")
    stream: bool | None = Field(None, description="Answer as server-sent events.")
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(None, ge=0.0, le=2.0, description="0, the default, is greedy.")
    seed: int | None = Field(None, ge=0, le=MAX_SEED, description="Seed of the sampling.")
    max_tokens: int | None = Field(
        None, ge=1, description="Most tokens that an answer may have; a longer one is refused, never cut."
    )
    n: Literal[1] | None = Field(None, description="One answer.")
    apply_service: ApplyOptions = options_field()
    top_p: Any = Field(None, description=SAMPLING)
    frequency_penalty: Any = Field(None, description=SAMPLING)
    presence_penalty: Any = Field(None, description=SAMPLING)
    stop: Any = Field(None, description="No effect: an answer is a whole file, never a part of one.")
    user: Any = Field(None, description="No effect.")

    @property
    def token_limit(self) -> int | None:
        return self.max_tokens


class ChatRequest(CompletionFields):
    """An edit as a chat: tagged in the user message, or as a message beside a prediction."""

    messages: list[Message] = Field(min_length=1, description="System messages, and one user message with the edit.")
    prediction: Prediction | None = None
    max_completion_tokens: int | None = Field(None, ge=1, description="As `max_tokens`; the smaller of both counts.")
    adaptive_speculation: Any = Field(None, description=DRAFTING)
    speculation_length_on_strong_match: Any = Field(None, description=DRAFTING)
    speculation_min_length_on_strong_match: Any = Field(None, description=DRAFTING)
    speculation_strong_match_threshold: Any = Field(None, description=DRAFTING)
    nextEdit: Any = Field(None, description="No effect.")  # noqa: N815 - the client's spelling

    @property
    def token_limit(self) -> int | None:
        return min((n for n in (self.max_tokens, self.max_completion_tokens) if n is not None), default=None)

    def texts(self, role: str) -> list[str]:
        """The messages of a role; developers are the system."""
        roles = ("system", "developer") if role == "system" else (role,)
        return [message.text for message in self.messages if message.role in roles]


class CompletionRequest(CompletionFields):
    """An edit as a prompt: tagged, as one client sends its apply prompt."""

    prompt: str = Field(description="A tagged message.")


def joined(content: str | list[TextPart]) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)

"""The answer of a server, gathered piece by piece; it becomes a reply only if it is whole and ended by itself."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pydantic import ValidationError

from apply_service.errors import RemoteFailure, Truncated
from apply_service.remote.failures import error_in
from apply_service.remote.messages import DONE, AnswerIn, ChoiceIn, Token, UsageIn, tokens_of


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer.  `tokens` are empty where the server reported no log probabilities."""

    text: str
    tokens: tuple[Token, ...]
    usage: UsageIn | None
    seconds: float
    """From sending the request to the answer's end."""


@dataclass(slots=True)
class Transcript:
    """An answer in the making.  `limit_chars`: a longer one runs on without end."""

    limit_chars: int | None = None
    is_done: bool = False
    _texts: list[str] = field(default_factory=list)
    _n_chars: int = 0
    _tokens: list[Token] = field(default_factory=list)
    _finish_reason: str | None = None
    _usage: UsageIn | None = None
    _started: float = field(default_factory=time.monotonic)

    def take(self, data: str) -> str:
        """Take the JSON of a completion or a chunk, or a stream's last word; the text it adds.

        Raises:
            RemoteFailure: that is no such JSON, tells of an error, or follows the end.
            Truncated: the text is longer than any answer to this edit.
        """
        if self.is_done:
            raise RemoteFailure("The remote server wrote on after its end.", remedy=REPORT)
        if data.strip() == DONE:
            self.is_done = True
            return ""
        answer = _parsed(data)
        self._usage = answer.usage or self._usage
        text = "".join(self._add(choice) for choice in answer.choices or [])
        self._n_chars += len(text)
        if self.limit_chars is not None and self._n_chars > self.limit_chars:
            raise Truncated(
                "the remote model writes on and on: more than file and edit have together",
                value=self._n_chars,
                limit=self.limit_chars,
                remedy="use another model",
            )
        return text

    def _add(self, choice: ChoiceIn) -> str:
        refusal = choice.message.refusal or choice.delta.refusal
        if refusal:
            raise RemoteFailure("The remote model refused.", value=refusal[:200], remedy="Use another model.")
        text = (choice.message.content or "") + (choice.delta.content or "")
        if text and self._finish_reason is not None:
            raise RemoteFailure("The remote server wrote on after its end.", remedy=REPORT)
        self._finish_reason = choice.finish_reason or self._finish_reason
        self._tokens += tokens_of(choice.logprobs)
        self._texts.append(text)
        return text

    def finish(self) -> Reply:
        """The reply, now that the server has said all.

        Raises:
            Truncated: it was cut off at a limit of tokens, or is empty.
            RemoteFailure: it has no end, or ended for any other reason than that it was complete.
        """
        if self._finish_reason == "length":
            raise Truncated(
                "the remote model reached its token limit",
                value=self._n_chars,
                remedy="raise max_tokens, or the server's own limit",
            )
        if self._finish_reason is None:
            raise RemoteFailure("The remote server's answer broke off.", value=self._n_chars, remedy=AGAIN)
        if self._finish_reason != "stop":
            raise RemoteFailure(
                "The remote model stopped for another reason than the end of its answer.",
                value=self._finish_reason[:200],
                limit="stop",
                remedy="Use another model, or plain chat without tools and filters.",
            )
        text = "".join(self._texts)
        if not text.strip():
            raise Truncated("the remote model's answer is empty", value=0, remedy="send the edit again")
        return Reply(text, tuple(self._tokens), self._usage, time.monotonic() - self._started)


AGAIN = "Send the edit again."
REPORT = "See whether remote_url is the base URL of an OpenAI-compatible server."


def _parsed(data: str) -> AnswerIn:
    try:
        answer = AnswerIn.model_validate_json(data)
    except ValidationError as error:
        # What it says is not quoted: it may hold the user's code.
        raise RemoteFailure("The remote server's answer is no chat completion.", remedy=REPORT) from error
    if answer.error is not None:
        raise error_in(answer.error)
    if answer.choices is None:
        raise RemoteFailure("The remote server's answer has no choices.", remedy=REPORT)
    return answer

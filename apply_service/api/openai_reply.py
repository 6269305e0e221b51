"""An OpenAI-like answer, whole or as a stream.

The clients of these endpoints see no verdicts: an answer in which a check found an error is refused (`refuse_unseen`).
A stream holds its text back until the result is there: before, another strategy or the original's line ends may still
replace it.  Sent at once, it can be wrong only in a way that the client sees: a stream whose text turns out not to be
the answer ends in an error, without a finish reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from apply_service.api.chat_edit import ChatEdit
from apply_service.api.error_shapes import openai_error
from apply_service.api.openai_answer import DONE, Kind, Writer, data_frame
from apply_service.api.openai_schema import ApplyOptions
from apply_service.errors import ApplyError, CheckFailed, StreamReplaced, Truncated
from apply_service.settings import Settings
from apply_service.types import ApplyEvent, ApplyResult, FinalEvent
from apply_service.verdict_rules import is_refused

PIECE_CHARS = 4096
"""A held text goes out in pieces of about so many characters, cut at line ends."""


class OpenAIReply:
    """The `Reply` of the chat and completion endpoints."""

    def __init__(
        self,
        kind: Kind,
        edit: ChatEdit,
        *,
        model: str,
        options: ApplyOptions,
        at_once: bool,
        token_limit: int | None = None,
        with_usage: bool = False,
    ) -> None:
        self._edit = edit
        self._options = options
        self._writer = Writer(kind, model)
        self._token_limit = token_limit
        # What is decoded has LF line ends and no byte-order mark: it is not what such a file will get.
        self._at_once = at_once and "\r" not in edit.original and not edit.original.startswith("\ufeff")
        self._with_usage = with_usage
        self._sent = ""
        self._is_open = False

    def whole(self, result: ApplyResult) -> str:
        refuse_unseen(result, self._options, self._token_limit)
        edit = self._edit
        return self._writer.answer(edit.head + edit.write(result.merged_code) + edit.tail, result)

    def frames(self, event: ApplyEvent) -> Iterator[bytes]:
        if isinstance(event, FinalEvent):
            yield from self._end(event.result)
        elif self._at_once:
            self._sent += event.text
            yield from self._open()
            yield self._writer.text(self._edit.write(event.text))

    def error_frame(self, error: ApplyError) -> bytes:
        return data_frame(json.dumps(openai_error(error), ensure_ascii=True))

    def _open(self) -> Iterator[bytes]:
        if self._is_open:
            return
        self._is_open = True
        if opening := self._writer.opening():
            yield opening
        if self._edit.head:
            yield self._writer.text(self._edit.head)

    def _end(self, result: ApplyResult) -> Iterator[bytes]:
        refuse_unseen(result, self._options, self._token_limit)
        self._refuse_other(result)
        yield from self._open()
        for piece in pieces(result.merged_code[len(self._sent) :]):
            yield self._writer.text(self._edit.write(piece))
        if self._edit.tail:
            yield self._writer.text(self._edit.tail)
        yield self._writer.closing(result)
        if self._with_usage:
            yield self._writer.usage(result)
        yield DONE

    def _refuse_other(self, result: ApplyResult) -> None:
        if not result.merged_code.startswith(self._sent):
            raise StreamReplaced(
                "The text that was streamed is not the answer.",
                value=result.strategy,
                remedy="Throw it away and ask again without stream_at_once.",
            )


def is_sent_at_once(options: ApplyOptions, settings: Settings) -> bool:
    """Whether a stream is to send text before the result is there."""
    return settings.stream_at_once if options.stream_at_once is None else options.stream_at_once


def refuse_unseen(result: ApplyResult, options: ApplyOptions, token_limit: int | None = None) -> None:
    """Refuse what the clients of other services would write to a file without a look at the verdicts.

    Raises:
        Truncated: the answer has more tokens than were allowed.
        CheckFailed: a check found an error, and `on_verdict` does not say `warn`.
    """
    n_tokens = result.stats.completion_tokens
    if token_limit is not None and n_tokens > token_limit:
        raise Truncated(
            "The merged file has more tokens than were allowed.",
            value=n_tokens,
            limit=token_limit,
            remedy="Allow more tokens.",
        )
    failed = [v for v in result.verdicts if is_refused(v.check, v.severity, options.on_verdict)]
    if failed:
        raise CheckFailed(
            f"{failed[0].check}: {failed[0].message}.",
            value=sorted({verdict.check for verdict in failed}),
            remedy='Mend the edit, or accept the finding: "apply_service": {"on_verdict": {CHECK: "warn"}}.',
        )


def pieces(text: str) -> Iterator[str]:
    """The text in pieces of whole lines; a piece is longer than `PIECE_CHARS` where a line is."""
    start = 0
    while start < len(text):
        cut = text.find("\n", start + PIECE_CHARS - 1)
        end = len(text) if cut < 0 else cut + 1
        yield text[start:end]
        start = end

"""What the formats have in common whose output is the plain file between an opening and a closing tag."""

from __future__ import annotations

from collections.abc import Sequence

from apply_service.errors import Truncated
from apply_service.prompts.chat_tokenizer import ChatTokenizer
from apply_service.prompts.closing_tag import ClosingTag
from apply_service.prompts.source_constraint import SourceConstraint, source_lines
from apply_service.prompts.sources import text_sources
from apply_service.prompts.token_lines import lines_of_tokens
from apply_service.prompts.tokenizer import IncrementalDecoder
from apply_service.protocols import Constraint, DraftSources, EditJob, StopFinder, TextStream


class TaggedOutput:
    """Output of the form `opening + padding + text + padding + closing`, then the end token.

    `opening` is "" where the prompt already ends with it.  The text is cut at the *last* closing tag, as the file may
    hold the tag itself.
    """

    constrains_by_default = False

    def __init__(self, chat: ChatTokenizer, *, opening: str, closing: str, padding: str = "") -> None:
        self._chat = chat
        self.opening = opening
        self.closing = closing
        self.padding = padding
        self.stop_ids = frozenset({chat.end_id})

    def encode_sources(self, job: EditJob) -> DraftSources:
        before, after = self.opening + self.padding, self.padding + self.closing
        return text_sources(job, self._chat.content, before=before, after=after, end_id=self._chat.end_id)

    def decode(self, ids: Sequence[int]) -> str:
        return self._chat.content.decode([i for i in ids if i not in self.stop_ids])

    def decode_output(self, ids: Sequence[int]) -> str:
        text = self.decode(ids)
        if self.opening:
            text = text.lstrip()
            if not text.startswith(self.opening):
                raise Truncated(f"the output does not begin with {self.opening}", value=text[:40], remedy=_OTHER_MODEL)
        at = text.rfind(self.closing)
        if at < len(self.opening):
            raise Truncated(f"the output lacks {self.closing}", value=text[-40:], remedy="allow more tokens")
        return text[len(self.opening) : at].removeprefix(self.padding).removesuffix(self.padding)

    def open_stream(self) -> TextStream:
        return TaggedStream(self)

    def lines_of(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        return lines_of_tokens(ids, self.decode, head=self.opening + self.padding)

    def stop_finder(self, job: EditJob) -> StopFinder | None:
        return ClosingTag(self.closing, self.decode, n_expected=job.prediction.text.count(self.closing))

    def constraint(self, job: EditJob) -> Constraint | None:
        vocabulary = self._chat.content.vocabulary
        if vocabulary is None:
            return None
        before, after = self.opening + self.padding, self.padding + self.closing
        return SourceConstraint(vocabulary, source_lines(job), end_id=self._chat.end_id, before=before, after=after)


_OTHER_MODEL = "use a model trained for this format, or another prompt format"


class TaggedStream:
    """Streams what lies between the tags: holds back whatever may yet turn out to be the closing tag."""

    def __init__(self, output: TaggedOutput) -> None:
        self._output = output
        self._decoder = IncrementalDecoder(output.decode)
        self._head = output.opening + output.padding
        self._end = output.padding + output.closing
        self._held = ""
        self._is_open = not self._head

    def push(self, ids: Sequence[int]) -> str:
        return self._release(self._decoder.push(ids))

    def finish(self) -> str:
        """What is left before the last closing tag."""
        released = self._release(self._decoder.finish())
        at = self._held.rfind(self._output.closing)
        rest = self._held[:at].removesuffix(self._output.padding) if at >= 0 else self._held
        self._held = ""
        return released + rest

    def _release(self, text: str) -> str:
        self._held += text
        if not self._is_open and not self._open():
            return ""
        at = self._held.rfind(self._output.closing)
        cut = (at if at >= 0 else len(self._held)) - len(self._end) + 1
        released, self._held = self._held[: max(0, cut)], self._held[max(0, cut) :]
        return released

    def _open(self) -> bool:
        """Take the opening off once enough has come to tell whether the padding is there."""
        text = self._held.lstrip() if self._output.opening else self._held
        if len(text) < len(self._head):
            return False
        self._held = text[len(self._output.opening) :].removeprefix(self._output.padding)
        self._is_open = True
        return True

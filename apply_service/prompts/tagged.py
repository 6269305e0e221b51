"""What the formats have in common whose output is the plain file between an opening and a closing tag."""

from __future__ import annotations

from collections.abc import Sequence

from apply_service.prompts.chat_tokenizer import ChatTokenizer
from apply_service.prompts.closing_tag import ClosingTag
from apply_service.prompts.source_constraint import SourceConstraint, source_lines
from apply_service.prompts.sources import text_sources
from apply_service.prompts.tags import Tags, TagStream
from apply_service.prompts.token_lines import lines_of_tokens
from apply_service.prompts.tokenizer import IncrementalDecoder
from apply_service.protocols import CompletingConstraint, DraftSources, EditJob, StopFinder, TextStream


class TaggedOutput:
    """Output in `tags`, then the end token."""

    constrains_by_default = False

    def __init__(self, chat: ChatTokenizer, tags: Tags) -> None:
        self._chat = chat
        self.tags = tags
        self.stop_ids = frozenset({chat.end_id})

    def encode_sources(self, job: EditJob) -> DraftSources:
        return text_sources(
            job, self._chat.content, before=self.tags.head, after=self.tags.tail, end_id=self._chat.end_id
        )

    def decode(self, ids: Sequence[int]) -> str:
        return self._chat.content.decode([i for i in ids if i not in self.stop_ids])

    def decode_output(self, ids: Sequence[int]) -> str:
        return self.tags.unwrap(self.decode(ids))

    def open_stream(self) -> TextStream:
        return TaggedStream(self)

    def lines_of(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        return lines_of_tokens(ids, self.decode, head=self.tags.head)

    def stop_finder(self, job: EditJob) -> StopFinder | None:
        closing = self.tags.closing
        return ClosingTag(closing, self.decode, n_expected=job.prediction.text.count(closing))

    def constraint(self, job: EditJob) -> CompletingConstraint | None:
        vocabulary = self._chat.content.vocabulary
        if vocabulary is None:
            return None
        return SourceConstraint(
            vocabulary,
            source_lines(job),
            end_id=self._chat.end_id,
            before=self.tags.head,
            after=self.tags.tail,
            encode=lambda text: self._chat.content.encode(text).ids,
        )


class TaggedStream:
    """Streams what lies between the tags."""

    def __init__(self, output: TaggedOutput) -> None:
        self._decoder = IncrementalDecoder(output.decode)
        self._text = TagStream(output.tags)

    def push(self, ids: Sequence[int]) -> str:
        return self._text.push(self._decoder.push(ids))

    def finish(self) -> str:
        """What is left before the last closing tag."""
        return self._text.push(self._decoder.finish()) + self._text.finish()

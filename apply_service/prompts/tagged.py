"""Output that is the plain file: between an opening and a closing tag, as the published apply models write it, or with
nothing around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np

from apply_service.errors import Truncated
from apply_service.prompts.constraint import SourceConstraint, source_lines
from apply_service.prompts.tokenizer import (
    ChatMessage,
    ChatTokenizer,
    ContentTokenizer,
    IncrementalDecoder,
    Offsets,
    lines_of_tokens,
)
from apply_service.protocols import CompletingConstraint, DraftSource, DraftSources, EditJob, StopFinder, TextStream

OTHER_MODEL = "use a model trained for this format, or another prompt format"


@dataclass(frozen=True, slots=True)
class Tags:
    """`opening + padding + text + padding + closing`.  The text is cut at the *last* closing tag, as the file may hold
    the tag itself.

    `opening` is "" where the prompt already ends with it.
    """

    opening: str
    closing: str
    padding: str = ""

    @property
    def head(self) -> str:
        """What comes before the text."""
        return self.opening + self.padding

    @property
    def tail(self) -> str:
        """What comes after it."""
        return self.padding + self.closing

    def wrap(self, text: str) -> str:
        """The output that writes `text`."""
        return self.head + text + self.tail

    def unwrap(self, output: str) -> str:
        """The text in a whole output.

        Raises:
            Truncated: a tag is not where it belongs.
        """
        text = output.lstrip() if self.opening else output
        if not text.startswith(self.opening):
            raise Truncated(f"the output does not begin with {self.opening}", value=text[:40], remedy=OTHER_MODEL)
        at = text.rfind(self.closing)
        if at < len(self.opening):
            raise Truncated(f"the output lacks {self.closing}", value=text[-40:], remedy="allow more tokens")
        return text[len(self.opening) : at].removeprefix(self.padding).removesuffix(self.padding)


class TagStream:
    """Gives what lies between the tags: holds back whatever may yet turn out to be the closing tag."""

    def __init__(self, tags: Tags) -> None:
        self._tags = tags
        self._held = ""
        self._is_open = not tags.head

    def push(self, text: str) -> str:
        """The text that is sure once this piece of the output has come."""
        tags = self._tags
        self._held += text
        if not self._is_open:
            # The opening is taken off once enough has come to tell whether the padding is there.
            held = self._held.lstrip() if tags.opening else self._held
            if len(held) < len(tags.head):
                return ""
            self._held, self._is_open = held[len(tags.opening) :].removeprefix(tags.padding), True
        at = self._held.rfind(tags.closing)
        cut = max(0, (at if at >= 0 else len(self._held)) - len(tags.tail) + 1)
        released, self._held = self._held[:cut], self._held[cut:]
        return released

    def finish(self) -> str:
        """What is left before the last closing tag."""
        at = self._held.rfind(self._tags.closing)
        rest = self._held[:at].removesuffix(self._tags.padding) if at >= 0 else self._held
        self._held = ""
        return rest


class TaggedOutput:
    """Base of the formats that write the file between `tags`, then the end token."""

    constrains_by_default = False
    takes_instructions = False
    name: str
    tags: Tags
    prefill = ""
    """What the answer begins with as part of the prompt."""

    def __init__(self, chat: ChatTokenizer) -> None:
        self._chat = chat
        self._content = chat.content
        self.stop_ids = frozenset({chat.end_id})

    def messages(self, job: EditJob) -> list[ChatMessage]:
        raise NotImplementedError

    def encode_prompt(self, job: EditJob) -> list[int]:
        return self._chat.encode_chat(self.messages(job), prefill=self.prefill)

    def encode_sources(self, job: EditJob) -> DraftSources:
        head, tail = self.tags.head, self.tags.tail
        return text_sources(job, self._content, before=head, after=tail, end_id=self._chat.end_id)

    def decode(self, ids: Sequence[int]) -> str:
        return self._content.decode([i for i in ids if i not in self.stop_ids])

    def decode_output(self, ids: Sequence[int]) -> str:
        return self.tags.unwrap(self.decode(ids))

    def open_stream(self) -> TextStream:
        return TaggedStream(self)

    def lines_of(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        return lines_of_tokens(ids, self.decode, head=self.tags.head)

    def stop_finder(self, job: EditJob) -> StopFinder:
        """A file may spell the closing tag itself, so as many as the predicted merge has are passed over; the text is
        cut at the last one.  Tokens are decoded one at a time: a character split over tokens can't hide a tag, which is
        ASCII."""
        closing = self.tags.closing
        n_left, written = job.prediction.text.count(closing) + 1, ""

        def find(new_ids: Sequence[int]) -> int | None:
            nonlocal n_left, written
            for i, token in enumerate(new_ids):
                *passed, written = (written + self.decode([token])).split(closing)
                n_left -= len(passed)
                written = written[-(len(closing) - 1) :]
                if n_left <= 0:
                    return i
            return None

        return find

    def constraint(self, job: EditJob) -> CompletingConstraint | None:
        if self._content.vocabulary is None:
            return None
        return SourceConstraint(
            self._content.vocabulary,
            source_lines(job),
            end_id=self._chat.end_id,
            before=self.tags.head,
            after=self.tags.tail,
            encode=lambda text: self._content.encode(text).ids,
        )


class TaggedStream:
    """As `TagStream`, of ids."""

    def __init__(self, output: TaggedOutput) -> None:
        self._decoder = IncrementalDecoder(output.decode)
        self._text = TagStream(output.tags)

    def push(self, ids: Sequence[int]) -> str:
        return self._text.push(self._decoder.push(ids))

    def finish(self) -> str:
        return self._text.push(self._decoder.finish()) + self._text.finish()


class UntaggedOutput:
    """Base of the formats that write the file and then the end token, with nothing around it."""

    takes_instructions = False
    constrains_by_default = False

    def __init__(self, end_id: int) -> None:
        self.end_id = end_id
        self.stop_ids = frozenset({end_id})

    def decode(self, ids: Sequence[int]) -> str:
        raise NotImplementedError

    def decode_output(self, ids: Sequence[int]) -> str:
        if not ids or ids[-1] != self.end_id:
            raise Truncated("the output lacks its end token", remedy="allow more tokens")
        return self.decode(ids)

    def open_stream(self) -> TextStream:
        return IncrementalDecoder(self.decode)

    def lines_of(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        return lines_of_tokens(ids, self.decode)

    def stop_finder(self, job: EditJob) -> StopFinder | None:  # noqa: ARG002
        return None


def text_sources(job: EditJob, tokenizer: ContentTokenizer, *, before: str, after: str, end_id: int) -> DraftSources:
    """Each source as `before + text + after + end token`."""

    def source(name: Literal["predicted", "original", "update"], text: str) -> DraftSource:
        wrapped = before + text + after
        ids, starts = tokenizer.encode(wrapped)
        return DraftSource(name, wrapped, np.array([*ids, end_id], np.int64), np.append(starts, len(wrapped)))

    ops, update_lines = job.prediction.ops, job.prediction.update_lines
    predicted = source("predicted", job.prediction.text)
    original, update = source("original", job.original), source("update", "\n".join(update_lines))
    # For every character of the predicted merge [n_chars + 1]: the character at which the original and the update are.
    original_starts = list(accumulate((len(op.text) + 1 for op in ops if op.original_line is not None), initial=0))
    update_starts = list(accumulate((len(line) + 1 for line in update_lines), initial=0))
    to_original: list[Offsets] = []
    to_update: list[Offsets] = []
    original_at = update_at = 0
    for op in ops:
        span = np.arange(len(op.text) + 1, dtype=np.int64)
        here = original_at if op.original_line is None else original_starts[op.original_line]
        there = update_at if op.update_line is None else update_starts[op.update_line]
        if op.kind != "drop":
            to_original.append(here + (0 * span if op.original_line is None else span))
            to_update.append(there + (0 * span if op.update_line is None else span))
        original_at = here if op.original_line is None else here + len(op.text) + 1
        update_at = there if op.update_line is None else update_starts[op.update_line + 1]

    def token_places(chars: list[Offsets], other: DraftSource) -> Offsets:
        """Token indices in `other` for every token of the predicted merge; the first token (the tag's) maps to the
        first."""
        all_chars = np.concatenate(chars)
        at = all_chars[np.clip(predicted.starts - len(before), 0, len(all_chars) - 1)] + len(before)
        places = np.searchsorted(other.starts[:-1], at)
        places[predicted.starts == 0] = 0
        return np.minimum(places, len(other.ids))

    return DraftSources(
        predicted=predicted,
        original=original,
        update=update,
        predicted_to_original=token_places(to_original, original),
        predicted_to_update=token_places(to_update, update),
        encode=lambda text: tokenizer.encode(text).ids,
        decode=tokenizer.decode,
    )

"""Writes prompts for models with a chat template: any instruct model, and three published apply models.

The apply models get the words that they were trained on.  The original comes first, so that its keys and values can be
reused.  The answer is the whole file between an opening and a closing tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from apply_service.errors import Truncated
from apply_service.prompts.constraint import SourceConstraint, VocabularyBytes, source_lines
from apply_service.prompts.llama_cpp import LlamaChat, LlamaContent
from apply_service.prompts.tokenizer import (
    ChatTokenizer,
    IncrementalDecoder,
    PromptMessage,
    lines_of_tokens,
    text_sources,
)
from apply_service.protocols import Constraint, DraftSources, EditJob, StopFinder, TextStream

OTHER_MODEL = "use a model trained for this format, or another prompt format"


@dataclass(frozen=True, slots=True)
class Tags:
    """`opening + padding + text + padding + closing`.

    The text ends at the *last* closing tag, because the file may contain the tag itself.  `opening` is empty if the
    prompt already ends with it.
    """

    opening: str
    closing: str
    padding: str = ""

    @property
    def head(self) -> str:
        """What the output has before the text."""
        return self.opening + self.padding

    @property
    def tail(self) -> str:
        """What the output has after the text."""
        return self.padding + self.closing

    def wrap(self, text: str) -> str:
        """Return the output that writes `text`."""
        return self.head + text + self.tail

    def unwrap(self, output: str) -> str:
        """Return the text in a complete output.  Raises Truncated if a tag is not in its place."""
        text = output.lstrip() if self.opening else output
        if not text.startswith(self.opening):
            raise Truncated(
                f"the model's answer does not begin with {self.opening}", value=text[:40], remedy=OTHER_MODEL
            )
        at = text.rfind(self.closing)
        if at < len(self.opening):
            raise Truncated(
                f"the model's answer is cut off: it lacks {self.closing}", value=text[-40:], remedy="raise max_tokens"
            )
        return text[len(self.opening) : at].removeprefix(self.padding).removesuffix(self.padding)


class TagStream:
    """Yields the text between the tags.  It holds back whatever may become the closing tag."""

    def __init__(self, tags: Tags) -> None:
        self._tags = tags
        self._held = ""
        self._is_open = not tags.head

    def push(self, text: str) -> str:
        """Return the text that this piece of the output makes certain."""
        tags = self._tags
        self._held += text
        if not self._is_open:
            # The opening is removed when enough of the output has come to tell whether the padding follows.
            held = self._held.lstrip() if tags.opening else self._held
            if len(held) < len(tags.head):
                return ""
            self._held, self._is_open = held[len(tags.opening) :].removeprefix(tags.padding), True
        at = self._held.rfind(tags.closing)
        cut = max(0, (at if at >= 0 else len(self._held)) - len(tags.tail) + 1)
        released, self._held = self._held[:cut], self._held[cut:]
        return released

    def finish(self) -> str:
        """Return the rest of the text before the last closing tag."""
        at = self._held.rfind(self._tags.closing)
        rest = self._held[:at].removesuffix(self._tags.padding) if at >= 0 else self._held
        self._held = ""
        return rest


class TaggedOutput:
    """Base of the formats that write the file between `tags`, and then the end token."""

    constrains_by_default = False
    takes_instructions = False
    name: str
    tags: Tags
    prefill = ""
    """The beginning of the answer, as part of the prompt."""

    def __init__(self, chat: ChatTokenizer | LlamaChat) -> None:
        self._chat = chat
        self._content = chat.content
        self.stop_ids = chat.stop_ids

    def messages(self, job: EditJob) -> list[PromptMessage]:
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
        """Return a function that finds the first closing tag beyond those that the predicted merge itself contains.
        The function decodes tokens one at a time.  The tag is ASCII, so a character split between tokens can't hide it.
        """
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

    @cached_property
    def _vocabulary(self) -> VocabularyBytes | None:
        if isinstance(self._content, LlamaContent):
            return VocabularyBytes.of_pieces(self._content.pieces())
        return VocabularyBytes.of(self._content.tokenizer)

    def constraint(self, job: EditJob) -> Constraint | None:
        if self._vocabulary is None:
            return None
        before, after = self.tags.head, self.tags.tail
        return SourceConstraint(
            self._vocabulary, source_lines(job), end_id=self._chat.end_id, before=before, after=after
        )


class TaggedStream:
    """Like `TagStream`, but takes ids."""

    def __init__(self, output: TaggedOutput) -> None:
        self._decoder = IncrementalDecoder(output.decode)
        self._text = TagStream(output.tags)

    def push(self, ids: Sequence[int]) -> str:
        return self._text.push(self._decoder.push(ids))

    def finish(self) -> str:
        return self._text.push(self._decoder.finish()) + self._text.finish()


# -- the formats ------------------------------------------------------------------------------------------------------
TAGS = Tags("<merged>", "</merged>", padding="\n")
SYSTEM = """You apply an edit to a file and answer with the whole file after the edit.
The file stands between <original> and </original>. The edit stands between <update> and </update>: the changed parts
of the file, where comments such as "// ... existing code ..." stand for lines that stay as they are. There may be an
instruction between <instruction> and </instruction>.
Rules: write the file between <merged> and </merged> and nothing else; copy every line that the edit does not touch
exactly; leave out the placeholder comments; add no explanations and no code fences."""

FASTAPPLY_SYSTEM = (
    "You are a coding assistant that helps merge code updates, ensuring every modification is fully integrated."
)
FASTAPPLY_RULES = """Merge all changes from the <update> snippet into the <code> below.
- Preserve the code's structure, order, comments, and indentation exactly.
- Output only the updated code, enclosed within <updated-code> and </updated-code> tags.
- Do not include any additional text, explanations, placeholders, ellipses, or code fences.
"""

OSMOSIS_SYSTEM = """You merge an edit into a file.
The user gives the whole file between <code> and </code>, and an edit to it between <edit> and </edit>. In the edit,
comments such as "// ... existing code ..." stand for lines of the file that stay as they are.
Answer with the whole file after the edit, between <code> and </code>, and with nothing else. Copy everything that the
edit does not touch exactly as it is, blank lines and indentation included."""


AIXAPPLY_SYSTEM = """You are a deterministic engine that patches code: you apply an update snippet to a source file.
Find the one place in the source file that the snippet's context belongs to, and put the snippet's code there. Markers
such as "// ... existing code ..." stand for lines of the source file; write those lines in their place, as they are.
Write the whole file after the update, with its indentation and comments, as
<update_file>[the file]</update_file>"""


def chat_messages(job: EditJob, padding: str = TAGS.padding) -> list[PromptMessage]:
    """Return the chat that asks any instruct model for the merged file in `TAGS`.  `padding`: the characters to put
    after each text."""
    parts = [f"<original>\n{job.original}{padding}</original>"]
    if job.update:
        parts.append(f"<update>\n{job.update}{padding}</update>")
    if job.instruction:
        parts.append(f"<instruction>{job.instruction}</instruction>")
    return _messages(SYSTEM, "\n".join(parts))


class Chat(TaggedOutput):
    name = "chat"
    tags = TAGS
    takes_instructions = True

    def messages(self, job: EditJob) -> list[PromptMessage]:
        return chat_messages(job)


class BegunChat(Chat):
    """`Chat` for models in this process.  The prompt begins their answer, so that their first token is text of the
    file.

    Models that were not trained to merge often forget the opening tag.  If the file ends with a line break, they also
    forget the blank line before the closing tag.
    """

    name = "begun_chat"
    tags = Tags("", TAGS.closing)
    prefill = TAGS.head

    def messages(self, job: EditJob) -> list[PromptMessage]:
        return chat_messages(job, padding="")


class FastApply(TaggedOutput):
    """Kortix FastApply (fine-tuned Qwen2.5-Coder 1.5B and 7B): `<code>`, `<update>` -> `<updated-code>`."""

    name = "fastapply"
    tags = Tags("<updated-code>", "</updated-code>")

    def messages(self, job: EditJob) -> list[PromptMessage]:
        sources = f"<code>{job.original}</code>\n\n<update>{job.update}</update>"
        return _messages(FASTAPPLY_SYSTEM, f"{FASTAPPLY_RULES}\n{sources}\n\nProvide the complete updated code.")


class Osmosis(TaggedOutput):
    """Osmosis-Apply-1.7B (fine-tuned Qwen3): `<code>`, `<edit>` -> `<code>`, with the opening tag prefilled."""

    name = "osmosis"
    tags = Tags("", "</code>", padding="\n")
    prefill = "<code>"

    def messages(self, job: EditJob) -> list[PromptMessage]:
        return _messages(OSMOSIS_SYSTEM, f"<code>\n{job.original}\n</code>\n\n\n<edit>\n{job.update}\n</edit>")


class AiXapply(TaggedOutput):
    """aiXapply-4B (fine-tuned Qwen3-4B): `<language>`, `<source_file>`, `<update_snippet>` -> `<update_file>`."""

    name = "aixapply"
    tags = Tags("<update_file>", "</update_file>")

    def messages(self, job: EditJob) -> list[PromptMessage]:
        sources = f"<source_file>{job.original}</source_file>\n\n<update_snippet>{job.update}</update_snippet>"
        user = f"<language>{job.language or 'text'}</language>\n\n{sources}\n\nWrite the whole updated file."
        return _messages(AIXAPPLY_SYSTEM, user)


def _messages(system: str, user: str) -> list[PromptMessage]:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]

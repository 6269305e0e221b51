"""What is drafted from: the edit that a request tells of, or the one that its prompt shows.

A prompt of one of our formats shows the original and the update; the predicted merge is in no prompt, and has to be
told.  Text is cut at the format's own marks wherever they are first found: a file that holds such marks makes other
drafts, nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from apply_service.drafting.copy import MergedEdit, OriginalSnippet
from apply_service.engine.vllm.message import FORMAT, decode_edit
from apply_service.errors import InvalidField
from apply_service.prompts.compact import Compact
from apply_service.prompts.tagged import TaggedOutput
from apply_service.protocols import DraftContext, Drafter, EditJob, PromptFormat
from apply_service.types import Certainty, LineOp, Prediction


class Marks(NamedTuple):
    """What stands in a prompt's text before the original, between it and the update, and after the update."""

    before: str
    between: str
    after: str


MARKS: Mapping[str, Marks] = {
    "chat": Marks("<original>\n", "\n</original>\n<update>\n", "\n</update>"),
    "fastapply": Marks("\n\n<code>", "</code>\n\n<update>", "</update>\n\nProvide"),
    "osmosis": Marks("<code>\n", "\n</code>\n\n\n<edit>\n", "\n</edit>"),
}
"""By prompt format; tests hold them to the prompts that the formats make."""


def open_drafter(
    formats: Sequence[PromptFormat], arguments: Mapping[str, Any] | None, prompt_ids: list[int]
) -> Drafter | None:
    """The drafter of one request, which is asked in the first of `formats` unless it says or shows another; None where
    it is no edit, or not ours.

    Raises:
        InvalidField: it tells of an edit that is none, or of another format than these.
    """
    told = decode_edit(arguments)
    if told is not None:
        sources = _named(formats, told.format_name).encode_sources(told.job)
        return MergedEdit(DraftContext(sources, prompt_ids))
    for prompt_format in formats:
        shown = read_prompt(prompt_format, prompt_ids)
        if shown is not None:
            return OriginalSnippet(DraftContext(prompt_format.encode_sources(shown), prompt_ids))
    return None


def _named(formats: Sequence[PromptFormat], name: str | None) -> PromptFormat:
    known = {prompt_format.name: prompt_format for prompt_format in formats}
    if name is not None and name not in known:
        raise InvalidField(
            f"`vllm_xargs.{FORMAT}` names no format of this model",
            value=name,
            limit=list(known),
            remedy="name one of these, or leave it out",
        )
    return formats[0] if name is None else known[name]


def read_prompt(prompt_format: PromptFormat, prompt_ids: Sequence[int]) -> EditJob | None:
    """The edit in a prompt that one of our formats made, without a merge; None where there is none to be found."""
    if isinstance(prompt_format, Compact):
        return _read_listing(prompt_format, list(prompt_ids))
    if isinstance(prompt_format, TaggedOutput) and prompt_format.name in MARKS:
        return _read_text(prompt_format.decode(prompt_ids), MARKS[prompt_format.name])
    return None


def _read_text(text: str, marks: Marks) -> EditJob | None:
    _, found, rest = text.partition(marks.before)
    original, divided, rest = rest.partition(marks.between)
    update, ended, _ = rest.rpartition(marks.after)
    return _unmerged(original, update) if found and divided and ended else None


def _read_listing(compact: Compact, ids: list[int]) -> EditJob | None:
    """Tags open the lines of a listing, and no text spells one; a bare tag at a line's end opens none."""
    vocabulary = compact.vocabulary
    try:
        start, middle, end = (ids.index(mark) for mark in (vocabulary.original, vocabulary.update, vocabulary.merge))
    except ValueError:
        return None
    if not start < middle < end:
        return None
    texts = [
        vocabulary.decode_bytes(ids[a + 1 : b]).decode(errors="replace") for a, b in ((start, middle), (middle, end))
    ]
    original, update = (text.removeprefix("\n") for text in texts)
    return _unmerged(original, update)


def _unmerged(original: str, update: str) -> EditJob:
    ops = tuple(LineOp("keep", i, None, line) for i, line in enumerate(original.split("\n")))
    return EditJob(original, update, "", None, None, Prediction(ops, tuple(update.split("\n")), Certainty.GUESS))

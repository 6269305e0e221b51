"""What a chat asks for: the file, the edit, and how the merged file is to be written back.  Or that it is no edit.

Three kinds of chat are answered, in this order; every other one is refused, as nothing here can hold a conversation.

1. A tagged message (`chat_tags`).
2. A prediction and an edit: the predicted text is the file, the one user message that is not that text is the edit, if
   it surely is one (`is_edit`).
3. A prediction and anything else: the message is an instruction, which an instruct model can follow and others refuse.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from typing import Literal

from apply_service.api.chat_tags import REMEDY, TagSet, read_tags
from apply_service.edits.envelope import is_fence
from apply_service.edits.markers import is_marker
from apply_service.edits.reply import detect_format
from apply_service.errors import AmbiguousTags, NotAnEdit
from apply_service.registry import EDIT_FORMATS

OPENING, CLOSING = "<updated-code>", "</updated-code>"
ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"})
ESCAPED = re.compile(r"(?:[^&<>\"']++|&(?:amp|lt|gt|quot|apos);)*+")
MIN_ANCHOR = 3
"""A line with fewer visible characters says nothing about where it comes from."""

Wrapping = Literal["bare", "tagged", "escaped"]


@dataclass(frozen=True, slots=True)
class ChatEdit:
    """The edit in a chat."""

    original: str
    update: str
    instruction: str
    wrapping: Wrapping = "bare"

    def write(self, merged: str) -> str:
        """The merged file, or any piece of it, as the client reads it; without `head` and `tail`."""
        return merged.translate(ESCAPES) if self.wrapping == "escaped" else merged

    @property
    def head(self) -> str:
        return "" if self.wrapping == "bare" else OPENING

    @property
    def tail(self) -> str:
        return "" if self.wrapping == "bare" else CLOSING


def read_chat(system: Sequence[str], user: Sequence[str], prediction: str | None, tags: TagSet) -> ChatEdit:
    """The edit that these messages and this prediction ask for.

    Raises:
        NotAnEdit: they ask for none, or say more than one edit.
        AmbiguousTags: see `chat_tags`; or tagged code and prediction are two different files.
    """
    tagged = read_tags(user[-1], tags) if user else None
    if tagged is None and prediction is not None:
        return _predicted(system, user, prediction)
    if tagged is None:
        raise NotAnEdit(
            "This service merges edits into files; it holds no conversation.",
            limit="<code>FILE</code><update>EDIT</update>, or a prediction and an edit",
            remedy="Send tags, or the file as `prediction` and the edit as the message; see the docs on clients.",
        )
    if len(user) > 1:
        raise NotAnEdit("More than one user message.", value=len(user), limit=1, remedy="Send the tagged one alone.")
    if prediction is not None and prediction != tagged.code:
        raise AmbiguousTags("Tagged code and prediction differ.", remedy="Send one of them; " + REMEDY.lower())
    if not any(OPENING in text for text in (*system, tagged.around)):
        return ChatEdit(tagged.code, tagged.update, tagged.instruction)
    if not (ESCAPED.fullmatch(tagged.code) and ESCAPED.fullmatch(tagged.update)):
        return ChatEdit(tagged.code, tagged.update, tagged.instruction, "tagged")
    return ChatEdit(unescape(tagged.code), unescape(tagged.update), tagged.instruction, "escaped")


def is_edit(text: str, original: str) -> bool:
    """Whether a message is surely an edit of the file, and no prose about one: a diff, patch or search/replace blocks;
    one fenced block and nothing else; or, without fences and without repeating the whole file, a snippet with a line
    for what stays, or one that begins with a line of the file."""
    *_, otherwise = EDIT_FORMATS
    if detect_format(text, named=None, original=original) != otherwise:
        return True
    lines = [line for line in text.split("\n") if line.strip()]
    fences = [at for at, line in enumerate(lines) if is_fence(line)]
    if fences:
        return fences == [0, len(lines) - 1]
    if not lines or (original.strip() and original.strip() in text):
        return False
    return any(is_marker(line) for line in lines) or _is_line_of(lines[0], original)


def _predicted(system: Sequence[str], user: Sequence[str], original: str) -> ChatEdit:
    messages = [text for text in user if text != original]
    if len(messages) != 1:
        raise NotAnEdit(
            "Beside the predicted file, exactly one user message says what to do.",
            value=len(messages),
            limit=1,
            remedy="Send the edit, or the instruction, as one message.",
        )
    if is_edit(messages[0].replace("\r\n", "\n"), original.replace("\r\n", "\n")):
        return ChatEdit(original, messages[0], "")
    return ChatEdit(original, "", "\n\n".join((*system, *messages)))


def _is_line_of(line: str, original: str) -> bool:
    wanted = line.strip()
    return len(wanted) >= MIN_ANCHOR and any(wanted == known.strip() for known in original.split("\n"))

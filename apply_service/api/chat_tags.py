"""A tagged message taken apart: `<instruction>..</instruction> <code>FILE</code> <update>EDIT</update>`.

The file and the edit may hold every one of these tags, and stay whole.  The rule: what counts is the *seam*
`</code><update>`, with nothing but white space inside; the code starts at the first `<code>` that opens a line (or
follows `</instruction>`), the update ends at the last `</update>`.  A message in which a seam stands twice can be read
in two ways, and is refused.  All text between tags is taken as it is, line breaks next to a tag included.

Text before the first and after the last tag is a prompt for a model that can read; it is no part of the edit.
Mercury's tags follow the same rule, but on an endpoint of their own, and stand on lines of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from apply_service.errors import AmbiguousTags, NotAnEdit

APPLY_TOKEN = "<|!@#IS_APPLY!@#|>"
"""What one client appends to mark its message; no part of the edit."""

REMEDY = "Send file and edit as fields of their own: POST /v1/code/apply or /v1/apply."


@dataclass(frozen=True, slots=True)
class Tagged:
    """What stood between the tags, and the text around them."""

    code: str
    update: str
    instruction: str
    around: str


@dataclass(frozen=True, slots=True)
class TagSet:
    """One spelling of the tags.  `is_padded`: one line break after an opening and before a closing tag belongs to the
    tag."""

    seam: re.Pattern[str]
    opening: re.Pattern[str]
    closing: str
    is_padded: bool = False


MORPH = TagSet(
    seam=re.compile(r"</code>\s*<update>"),
    opening=re.compile(r"^[ \t]*<code>", re.MULTILINE),
    closing="</update>",
)
MERCURY = TagSet(
    seam=re.compile(r"<\|/original_code\|>\s*<\|update_snippet\|>"),
    opening=re.compile(r"^[ \t]*<\|original_code\|>", re.MULTILINE),
    closing="<|/update_snippet|>",
    is_padded=True,
)
INSTRUCTION = re.compile(r"^[ \t]*<instructions?>", re.MULTILINE)
INSTRUCTION_SEAM = re.compile(r"</instructions?>\s*<code>")
STRAY = re.compile(r"^[ \t]*<(?:code|update|instructions?)>", re.MULTILINE)


def read_tags(text: str, tags: TagSet) -> Tagged | None:
    """The tagged parts of a message; None where it has no seam.

    Raises:
        AmbiguousTags: a seam stands twice.
        NotAnEdit: a seam, but no opening before or no closing after it, or tags in an order that is not known.
    """
    text = text.removesuffix(APPLY_TOKEN)
    if tags.seam.search(text) is None:
        return None
    before, after = _split_once(text, tags.seam)
    update, closing, tail = after.rpartition(tags.closing)
    if not closing:
        raise NotAnEdit(f"The edit has no closing {tags.closing}.", value=after[-80:], remedy=REMEDY)
    if STRAY.search(tail):
        raise NotAnEdit("A tag follows the edit.", value=tail[:80], remedy="Send instruction, code, update in order.")
    head, instruction, code = _read_head(before, tags)
    if tags.is_padded:
        code, update = _unpadded(code), _unpadded(update)
    return Tagged(code, update, instruction, head + tail)


def _read_head(before: str, tags: TagSet) -> tuple[str, str, str]:
    """What comes before the seam: prompt text, instruction, code."""
    opening = tags.opening.search(before)
    asked = INSTRUCTION.search(before)
    if asked is not None and (opening is None or asked.start() < opening.start()):
        instruction, code = _split_once(before[asked.end() :], INSTRUCTION_SEAM)
        return before[: asked.start()], instruction, code
    if opening is None:
        raise NotAnEdit("No line begins with the code's opening tag.", value=before[:80], remedy=REMEDY)
    return before[: opening.start()], "", before[opening.end() :]


def _split_once(text: str, seam: re.Pattern[str]) -> tuple[str, str]:
    """Raises AmbiguousTags unless the seam stands there exactly once."""
    found = list(seam.finditer(text))
    if len(found) != 1:
        raise AmbiguousTags(
            "The tags can be read in more than one way: the file or the edit holds them too."
            if found
            else "No code follows the instruction.",
            value=len(found),
            limit=1,
            remedy=REMEDY,
        )
    return text[: found[0].start()], text[found[0].end() :]


def _unpadded(text: str) -> str:
    return text.removeprefix("\n").removesuffix("\n")

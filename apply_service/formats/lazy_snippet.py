"""Reads lazy snippets: parts of the new file, with markers ("... existing code ...") for what stays.

A reply has this format if no other format is sure of it.  The package `merge` does the work.
"""

from __future__ import annotations

from apply_service.errors import EmptyUpdate, TooLarge
from apply_service.formats.calls import Arguments
from apply_service.formats.recognise import Recognised
from apply_service.merge.merge import merge
from apply_service.protocols import EditContext
from apply_service.text.fidelity import normalise
from apply_service.types import Prediction

MAX_CHARACTERS = 32_000_000
CODE = ("code_edit", "codeEdit")
"""The names of the snippet in tool calls.  CODE_TOOL also calls it `code`."""
CODE_TOOL = "insert_edit_into_file"


def predict(original: str, update: str, about: EditContext) -> Prediction:
    """Return the predicted merge.

    Raises EmptyUpdate if the snippet has no visible character.  Raises TooLarge if the texts are too large to align.
    """
    if not update.strip():
        raise EmptyUpdate("the snippet is empty", remedy="send the lines that change, with markers for the rest")
    if len(original) + len(update) > MAX_CHARACTERS:
        raise TooLarge(
            "original and snippet are too large to merge",
            value=len(original) + len(update),
            limit=MAX_CHARACTERS,
            remedy="send a smaller file",
        )
    if "\r" not in original:  # then no line is quoted with a \r, so each \r of the update ends a line
        update = update.replace("\r", "\n")
    return merge(original, update, **about._asdict())


class FoundSnippet(Recognised):
    """The snippet in a reply, or in the call of a tool that takes snippets."""

    call_words = (*CODE, CODE_TOOL)

    @classmethod
    def in_call(cls, call: Arguments) -> str | None:
        names = (*CODE, "code") if call.tool == CODE_TOOL else CODE
        found = [value for name in names if isinstance(value := call.fields.get(name), str)]
        return normalise(found[0]) if len(found) == 1 else None


recognise = FoundSnippet

"""What the tests of doubt ask of a merge: the text written out by hand, and whether it is certain."""

from __future__ import annotations

from apply_service.edits.merge import merge
from apply_service.types import Certainty


def assert_certain(
    original: str, update: str, wanted: str, *, language: str | None = "python", path: str | None = None
) -> None:
    """The merge is `wanted`, and nothing speaks against it."""
    prediction = merge(original, update, language=language, path=path)
    assert prediction.text == wanted
    assert (prediction.certainty, prediction.reasons) == (Certainty.CERTAIN, ())


def assert_doubted(
    original: str, update: str, wanted: str, reason: str, *, language: str | None = "python", path: str | None = None
) -> None:
    """The merge is `wanted` as the best guess, and `reason` alone is what keeps it from being certain."""
    prediction = merge(original, update, language=language, path=path)
    assert prediction.text == wanted
    assert (prediction.certainty, prediction.reasons) == (Certainty.LIKELY, (reason,))


def edited(text: str, old: str, new: str) -> str:
    """The text with its one `old` replaced."""
    assert text.count(old) == 1
    return text.replace(old, new)

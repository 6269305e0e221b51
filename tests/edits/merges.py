"""What tests of the merger ask: the text, written out by hand."""

from __future__ import annotations

from apply_service.merge.merge import merge


def assert_merged(
    original: str, update: str, wanted: str, *, language: str | None = "python", path: str | None = None
) -> None:
    """The likeliest reading gives `wanted`."""
    assert merge(original, update, language=language, path=path).text == wanted


def edited(text: str, old: str, new: str) -> str:
    """The text with its one `old` replaced."""
    assert text.count(old) == 1
    return text.replace(old, new)

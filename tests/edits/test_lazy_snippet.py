"""The lazy snippet as an edit format: what it refuses."""

from __future__ import annotations

import pytest

from apply_service.errors import EmptyUpdate, TooLarge
from apply_service.formats import lazy_snippet
from apply_service.formats.lazy_snippet import MAX_CHARACTERS
from apply_service.protocols import EditContext


@pytest.mark.parametrize("update", ["", "\n", "  \n\t\n"])
def test_an_empty_snippet_is_refused(update: str) -> None:
    with pytest.raises(EmptyUpdate) as caught:
        lazy_snippet.predict("a = 1\n", update, EditContext())
    assert caught.value.remedy


def test_too_large_a_text_is_refused_by_name() -> None:
    with pytest.raises(TooLarge) as caught:
        lazy_snippet.predict("x" * (MAX_CHARACTERS + 1), "y", EditContext())
    assert caught.value.limit == MAX_CHARACTERS


def test_too_many_equal_lines_are_refused_by_name() -> None:
    with pytest.raises(TooLarge):
        lazy_snippet.predict("}\n" * 40_000, "}\na\n" * 2_000, EditContext())


def test_only_a_marker_changes_nothing() -> None:
    prediction = lazy_snippet.predict("a = 1\n", "# ... existing code ...\n", EditContext(None, "python"))
    assert prediction.text == "a = 1\n"


@pytest.mark.parametrize("original", ["a = 1\nb = 2\nc = 3\n", "a = 1\rb = 2\rc = 3\r"])
def test_a_snippet_with_several_kinds_of_line_ends(original: str) -> None:
    update = "# ... existing code ...\nb = 2\rc = 4\r# ... existing code ...\n"
    prediction = lazy_snippet.predict(original.replace("\r", "\n"), update, EditContext(None, "python"))
    assert prediction.text == "a = 1\nb = 2\nc = 4\n"

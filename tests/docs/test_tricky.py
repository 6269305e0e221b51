"""The page of tricky edits: its answers are those that were written by hand, and as sure as the page says."""

from __future__ import annotations

import pytest

from apply_service.errors import ApplyError
from docs.tricky_parts import TRICKY, Tricky, answer


@pytest.mark.parametrize("one", TRICKY, ids=lambda one: one.title)
def test_the_answer_is_what_was_written_by_hand(one: Tricky) -> None:
    found = answer(one)
    if isinstance(found, ApplyError):
        assert one.wanted is None
        return
    assert found.merged_code == one.wanted
    assert (not found.reasons) == one.is_sure

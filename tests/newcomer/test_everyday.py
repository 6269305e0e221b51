"""Everyday edits of seventeen kinds of file, written by someone who knew the README alone: none is wrong unseen."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from apply_service.errors import ApplyError
from apply_service.pipeline import apply
from apply_service.target import Runtime, no_target
from apply_service.types import ApplyRequest

with lzma.open(Path(__file__).parent / "everyday.json.xz", "rt", encoding="utf-8", newline="\n") as text:
    WRITTEN: dict[str, Any] = json.load(text)
EDITS = WRITTEN["edits"]
LEAST_UNASKED = 66
"""Of the 95, how many were right without a question when they were written: a loss is to be seen."""


def outcome(edit: dict[str, str]) -> str:
    request = ApplyRequest(WRITTEN["files"][edit["path"]], edit["update"], path=edit["path"], strategy="exact")
    try:
        result = apply(request, Runtime(load=no_target))
    except ApplyError:  # what is not clear is asked about, too
        return "asked"
    is_asked = any(not verdict.is_pass for verdict in result.verdicts)
    return "asked" if is_asked else "right" if result.merged_code == edit["after"] else "wrong"


@pytest.mark.parametrize("edit", EDITS, ids=[edit["kind"] for edit in EDITS])
def test_an_answer_without_a_question_is_right(edit: dict[str, str]) -> None:
    assert outcome(edit) != "wrong"


def test_most_are_right_without_a_question() -> None:
    assert sum(outcome(edit) == "right" for edit in EDITS) >= LEAST_UNASKED

"""What options of `apply-eval` may be."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from typing import Any

SPLITS = ("fit", "check")
"""Parts of a data set: rules and models are fitted on the one and reported on the other."""
REPLAY = "replay:"
"""Before the name of a shape: a target that writes what is known (`replay`)."""

DEFAULT_DRAFTERS = ("prompt_lookup", "original", "original_snippet", "merged_edit")
DIALECTS = ("native", "openai_chat", "code_apply")
"""Our own dialect, chat completions with Morph's tags, and the structured endpoint of Morph and Relace."""

ENDPOINTS = ("chat", "completions")
"""Of an OpenAI-compatible server."""


def positive(text: str) -> int:
    """A whole number above zero.  Raises ArgumentTypeError."""
    try:
        number = int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no whole number") from None
    if number < 1:
        raise ArgumentTypeError(f"{text} is not positive")
    return number


def probability(text: str) -> float:
    """A number from 0 to 1.  Raises ArgumentTypeError."""
    try:
        number = float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no number") from None
    if not 0 <= number <= 1:
        raise ArgumentTypeError(f"{text} is not between 0 and 1")
    return number


def json_object(text: str) -> dict[str, Any]:
    """Fields of a request's body.  Raises ArgumentTypeError."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ArgumentTypeError(f"{text!r} is no JSON object")
    return found

"""Samples made by hand."""

from __future__ import annotations

from typing import Any

from benchmarks.decoding.samples import Sample


def sample(contender: str, tok_s: float, group: str = "a", **changes: Any) -> Sample:
    """A run that decoded 100 tokens, 400 characters, at `tok_s`."""
    values: dict[str, Any] = {
        "target": "replay:tiny",
        "contender": contender,
        "batch": 1,
        "group": group,
        "n_prompt_tokens": 50,
        "n_tokens": 100,
        "n_chars": 400,
        "decode_s": 100 / tok_s,
        "first_token_s": 0.5,
        "passes": 10,
        "drafted": 120,
        "accepted": 90,
        "rejections": 2,
        "is_capped": False,
        "end_to_end_s": 1.0 + 100 / tok_s,
        "draft_s": 0.0012,
        "n_exact": 1,
    }
    return Sample(**(values | changes))

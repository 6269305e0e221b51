"""What a service says of its cost, in OpenAI's words; what it does not say stays unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def usage_fields(answer: Mapping[str, Any], latency_s: float) -> dict[str, Any]:
    """Fields of `Answer` out of `usage`.  The speed is over the whole latency: from outside, prefill, queue and network
    can't be told apart."""
    usage = answer.get("usage")
    if not isinstance(usage, Mapping):
        return {}
    n_tokens = _count(usage.get("completion_tokens"))
    details = usage.get("completion_tokens_details")
    details = details if isinstance(details, Mapping) else {}
    accepted, rejected = (_count(details.get(f"{word}_prediction_tokens")) for word in ("accepted", "rejected"))
    return {
        "n_prompt_tokens": _count(usage.get("prompt_tokens")),
        "n_tokens": n_tokens,
        "tok_s": n_tokens / latency_s if n_tokens and latency_s > 0 else None,
        "n_accepted": accepted,
        "n_drafted": accepted + rejected if accepted is not None and rejected is not None else None,
    }


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None

"""What browsers are told about answers.  Any of them may be opened as a page, and may quote what a user sent."""

from __future__ import annotations

from collections.abc import Mapping

CLOSED: Mapping[str, str] = {
    "default-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
"""The policy of an answer that is no page: it loads and runs nothing, and no other page shows it in a frame."""


def policy_headers(**allowed: str) -> dict[str, str]:
    """The headers of a page that may do no more than this; `script_src` stands for the rule `script-src`."""
    rules = {**CLOSED, **{name.replace("_", "-"): value for name, value in allowed.items()}}
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in rules.items()),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


NO_PAGE = policy_headers()
"""The headers of every answer that has none of its own."""

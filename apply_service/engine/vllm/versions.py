"""Which vLLM this plug-in knows: checked once, at start, with a message that says what to do."""

from __future__ import annotations

import re

from apply_service.errors import MissingDependency, SettingsError

OLDEST, NEWEST = (0, 32), (0, 33)
"""Minor versions.  vLLM calls its interface for proposers experimental: a newer one has to be looked at first."""
MAX_DRAFT = 128
"""Tokens a request that vLLM's rejection sampler takes in a step; it asserts that in mid-flight, so we look before."""


def check_version(version: str) -> None:
    """
    Raises:
        MissingDependency: this is no vLLM that the plug-in knows.
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or not OLDEST <= (int(found[1]), int(found[2])) <= NEWEST:
        raise MissingDependency(
            f"apply_service's plug-in does not know vLLM {version}",
            value=version,
            limit=f"vLLM {_name(OLDEST)} to {_name(NEWEST)}",
            remedy=f"install vLLM {_name(NEWEST)}, or leave --speculative-config out",
        )


def check_draft_length(n_tokens: int) -> None:
    """
    Raises:
        SettingsError: `num_speculative_tokens` is past what vLLM verifies.
    """
    if not 1 <= n_tokens <= MAX_DRAFT:
        raise SettingsError(
            "num_speculative_tokens is out of range",
            value=n_tokens,
            limit=f"1 to {MAX_DRAFT}",
            remedy="correct it in --speculative-config; 127 is a good choice",
        )


def _name(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))

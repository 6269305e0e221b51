"""Which vLLM this plug-in knows: checked once, at start, with a message that says what to do.

vLLM prints an error's message alone, so limit and remedy stand in it as well.
"""

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
        limit = f"vLLM {_name(OLDEST)} to {_name(NEWEST)}"
        remedy = f"install vLLM {_name(NEWEST)}, or leave --speculative-config out"
        message = f"apply_service's plug-in knows {limit}, and this is {version or 'unknown'}: {remedy}"
        raise MissingDependency(message, value=version, limit=limit, remedy=remedy)


def check_draft_length(n_tokens: int) -> None:
    """
    Raises:
        SettingsError: `num_speculative_tokens` is past what vLLM verifies.
    """
    if not 1 <= n_tokens <= MAX_DRAFT:
        limit, remedy = f"1 to {MAX_DRAFT}", "correct it in --speculative-config; 127 is a good choice"
        message = f"num_speculative_tokens is out of range ({n_tokens}, allowed: {limit}): {remedy}"
        raise SettingsError(message, value=n_tokens, limit=limit, remedy=remedy)


def _name(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))

"""Brackets of lines, counted as characters: also those in texts and comments."""

from __future__ import annotations

from collections.abc import Sequence

MAX_LENGTH = 2000
"""Of a line that counts; a longer one is data."""
_PAIRS = (("(", ")"), ("[", "]"), ("{", "}"))


def surplus(lines: Sequence[str]) -> tuple[int, ...]:
    """Brackets opened less brackets closed, for each kind of bracket."""
    text = "\n".join(line for line in lines if len(line) < MAX_LENGTH)
    return tuple(text.count(opening) - text.count(closing) for opening, closing in _PAIRS)


def balance(lines: Sequence[str]) -> int:
    """Brackets opened less brackets closed, of all kinds together."""
    return sum(surplus(lines))

"""What options of `apply-eval` may be."""

from __future__ import annotations

from argparse import ArgumentTypeError


def positive(text: str) -> int:
    """A whole number above zero.  Raises ArgumentTypeError."""
    try:
        number = int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no whole number") from None
    if number < 1:
        raise ArgumentTypeError(f"{text} is not positive")
    return number

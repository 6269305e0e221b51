"""Which format an edit is written in: `reply` says so of a whole reply; here for callers that ask for nothing else."""

from __future__ import annotations

from apply_service.edits.reply import known_format, read_format


def detect_format(update: str, *, named: str | None, original: str = "") -> str:
    """The format's name in the registry.  `update` has LF line ends.

    Raises:
        UnknownEditFormat: `named` is none that the service knows.
    """
    return read_format(update, original=original) if named is None else known_format(named)

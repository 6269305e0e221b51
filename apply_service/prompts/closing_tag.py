"""The end of an output that is marked by a closing tag in its text."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class ClosingTag:
    """Finds the token with which the output's closing tag is complete.

    A file may spell the tag itself, so the `n_expected` occurrences that the predicted merge has are passed over; the
    formats cut the text at its last tag.  Tokens are decoded one at a time: a character split over tokens can't hide a
    tag, which is ASCII.
    """

    def __init__(self, tag: str, decode: Callable[[Sequence[int]], str], *, n_expected: int = 0) -> None:
        self._tag = tag
        self._decode = decode
        self._left = n_expected + 1
        self._tail = ""

    def __call__(self, new_ids: Sequence[int]) -> int | None:
        """A `StopFinder`."""
        return next((i for i, token in enumerate(new_ids) if self._closes(token)), None)

    def _closes(self, token: int) -> bool:
        self._tail += self._decode([token])
        *passed, self._tail = self._tail.split(self._tag)
        self._left -= len(passed)
        self._tail = self._tail[-(len(self._tag) - 1) :]
        return self._left <= 0

"""Where an output ends: at a stop id, at a closing tag, or at the limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class ClosingTag:
    """Finds the token with which the output's closing tag is complete.

    A file may spell the tag itself, so the `n_expected` occurrences that the predicted merge has are passed over; the
    formats cut the text at its last tag.  `decode` turns ids to text; pieces are decoded one at a time, so a
    character split over tokens never hides a tag, which is ASCII.
    """

    def __init__(self, tag: str, decode: Callable[[Sequence[int]], str], *, n_expected: int = 0) -> None:
        self.tag = tag
        self._decode = decode
        self._left = n_expected + 1
        self._tail = ""

    def find(self, new_ids: Sequence[int]) -> int | None:
        """Index in `new_ids` of the token that completes the last expected tag; None where it isn't there yet.  Call
        with each token once, in order."""
        for i, token in enumerate(new_ids):
            self._tail += self._decode([token])
            at = self._tail.find(self.tag)
            while at >= 0:
                self._left -= 1
                self._tail = self._tail[at + len(self.tag) :]
                if self._left == 0:
                    return i
                at = self._tail.find(self.tag)
            self._tail = self._tail[-(len(self.tag) - 1) :]
        return None

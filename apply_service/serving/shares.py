"""Shares things among callers: a queue that serves them in turn, and a limit that no caller can use up alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


def has_room(more: int, *, own: int, total: int, limit: int, n_callers: int) -> bool:
    """Tell whether a caller who has `own` of the `total` may have `more`.  A caller with less than an equal share of
    the limit may, even if others have used the limit up.  `n_callers` counts this caller and all others who have a
    share.

    The total stays below the limit times 1 + 1/2 + ... + 1/n_callers.
    """
    return total + more <= limit or own + more <= limit // n_callers


class FairQueue(Generic[T]):
    """A queue that serves the owners in turn, and each owner's items in the order of arrival.  Not thread-safe."""

    def __init__(self) -> None:
        self._items: dict[str, dict[T, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._items.values()))

    def __iter__(self) -> Iterator[T]:
        return (item for items in self._items.values() for item in items)

    def __contains__(self, item: object) -> bool:
        return any(item in items for items in self._items.values())

    def put(self, owner: str, item: T) -> None:
        """Add an item after the owner's others."""
        self._items.setdefault(owner, {})[item] = None

    def take(self) -> T | None:
        """Remove and return the next item of the owner whose turn it is; None if the queue is empty."""
        for owner, items in self._items.items():
            item = next(iter(items))
            self.remove(owner, item)
            if rest := self._items.pop(owner, None):
                self._items[owner] = rest  # after the other owners
            return item
        return None

    def remove(self, owner: str, item: T) -> None:
        """Remove an item if it is there."""
        items = self._items.get(owner, {})
        items.pop(item, None)
        if not items:
            self._items.pop(owner, None)

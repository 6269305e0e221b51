"""One sequence in the torch engine: its prompt, its range of slots, and how many of them are filled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self


class TorchSession:
    """Owns `slots` until it is closed; `length` of them hold keys and values.

    `n_cached` of these came from the prefix cache.  Slots from `cleared` on may hold what an earlier session left.
    Where `is_sound` is no longer true, what it has read is of no use to others.
    """

    def __init__(
        self,
        prompt_ids: Sequence[int],
        slots: range,
        *,
        owner: str,
        n_cached: int,
        release: Callable[[TorchSession], None],
    ) -> None:
        self.prompt_ids = prompt_ids
        self.slots = slots
        self.owner = owner
        self.n_cached = n_cached
        self.length = n_cached
        self.cleared = n_cached
        self.is_open = True
        self.is_sound = True
        self._release = release

    @property
    def capacity(self) -> int:
        return len(self.slots)

    @property
    def n_pending(self) -> int:
        return max(0, len(self.prompt_ids) - 1 - self.length)

    def rewind(self, n_tokens: int) -> None:
        if not 0 <= n_tokens <= self.length:
            raise AssertionError(f"rewind {n_tokens} of {self.length}")
        self.length -= n_tokens

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._release(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

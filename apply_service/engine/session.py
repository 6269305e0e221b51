"""One sequence in an engine: its prompt, how much of it has been read, and its slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from apply_service.errors import ContextLimitExceeded


class TorchSession:
    """Owns `slots` until it is closed, which calls `release` once.  The first `length` of them hold keys and values of
    tokens that have been read, `n_cached` of them by an earlier session.

    Slots from `cleared` on may hold data of an earlier session.  If `is_sound` is false, the prefix cache must not keep
    anything of this session.
    """

    def __init__(
        self,
        prompt_ids: Sequence[int],
        slots: range,
        *,
        owner: str = "",
        n_cached: int = 0,
        release: Callable[[Any], None] = lambda _session: None,
    ) -> None:
        self.prompt_ids = prompt_ids
        self.slots = slots
        self.owner = owner
        self.n_cached = n_cached
        self.length = self.cleared = n_cached
        self.is_open = self.is_sound = True
        self._release = release

    @property
    def capacity(self) -> int:
        """The most tokens that it may read."""
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

    def __exit__(self, *_: object) -> None:
        self.close()


def refuse_over_limit(n_prompt: int, max_new_tokens: int, limit: int) -> None:
    """Raises ContextLimitExceeded: prompt and new tokens are more than `limit`."""
    if n_prompt + max_new_tokens > limit:
        raise ContextLimitExceeded(
            f"{n_prompt} prompt tokens and up to {max_new_tokens} new ones exceed the context limit",
            value=n_prompt + max_new_tokens,
            limit=limit,
            remedy="send a smaller file, or use a model with a longer context",
        )

"""The requests that vLLM decodes: each one's draft from step to step, found again although rows move.

With the hook, a request is known by its id.  Without it, by all that has been written so far, prompt included: where
two requests have the very same text behind them, either's draft is the other's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from apply_service.drafting.acceptance import worthwhile_length
from apply_service.protocols import Drafter

Tokens = npt.NDArray[np.int32]

LEAST_CHANCE = 0.05
"""A draft ends where its next token is reached and accepted with less than this probability."""
TAIL = 64
"""Tokens by which a request without an id is looked up; all of them are then compared."""


class HookRow(NamedTuple):
    """What the hook knows of one row: its request, and the edit in it."""

    id: str
    n_prompt: int
    arguments: Mapping[str, Any] | None


@dataclass(slots=True)
class Request:
    """One request and its draft.  `drafter` None: it is no edit of ours, and nothing is drafted."""

    prompt: Tokens
    drafter: Drafter | None
    output_ids: list[int] = field(default_factory=list)

    @property
    def n_tokens(self) -> int:
        return len(self.prompt) + len(self.output_ids)

    def is_behind(self, tokens: Tokens) -> bool:
        """Whether `tokens` are just what this request has so far."""
        n_prompt = len(self.prompt)
        return np.array_equal(tokens[:n_prompt], self.prompt) and tokens[n_prompt:].tolist() == self.output_ids

    def draft(self, sampled: list[int], limit: int) -> list[int]:
        """Take what the step wrote, and draft what comes next: at most `limit` tokens."""
        self.output_ids += sampled
        if self.drafter is None:
            return []
        self.drafter.observe(len(sampled) - 1, sampled[-1])
        draft = self.drafter.propose(self.output_ids, limit)
        n_tokens = worthwhile_length(draft.expected_acceptance, LEAST_CHANCE, min(limit, len(draft.token_ids)))
        return [int(token) for token in draft.token_ids[:n_tokens]]


Open = Callable[[Mapping[str, Any] | None, Tokens], Request]
"""A request by its arguments and prompt."""


class ById:
    """Requests by their ids, for as long as vLLM has them."""

    def __init__(self, open_request: Open) -> None:
        self._open = open_request
        self._requests: dict[str, Request] = {}

    def find(self, row: HookRow, tokens: Tokens) -> Request:
        """The request of a row that had `tokens` before this step; a new one, or one that lost step, is begun anew from
        those tokens."""
        request = self._requests.get(row.id)
        if request is None or request.n_tokens != len(tokens):
            request = self._requests[row.id] = self._open(row.arguments, tokens[: row.n_prompt].copy())
            request.output_ids += tokens[row.n_prompt :].tolist()
        return request

    def keep(self, ids: Collection[str]) -> None:
        """Forget all others."""
        for gone in self._requests.keys() - set(ids):
            del self._requests[gone]

    def __len__(self) -> int:
        return len(self._requests)


class ByContent:
    """Requests by all their tokens; nobody says when one ends, so the `n_kept` used last are kept."""

    def __init__(self, open_request: Open, n_kept: int) -> None:
        self._open = open_request
        self._n_kept = n_kept
        self._requests: OrderedDict[tuple[int, bytes], list[Request]] = OrderedDict()

    def take(self, tokens: Tokens) -> Request:
        """The request that had `tokens` before this step, taken out: `put` it back with what the step added.  A new
        one's prompt is all of them."""
        key = _key(tokens)
        same = self._requests.get(key, [])
        for at, request in enumerate(same):
            if request.is_behind(tokens):
                del same[at]
                if not same:
                    del self._requests[key]
                return request
        return self._open(None, tokens.copy())

    def put(self, request: Request, tokens: Tokens) -> None:
        """Keep a request that now has `tokens`."""
        self._requests.setdefault(_key(tokens), []).append(request)
        self._requests.move_to_end(_key(tokens))
        while len(self._requests) > self._n_kept:
            self._requests.popitem(last=False)

    def __len__(self) -> int:
        return sum(len(same) for same in self._requests.values())


def _key(tokens: Tokens) -> tuple[int, bytes]:
    return len(tokens), tokens[-TAIL:].tobytes()

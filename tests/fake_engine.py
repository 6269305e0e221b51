"""A target without a network: a test double with the engine's contract.

Its "logits" are any function of the tokens so far, so that every path of decoding (sampling, masks, rejections, ends,
limits) can be driven exactly, in microseconds, without torch models.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import torch

from apply_service.engine.kv_cache import refuse_over_limit
from apply_service.engine.layout import WindowRows
from apply_service.engine.sampling import choose
from apply_service.protocols import Part, Session, Verification, Window

MAX_BEYOND = 4
"""Choices behind a rejected token that are computed: a real engine has them all, here each takes time."""
Logits = Callable[[Sequence[int]], npt.NDArray[np.float32]]
"""Tokens so far (prompt included) -> logits [vocab]."""


class FakeSession(Session):
    """`ids` are the tokens whose keys and values a real session would have."""

    def __init__(self, prompt_ids: Sequence[int], capacity: int, **options: Any) -> None:
        self.ids = list(prompt_ids)
        super().__init__(list(prompt_ids), range(capacity), **options)

    @property
    def length(self) -> int:
        return len(self.ids)

    @length.setter
    def length(self, n_tokens: int) -> None:
        del self.ids[n_tokens:]


class FakeEngine:
    """Verifies windows against `logits`.  `n_open` and `n_steps` let tests see leaks and count passes over windows;
    `max_open` bounds the sessions, `max_rows` the rows of a pass (None: one full window), `n_kept_prompts` the prompts
    whose beginnings are known again.  A pass that no real engine could run is an AssertionError."""

    determinism: Literal["bitwise", "tolerant"] = "bitwise"

    def __init__(
        self,
        logits: Logits,
        *,
        max_draft: int = 63,
        context_limit: int = 1 << 20,
        name: str = "fake",
        max_open: int | None = None,
        max_rows: int | None = None,
        prefill_grain: int = 16,
        n_kept_prompts: int = 0,
    ) -> None:
        self.logits = logits
        self.max_draft = max_draft
        self.context_limit = context_limit
        self.name = name
        self.max_open = max_open
        self.pass_times: Mapping[int, float] = {max_rows or max_draft + 1: 1.0}
        self.prefill_grain = max(1, min(prefill_grain, max(self.pass_times) // 2))
        self.n_open = 0
        self.n_steps = 0
        self._kept: deque[tuple[str, Sequence[int]]] = deque(maxlen=n_kept_prompts)

    def open(self, prompt_ids: Sequence[int], max_new_tokens: int, *, owner: str = "") -> Session | None:
        refuse_over_limit(len(prompt_ids), max_new_tokens, self.context_limit)
        if self.max_open is not None and self.n_open >= self.max_open:
            return None
        self.n_open += 1
        known = [_n_shared(prompt_ids[:-1], past) for who, past in self._kept if who == owner]
        n_cached = max(known, default=0) // self.prefill_grain * self.prefill_grain
        capacity = len(prompt_ids) + max_new_tokens
        return FakeSession(prompt_ids, capacity, owner=owner, n_cached=n_cached, release=self._closed)

    def _closed(self, session: FakeSession) -> None:
        self.n_open -= 1
        self._kept.append((session.owner, session.prompt_ids[: min(session.length, len(session.prompt_ids) - 1)]))

    def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]:
        assert sum(part.n_rows for part in parts) <= max(self.pass_times), "more rows than a pass has"
        assert len({id(part.session) for part in parts}) == len(parts), "two parts of one session"
        self.n_steps += any(isinstance(part, Window) for part in parts)
        answers = [self._look(part) for part in parts]  # all of it before any session changes, as it may raise
        for part, answer in zip(parts, answers, strict=True):
            session = cast(FakeSession, part.session)
            if isinstance(part, Window) and answer is not None:
                session.ids += [*unread(session), part.last_id, *answer.choices[:-1]]
            else:
                session.ids += session.prompt_ids[session.length : session.length + part.n_rows]
        return answers

    def _look(self, part: Part) -> Verification | None:
        session = cast(FakeSession, part.session)
        assert session.is_open, "the session is closed"
        assert session.length + part.n_rows <= len(session.slots), "more tokens than the session has room for"
        if isinstance(part, Window):
            return self._verify(part)
        assert part.n_rows <= session.n_pending, "more rows than the prompt has"
        assert part.n_rows % self.prefill_grain == 0 or part.n_rows == session.n_pending, "a broken grain"
        return None

    def _verify(self, window: Window) -> Verification:
        ids = [*cast(FakeSession, window.session).ids, *unread(window.session)]
        choices: list[int] = []
        logprobs: list[float] = []
        beyond: list[int] = []
        for i, fed in enumerate([window.last_id, *window.draft_ids]):
            is_right = not beyond and (not i or fed == choices[-1])
            if len(beyond) == MAX_BEYOND:
                break
            ids.append(fed)
            row = torch.from_numpy(self.logits(ids)).float()[None]
            allowed = None if window.allowed is None or not is_right else [window.allowed[i]]
            choice = int(choose(row, [WindowRows(0, 1, len(ids), window.sampling, allowed)])[0])
            (choices if is_right else beyond).append(choice)
            logprobs += [float(row[0].log_softmax(-1)[choice])] * is_right
        return Verification(choices=choices, logprobs=logprobs, beyond=beyond)


def unread(session: Session) -> Sequence[int]:
    """What is pending of a prompt."""
    return session.prompt_ids[session.length : session.length + session.n_pending]


def _n_shared(ids: Sequence[int], past: Sequence[int]) -> int:
    n_both = min(len(ids), len(past))
    return next((i for i in range(n_both) if ids[i] != past[i]), n_both)


class ScriptedEngine(FakeEngine):
    """Writes one known answer whatever the prompt, comparing slices only: counts the passes of long outputs in no time.

    The answer is taken from the session's own length, so every session must be opened on a prompt of `prompt_length`
    tokens.
    """

    def __init__(self, answer: Sequence[int], *, prompt_length: int = 1, max_draft: int = 255) -> None:
        super().__init__(_no_logits, max_draft=max_draft, name="scripted")
        self._answer = list(answer)
        self._prompt_length = prompt_length

    def _verify(self, window: Window) -> Verification:
        at = window.session.length + window.session.n_pending + 1 - self._prompt_length
        size = len(window.draft_ids) + 1
        wanted = (self._answer[at : at + size] + self._answer[-1:] * size)[:size]
        return Verification(choices=wanted[: _n_shared(window.draft_ids, wanted) + 1], logprobs=None)


def _no_logits(_: Sequence[int]) -> npt.NDArray[np.float32]:
    raise AssertionError("a scripted engine has no logits")


def scripted(prompt_length: int, answer: Sequence[int], n_vocab: int, *, margin: float = 20.0) -> Logits:
    """Logits of a target that wants to write `answer` after any prompt of `prompt_length` tokens, then repeats its
    last id."""

    def logits(ids: Sequence[int]) -> npt.NDArray[np.float32]:
        row = np.zeros(n_vocab, dtype=np.float32)
        row[answer[min(len(ids) - prompt_length, len(answer) - 1)]] = margin
        return row

    return logits


def hashed(n_vocab: int, *, seed: int = 0, n_levels: int | None = None, order: int = 3) -> Logits:
    """Logits that look random but depend only on the last `order` tokens; `n_levels` rounds them, so that ties
    abound."""

    def logits(ids: Sequence[int]) -> npt.NDArray[np.float32]:
        key = [seed, *(int(i) for i in ids[-order:])]
        row = np.random.default_rng(key).standard_normal(n_vocab).astype(np.float32) * 3
        return row if n_levels is None else np.round(row * n_levels / 6).astype(np.float32)

    return logits

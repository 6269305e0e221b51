"""What vLLM does around a proposer, as far as the proposer can see it: rows that move, prompts read in pieces, drafts
verified against what the target is known to write, requests that come, go and are preempted."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from apply_service.engine.vllm.proposer import Limits, Proposer

MAX_LEN = 4096


@dataclass
class FakeRequest:
    """A request, the output that its target writes, and what became of its drafts."""

    name: str
    prompt: list[int]
    answer: list[int]
    arguments: Mapping[str, Any] | None = None
    n_prefill_steps: int = 1
    written: list[int] = field(default_factory=list)
    draft: list[int] = field(default_factory=list)
    drafts: list[list[int]] = field(default_factory=list)
    n_accepted: int = 0
    n_steps: int = 0

    @property
    def is_over(self) -> bool:
        return len(self.written) == len(self.answer)

    @property
    def sampling_params(self) -> SimpleNamespace:
        return SimpleNamespace(extra_args=self.arguments)

    def step(self) -> list[int]:
        """What the verifier lets pass of the draft, and the target's own next token; nothing while the prompt is being
        read."""
        if self.n_prefill_steps > 1:
            self.n_prefill_steps -= 1
            return []
        rest = self.answer[len(self.written) :]
        n = next((i for i, (a, b) in enumerate(zip(self.draft, rest, strict=False)) if a != b), len(self.draft))
        sampled = rest[: min(n, len(rest) - 1) + 1]
        self.n_accepted += len(sampled) - 1
        self.n_steps += 1
        self.written += sampled
        return sampled


class FakeRunner:
    """vLLM's model runner.  `seed` decides how rows move."""

    def __init__(self, drafter: Any, seed: int = 0) -> None:
        self.drafter = drafter
        self.requests: dict[str, FakeRequest] = {}
        self.input_batch = SimpleNamespace(req_ids=[], num_prompt_tokens=[])
        self._random = random.Random(seed)

    def propose_draft_token_ids(self, sampled: list[list[int]], tokens: Any, counts: Any) -> list[list[int]]:
        drafts: list[list[int]] = self.drafter.propose(sampled, counts, tokens, slot_mappings=None)
        return drafts

    def run(self, *waiting: FakeRequest, join_every: int = 1, preempted: str | None = None) -> None:
        """Decode all of them to the end; one joins every so many steps, and `preempted` sits out some of them."""
        queue, n_steps = list(waiting), 0
        while queue or self.requests:
            if queue and n_steps % join_every == 0:
                joining = queue.pop(0)
                self.requests[joining.name] = joining
            self._step([r for r in self.requests.values() if r.name != preempted or n_steps % 7 < 3])
            n_steps += 1
            self.requests = {name: r for name, r in self.requests.items() if not r.is_over}

    def _step(self, active: list[FakeRequest]) -> None:
        self._random.shuffle(active)
        sampled = [request.step() for request in active]
        tokens, counts = np.zeros((len(active), MAX_LEN), np.int32), np.zeros(len(active), np.int32)
        for row, request in enumerate(active):
            known = request.prompt + request.written
            tokens[row, : len(known)], counts[row] = known, len(known)
        self.input_batch = SimpleNamespace(
            req_ids=[r.name for r in active], num_prompt_tokens=[len(r.prompt) for r in active]
        )
        drafts = self.propose_draft_token_ids(sampled, tokens, counts)
        assert len(drafts) == len(active)
        for request, draft, new in zip(active, drafts, sampled, strict=True):
            assert new or not draft, "a row whose prompt is being read has no draft"
            request.draft = draft
            request.drafts.append(draft)


def proposer(prompt_format: Any, **limits: int) -> Proposer:
    given = {"n_draft": 127, "n_context": MAX_LEN, "n_step": 100_000} | limits
    return Proposer([prompt_format], Limits(**given))

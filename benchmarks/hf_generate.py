"""The library's own `generate`, plain or with prompt lookup, as a peer in the same process over the same weights.

Counts and times are taken by hooks on the model's forward, so `generate` itself runs as any user runs it.  For a replay
target the known answer is made the model's choice inside the forward (`replay_answers.answered`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from apply_service.engine.attention import ATTENTION_NAME
from apply_service.engine.replay_answers import answered


@dataclass(frozen=True, slots=True)
class Forward:
    """One call of the model: when it began, tokens in the cache before, tokens fed, positions answered for."""

    started_s: float
    n_past: int
    n_fed: int
    n_answered: int


@dataclass(slots=True)
class ForwardLog:
    """Notes every forward of one `generate` call, by hooks."""

    forwards: list[Forward] = field(default_factory=list)
    _started_s: float = 0.0
    _n_past: int = 0

    def before(self, _module: Any, _args: Any, inputs: dict[str, Any]) -> None:
        """Forward pre-hook."""
        cache = inputs.get("past_key_values")
        self._n_past = 0 if cache is None else int(cache.get_seq_length())
        self._started_s = time.perf_counter()

    def after(self, _module: Any, _args: Any, inputs: dict[str, Any], output: Any) -> None:
        """Forward hook."""
        n_fed, n_answered = inputs["input_ids"].shape[1], output.logits.shape[1]
        self.forwards.append(Forward(self._started_s, self._n_past, n_fed, n_answered))


@dataclass(frozen=True, slots=True)
class GenerateRun:
    """One call of `generate`.  `output_ids`: new tokens by sequence, cut after the stop token."""

    started_s: float
    ended_s: float
    prompt_length: int
    forwards: tuple[Forward, ...]
    output_ids: tuple[tuple[int, ...], ...]

    @property
    def first_token_s(self) -> float:
        """Seconds to the first token: prefill, and the choice that the next forward waited for."""
        second = self.forwards[1].started_s if len(self.forwards) > 1 else self.ended_s
        return second - self.started_s

    @property
    def decode_s(self) -> float:
        """Seconds after the first forward, which holds the prefill."""
        return self.ended_s - self.started_s - self.first_token_s

    @property
    def n_tokens(self) -> int:
        return sum(map(len, self.output_ids))

    @property
    def n_prefill_tokens(self) -> int:
        """New tokens that the first forward gave."""
        if len(self.forwards) == 1:
            return self.n_tokens
        return len(self.output_ids) * (self.forwards[1].n_past - self.prompt_length + 1)

    @property
    def drafts(self) -> list[tuple[int, int]]:
        """(drafted, accepted) of every forward, of a single sequence."""
        n_past = [forward.n_past for forward in self.forwards]
        ends = [*n_past[1:], self.prompt_length + len(self.output_ids[0]) - 1]
        firsts = [self.prompt_length - 1, *n_past[1:]]
        drafted = [forward.n_answered - 1 for forward in self.forwards]
        return [(n, min(n, end - first - 1)) for n, end, first in zip(drafted, ends, firsts, strict=True)]


@torch.inference_mode()
def generate(
    model: Any,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    stop_ids: Sequence[int],
    answers: Sequence[Sequence[int]] | None = None,
    prompt_lookup: int | None = None,
) -> GenerateRun:
    """Greedy decoding by the library, prompts padded on the left; the model's attention is the library's own meanwhile.

    `prompt_lookup` drafts so many tokens (a single prompt only: the library's limit).
    """
    device, width = model.device, max(map(len, prompts))
    ids = torch.tensor([[stop_ids[0]] * (width - len(p)) + list(p) for p in prompts], device=device)
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=device)
    log = ForwardLog()
    with _hooked(model, log), nullcontext() if answers is None else answered(model, width, answers):
        started_s = time.perf_counter()
        output = model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=max_new_tokens,
            do_sample=False,
            use_cache=True,
            eos_token_id=list(stop_ids),
            pad_token_id=stop_ids[0],
            prompt_lookup_num_tokens=prompt_lookup,
        )
        rows = output[:, width:].tolist()
        ended_s = time.perf_counter()
    outputs = tuple(tuple(_cut(row, stop_ids)) for row in rows)
    return GenerateRun(started_s, ended_s, width, tuple(log.forwards), outputs)


@contextmanager
def _hooked(model: Any, log: ForwardLog) -> Iterator[None]:
    hooks = [
        model.register_forward_pre_hook(log.before, with_kwargs=True),
        model.register_forward_hook(log.after, with_kwargs=True),
    ]
    model.set_attn_implementation("sdpa")
    try:
        yield
    finally:
        model.set_attn_implementation(ATTENTION_NAME)
        for hook in hooks:
            hook.remove()


def _cut(row: Sequence[int], stop_ids: Sequence[int]) -> Sequence[int]:
    end = next((i + 1 for i, token in enumerate(row) if token in stop_ids), len(row))
    return row[:end]

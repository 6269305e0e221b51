"""The library's own `generate`, plain or with prompt lookup, over the same weights in the same process.

Counts and times are taken by hooks on the model's forward, so `generate` runs as any user runs it.  Known answers are
made the model's choice inside the forward (`replay_answers.answered`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from apply_eval.known_answers import answered
from apply_service.engine.attention import ATTENTION_NAME


class Forward(NamedTuple):
    """One call of the model: when it began, tokens in the cache before, positions answered for."""

    started_s: float
    n_past: int
    n_answered: int


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
        """New tokens that the forwards after the first gave."""
        if len(self.forwards) == 1:
            return 0
        n_first = self.forwards[1].n_past - self.prompt_length + 1
        return sum(map(len, self.output_ids)) - len(self.output_ids) * n_first

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
    width = max(map(len, prompts))
    ids = torch.tensor([[stop_ids[0]] * (width - len(p)) + list(p) for p in prompts], device=model.device)
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=model.device)
    begun: list[tuple[float, int]] = []
    forwards: list[Forward] = []

    def before(_module: Any, _args: Any, inputs: dict[str, Any]) -> None:
        cache = inputs.get("past_key_values")
        begun.append((time.perf_counter(), 0 if cache is None else int(cache.get_seq_length())))

    def after(_module: Any, _args: Any, _inputs: Any, output: Any) -> None:
        forwards.append(Forward(*begun[-1], output.logits.shape[1]))

    with ExitStack() as stack:
        stack.callback(model.register_forward_pre_hook(before, with_kwargs=True).remove)
        stack.callback(model.register_forward_hook(after, with_kwargs=True).remove)
        stack.callback(model.set_attn_implementation, ATTENTION_NAME)
        model.set_attn_implementation("sdpa")
        if answers is not None:
            stack.enter_context(answered(model, width, answers))
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
    ends = [next((i + 1 for i, token in enumerate(row) if token in stop_ids), len(row)) for row in rows]
    outputs = tuple(tuple(row[:end]) for row, end in zip(rows, ends, strict=True))
    return GenerateRun(started_s, ended_s, width, tuple(forwards), outputs)

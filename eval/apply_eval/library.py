"""The library's own `generate`, plain or with prompt lookup, over the same weights in the same process.

Hooks on the model's forward count and measure, so that `generate` runs as for any user.  A known answer is made the
model's choice inside the forward, which costs almost nothing.  A logits processor would make assisted generation loop
over the drafted tokens in Python.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, cast

import torch

from apply_eval.replay import ReplayEngine, known_ids
from apply_service.build import load_target
from apply_service.engine.attention import ATTENTION_NAME
from apply_service.engine.passes import raise_known
from apply_service.engine.torch_local import TorchEngine
from apply_service.models import EMBEDDED
from apply_service.protocols import Constraint, Engine, StopFinder
from apply_service.settings import Settings


@cache
def library_model(engine: Engine) -> Any:
    """The library's model with the weights of an engine in this process.  The embedded model on NumPy has none: it is
    loaded again."""
    if not isinstance(engine, TorchEngine):
        engine = load_target(EMBEDDED, Settings(engine="torch")).engine
    return cast(TorchEngine, engine).model


def known_answer(engine: Engine, prompt_ids: Sequence[int]) -> Sequence[int] | None:
    """What a replay target is to write after a prompt; None where the target is a real model."""
    return engine.answers.find(prompt_ids) if isinstance(engine, ReplayEngine) else None


class Forward(NamedTuple):
    """One call of the model: when it began, tokens in the cache before, positions answered for."""

    started_s: float
    n_past: int
    n_answered: int


@dataclass(frozen=True, slots=True)
class GenerateRun:
    """One call of `generate`.  `output_ids`: new tokens by sequence, cut where each is complete."""

    started_s: float
    ended_s: float
    prompt_length: int
    forwards: tuple[Forward, ...]
    output_ids: tuple[tuple[int, ...], ...]
    is_complete: bool = True
    """Whether no output reached its token limit."""

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
    find_stop: StopFinder | None = None,
    constraint: Constraint | None = None,
) -> GenerateRun:
    """Greedy decoding by the library, prompts padded on the left; the model's attention is the library's own meanwhile.

    Of a single prompt only: `prompt_lookup` drafts so many tokens (the library's limit), `find_stop` finds the token
    with which the output is complete, and `constraint` forbids what it does in our engine.
    """
    width = max(map(len, prompts))
    padding = stop_ids[0] if stop_ids else 0
    ids = torch.tensor([[padding] * (width - len(p)) + list(p) for p in prompts], device=model.device)
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=model.device)
    begun: list[tuple[float, int]] = []
    forwards: list[Forward] = []

    def before(_module: Any, _args: Any, inputs: dict[str, Any]) -> None:
        begun.append((time.perf_counter(), _n_cached(inputs)))

    def after(_module: Any, _args: Any, _inputs: Any, output: Any) -> None:
        forwards.append(Forward(*begun[-1], output.logits.shape[1]))

    n_seen, stopped_at = width, None

    def is_stopped(input_ids: torch.Tensor, _scores: object, **_: object) -> torch.Tensor:
        """Hands each new token to `find_stop`, once."""
        nonlocal n_seen, stopped_at
        if find_stop is not None and stopped_at is None:
            found = find_stop(input_ids[0, n_seen:].tolist())
            stopped_at = None if found is None else n_seen - width + found
            n_seen = input_ids.shape[1]
        return torch.full((len(input_ids),), stopped_at is not None, device=input_ids.device)

    def forbid(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """With prompt lookup the library calls this once a candidate.  Tokens that are not in the cache are drafts."""
        new_ids, n_final = input_ids[0, width:].tolist(), max(0, begun[-1][1] + 1 - width)
        assert constraint is not None
        allowed = constraint.masks(new_ids[:n_final], new_ids[n_final:])[-1]
        if allowed is None:
            return scores
        index = torch.from_numpy(allowed).to(scores.device)
        return torch.full_like(scores, -torch.inf).index_copy(1, index, scores[:, index])

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
            eos_token_id=list(stop_ids) or None,
            pad_token_id=padding,
            prompt_lookup_num_tokens=prompt_lookup,
            stopping_criteria=None if find_stop is None else [is_stopped],
            logits_processor=None if constraint is None else [forbid],
        )
        rows = output[:, width:].tolist()
        ended_s = time.perf_counter()
    stops = [[i for i, token in enumerate(row) if token in stop_ids or i == stopped_at][:1] for row in rows]
    outputs = tuple(tuple(row[: stop[0] + 1] if stop else row) for row, stop in zip(rows, stops, strict=True))
    return GenerateRun(started_s, ended_s, width, tuple(forwards), outputs, all(stops))


@contextmanager
def answered(model: Any, prompt_length: int, answers: Sequence[Sequence[int]]) -> Iterator[None]:
    """Inside the block, forwards of `model` choose the known answers: one for each sequence of the batch, after prompts
    of `prompt_length` tokens (padded on the left)."""
    n_past = 0

    def before(_module: Any, _args: Any, inputs: dict[str, Any]) -> None:
        nonlocal n_past
        n_past = _n_cached(inputs)

    def after(_module: Any, _args: Any, inputs: dict[str, Any], output: Any) -> None:
        logits = output.logits
        n_rows = logits.shape[1]
        first = n_past + inputs["input_ids"].shape[1] - n_rows + 1 - prompt_length
        ids = [token for answer in answers for token in known_ids(answer, max(0, first), n_rows)]
        raise_known(logits.view(-1, logits.shape[-1]), torch.tensor(ids, device=logits.device))

    with ExitStack() as stack:
        stack.callback(model.register_forward_pre_hook(before, with_kwargs=True).remove)
        stack.callback(model.register_forward_hook(after, with_kwargs=True).remove)
        yield


def _n_cached(inputs: dict[str, Any]) -> int:
    """The tokens in the cache before a forward with these arguments."""
    cache = inputs.get("past_key_values")
    return 0 if cache is None else int(cache.get_seq_length())

"""The library's own `generate` on the same weights, prompt and output limit: the peers `hf-plain` and
`hf-prompt-lookup`.  One request at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from apply_eval.datasets import EditRecord
from apply_eval.runners.answer import MISSING_IN_PROCESS, Answer
from apply_eval.runners.elsewhere import Generated, answer_elsewhere, cut, timed
from apply_eval.runners.request import RequestOptions
from apply_service.decoding.verify import Decoding
from apply_service.engine.attention import ATTENTION_NAME
from apply_service.engine.replay import ReplayEngine
from apply_service.engine.replay_answers import answered
from apply_service.protocols import Constraint, EditJob, StopFinder
from apply_service.runtime import Runtime
from apply_service.target import Target

PROMPT_LOOKUP_TOKENS = 10
"""The library's documentation's own choice."""


class HfGenerate:
    """`n_lookup` None: plain decoding; else prompt lookup with so many tokens."""

    is_concurrent = False
    missing = MISSING_IN_PROCESS

    def __init__(self, name: str, runtime: Runtime, *, options: RequestOptions, n_lookup: int | None = None) -> None:
        self.name = name
        self._runtime = runtime
        self._options = options
        self._n_lookup = n_lookup

    def answer(self, record: EditRecord) -> Answer:
        return answer_elsewhere(
            record,
            self._runtime,
            self._generate,
            name=self.name,
            options=self._options,
            is_drafted=self._n_lookup is not None,
        )

    def close(self) -> None:
        """Nothing is held."""

    @torch.inference_mode()
    def _generate(self, target: Target, decoding: Decoding, _: EditJob) -> Generated:
        engine: Any = target.engine
        ids = torch.tensor([list(decoding.prompt_ids)], device=engine.device)
        clock = _Clock()
        cutter = _Cutter(ids.shape[1], decoding.find_stop)
        with _library_attention(engine.model), _known_answer(engine, decoding.prompt_ids):
            output = engine.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=decoding.max_new_tokens,
                eos_token_id=sorted(decoding.stop_ids) or None,
                pad_token_id=0,
                do_sample=False,
                use_cache=True,
                streamer=clock,
                stopping_criteria=[cutter],
                **self._extras(decoding, clock),
            )
        new_ids = output[0, ids.shape[1] :].tolist()
        return timed(cut(new_ids, decoding, cutter.stopped_at), clock.puts[1:])

    def _extras(self, decoding: Decoding, clock: _Clock) -> dict[str, Any]:
        extras: dict[str, Any] = {} if self._n_lookup is None else {"prompt_lookup_num_tokens": self._n_lookup}
        if decoding.constraint is not None:
            extras["logits_processor"] = [_masked(decoding.constraint, len(decoding.prompt_ids), clock)]
        return extras


@dataclass(slots=True)
class _Clock:
    """A streamer: notes how many tokens come out and when.  The first call brings the prompt."""

    started: float = field(default_factory=time.perf_counter)
    puts: list[tuple[float, int]] = field(default_factory=list)

    def put(self, value: torch.Tensor) -> None:
        self.puts.append((time.perf_counter() - self.started, value.numel()))

    def end(self) -> None:
        """The library's signal; nothing to do."""

    @property
    def n_tokens(self) -> int:
        """Tokens that stand, prompt included."""
        return sum(n for _, n in self.puts)


@contextmanager
def _library_attention(model: Any) -> Iterator[None]:
    """Their attention and cache for the while; ours afterwards, whatever happens."""
    model.set_attn_implementation("sdpa")
    try:
        yield
    finally:
        model.set_attn_implementation(ATTENTION_NAME)


def _known_answer(engine: Any, prompt_ids: Sequence[int]) -> AbstractContextManager[None]:
    """A replay target's known answer becomes its choice in the library's loop as well."""
    known = engine.answers.find(prompt_ids) if isinstance(engine, ReplayEngine) else None
    return nullcontext() if known is None else answered(engine.model, len(prompt_ids), [known])


class _Cutter:
    """A stopping criterion that hands each new token to our stop finder, once."""

    def __init__(self, n_prompt: int, find_stop: StopFinder | None) -> None:
        self._n_seen = n_prompt
        self._n_prompt = n_prompt
        self._find_stop = find_stop
        self.stopped_at: int | None = None

    def __call__(self, input_ids: torch.Tensor, _scores: object, **_: object) -> torch.Tensor:
        if self._find_stop is not None and self.stopped_at is None:
            found = self._find_stop(input_ids[0, self._n_seen :].tolist())
            if found is not None:
                self.stopped_at = self._n_seen - self._n_prompt + found
            self._n_seen = input_ids.shape[1]
        return torch.tensor([self.stopped_at is not None], device=input_ids.device)


def _masked(
    constraint: Constraint, n_prompt: int, clock: _Clock
) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """A logits processor that forbids what the constraint does.  With prompt lookup the library asks once a candidate,
    with text that may be rejected: what the streamer has seen is what stands, the rest is a draft."""

    def mask(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        ids = input_ids[0].tolist()
        allowed = constraint.masks(ids[n_prompt : clock.n_tokens], ids[clock.n_tokens :])[-1]
        if allowed is None:
            return scores
        masked = torch.full_like(scores, -torch.inf)
        index = torch.from_numpy(allowed).to(scores.device)
        masked[:, index] = scores[:, index]
        return masked

    return mask

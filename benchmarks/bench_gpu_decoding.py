"""Decoding checked in whole engines: greedy outputs of a random model, its own choices, in one way against another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from apply_service.decoding.scheduler import Scheduler
from apply_service.decoding.verify import Decoding
from apply_service.drafting.none import NoDraft
from apply_service.engine.replay import load_replay
from apply_service.engine.replay_shapes import PREFIX
from apply_service.engine.torch_local import TorchEngine
from apply_service.engine.weights.choice import WeightsSetting
from apply_service.protocols import Draft, Drafter
from benchmarks.bench_gpu_check import Check
from benchmarks.engine_runs import refuse

DIVERGENCES = 0.2
"""Of the tokens of a model whose kernels are tolerant: near ties that come out the other way in another pass.  A random
model has many: bfloat16 alone flips some 5% of the choices of float32, fp8 12%.  What is wrong flips nearly all."""
N_PROMPTS, N_NEW = 16, 128
N_TOLD = 3
"""Differences between outputs that a note names."""


class KnownDraft:
    """Drafts `ids`, with every `period`th token wrong."""

    def __init__(self, ids: Sequence[int], period: int) -> None:
        self._ids = list(ids)
        self._period = period

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        first = len(output_ids)
        ids = self._ids[first : first + max(0, limit)]
        return Draft([token ^ ((first + i) % self._period == self._period - 1) for i, token in enumerate(ids)], 0.99)

    def observe(self, n_accepted: int, next_id: int) -> None:
        """Learns nothing."""

    def close(self) -> None:
        """Holds nothing."""


def check_decoding(name: str, shape: str, device: torch.device, weights: WeightsSetting, *, seed: int) -> list[Check]:
    """Greedy outputs of a random model (its own choices): drafted against undrafted, eager against captured, unpadded
    against padded."""
    window = None if device.type == "cuda" else 31  # one bucket: its self-test takes seconds
    engine = load_replay(
        PREFIX + shape, device=device.type, weights=weights, window=window, kv_cache_bytes=2**30
    ).engine
    assert isinstance(engine, TorchEngine)
    prompts = random_prompts(engine, seed)
    undrafted = decode(engine, prompts, [NoDraft() for _ in prompts])
    drafts = [KnownDraft(ids, period) for ids, period in zip(undrafted, _periods(len(prompts)), strict=True)]
    drafted = decode(engine, prompts, drafts)
    unpadded = decode(engine.plain(), prompts, [NoDraft() for _ in prompts])
    limit = 0.0 if engine.determinism == "bitwise" else DIVERGENCES
    note = f"self-test: {engine.determinism}"
    found = [
        _compared(f"{name}: drafted against undrafted", undrafted, drafted, limit, note),
        _compared(f"{name}: unpadded against padded", undrafted, unpadded, DIVERGENCES, "the baseline, another shape"),
    ]
    if getattr(engine, "has_graphs", False):
        eager = load_replay(
            PREFIX + shape,
            device=device.type,
            weights=weights,
            kv_cache_bytes=2**30,
            cuda_graphs="off",
        ).engine
        found.append(
            _compared(
                f"{name}: captured against eager passes",
                undrafted,
                decode(eager, prompts, [NoDraft() for _ in prompts]),
                limit,
                note,
            )
        )
    return found


def random_prompts(engine: TorchEngine, seed: int) -> list[list[int]]:
    """Of odd lengths, some across the blocks and stretches of keys that kernels work in."""
    generator = torch.Generator().manual_seed(seed)
    n_vocab = engine.model.config.get_text_config().vocab_size
    longest = 1_200 if engine.device.type == "cuda" else 40
    lengths = torch.randint(2, longest, (N_PROMPTS if engine.device.type == "cuda" else 3,), generator=generator)
    return [torch.randint(0, n_vocab, (int(n),), generator=generator).tolist() for n in lengths]


def decode(engine: Any, prompts: Sequence[Sequence[int]], drafters: Sequence[Drafter]) -> list[list[int]]:
    """Greedy outputs of `N_NEW` tokens (fewer on a CPU), all prompts in shared passes."""
    n_new = N_NEW if engine.device.type == "cuda" else 10
    decodings = [
        Decoding(engine, list(prompt), drafter, n_new, frozenset())
        for prompt, drafter in zip(prompts, drafters, strict=True)
    ]
    scheduler = Scheduler(on_failure=refuse)
    while active := [decoding for decoding in decodings if decoding.finish_reason is None]:
        for outcome in scheduler.run_pass(active):
            if isinstance(outcome, BaseException):
                raise outcome
    for decoding in decodings:
        decoding.close()
    return [decoding.output_ids for decoding in decodings]


def _periods(n: int) -> list[int]:
    """From always wrong to hardly ever."""
    return [(1, 3, 11, 40)[i % 4] for i in range(n)]


def _compared(
    name: str, wanted: Sequence[Sequence[int]], found: Sequence[Sequence[int]], limit: float, note: str
) -> Check:
    """First differences over tokens compared: what follows a difference is another text."""
    n_same = [_agreed(a, b) for a, b in zip(wanted, found, strict=True)]
    n_differing = sum(n < len(ids) for n, ids in zip(n_same, wanted, strict=True))
    n_compared = sum(n_same) + n_differing
    rate = n_differing / max(1, n_compared)
    firsts = [
        f"output {i} at token {n}: {b[n : n + 1]} for {a[n]}"
        for i, (n, a, b) in enumerate(zip(n_same, wanted, found, strict=True))
        if n < len(a)
    ]
    told = "; ".join([f"{n_differing} of {len(wanted)} outputs", note, *firsts[:N_TOLD]])
    return Check(name, rate <= limit, rate, limit, n_compared, told)


def _agreed(a: Sequence[int], b: Sequence[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))

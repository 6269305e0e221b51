"""One shape on the device, its contenders, and what each of their runs took beside the roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch

from apply_service.engine.device_norms import n_fused
from apply_service.engine.graphs import GraphedPasses
from apply_service.engine.memory import free_bytes
from apply_service.engine.replay import ReplayEngine, load_replay
from apply_service.engine.replay_shapes import PREFIX, find_shape
from apply_service.engine.weights.conversion import format_of, fp8_ways
from apply_service.prompts.replay import Replay
from apply_service.protocols import Engine
from apply_service.target import Target
from benchmarks.bench_case import Case
from benchmarks.bench_gpu_roofline import Card, MeteredEngine, PassWork, Roofline
from benchmarks.bench_gpu_sample import Measured
from benchmarks.bench_sample import Sample
from benchmarks.bench_turns import Contender
from benchmarks.engine_runs import EngineContender
from benchmarks.peer_runs import LOOKUP_TOKENS, PeerContender

PLAIN, PEER_PLAIN, PEER_LOOKUP = "plain_engine", "hf_plain", "hf_prompt_lookup"
OURS = ("original", "original_snippet", "merged_edit")
CONTENDERS = (PLAIN, PEER_PLAIN, PEER_LOOKUP, *OURS)
SHORT_NAMES = {
    "1.5b": "qwen2.5-coder-1.5b",
    "7b": "qwen2.5-coder-7b",
    "32b": "qwen2.5-coder-32b",
    "70b": "llama-3-70b",
    "70b-fp8": "llama-3-70b-fp8",
}
MAX_TRIES = 3
"""Of a run until no pass is captured in it."""
SLOT_GRAIN = 512
"""A session's slots come in multiples of this."""
SPARE_BYTES = 14e9
"""Left free beside weights and slots on a card: the library's own caches and logits, graphs, workspaces."""


@dataclass(frozen=True, slots=True)
class MeteredContender:
    """A contender of ours (with its `meter`), or of the library's, whose passes are taken to be alike."""

    inner: EngineContender | PeerContender
    roofline: Roofline
    meter: MeteredEngine | None = None

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def max_batch(self) -> int | None:
        return self.inner.max_batch

    def run(self, cases: Sequence[Case], group: str, *, cap: int | None) -> Measured:
        """A run in which no pass was captured (after `MAX_TRIES`: in which some were): a server captures the passes of
        its traffic once, and one capture takes as long as the passes of an edit."""
        for _ in range(MAX_TRIES):
            measured = self._run(cases, group, cap)
            if not measured.captures:
                break
        return measured

    def _run(self, cases: Sequence[Case], group: str, cap: int | None) -> Measured:
        n_before = self._n_captured
        if self.meter is not None:
            self.meter.works.clear()
        sample = self.inner.run(cases, group, cap=cap)
        works = _alike(sample) if self.meter is None else self.meter.works
        decode_s = self.roofline.decode_s(works)
        prompts_s = self.roofline.prompt_s(len(case.prompt_ids) for case in cases)
        return Measured(sample, decode_s, decode_s + prompts_s, self._n_captured - n_before)

    @property
    def _n_captured(self) -> int:
        passes = None if self.meter is None else getattr(self.meter, "passes", None)
        return passes.n_captured if isinstance(passes, GraphedPasses) else 0


def _alike(sample: Sample) -> list[PassWork]:
    """The library's forwards, each over the middle of the output: all rows of the batch, and what was drafted."""
    n_passes = max(1, sample.passes // sample.batch)
    n_rows = sample.batch + round(sample.drafted / n_passes)
    n_keys = sample.n_prompt_tokens + sample.n_tokens // 2
    return [PassWork(n_rows, n_keys, n_rows * n_keys // sample.batch)] * n_passes


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """A shape, loaded."""

    name: str
    engine: ReplayEngine
    prompt_format: Replay
    roofline: Roofline
    memory: Mapping[str, Any]
    self_test: Mapping[str, Any]
    notes: Sequence[str]
    """Why passes run on nothing better: what the self-test tripped over first."""

    def contenders(self, wanted: Sequence[str]) -> list[Contender[Measured]]:
        """Those of `wanted`, in this order."""
        return [self._contender(name) for name in wanted]

    def _contender(self, name: str) -> MeteredContender:
        if name in (PEER_PLAIN, PEER_LOOKUP):
            target = Target(self.name, self.engine, self.prompt_format)
            peer = PeerContender(name, target, self.engine, LOOKUP_TOKENS if name == PEER_LOOKUP else None)
            return MeteredContender(peer, self.roofline)
        meter = MeteredEngine(self.engine.plain() if name == PLAIN else self.engine)
        target = Target(self.name, cast(Engine, meter), self.prompt_format)
        contender = EngineContender(name, target, "none" if name == PLAIN else name)
        return MeteredContender(contender, self.roofline, meter)

    def expect(self, cases: Sequence[Case]) -> None:
        """Tell the target what it is to write."""
        for case in cases:
            assert case.answer_ids is not None
            self.engine.answers.expect(case.prompt_ids, case.answer_ids)

    def describe(self) -> dict[str, Any]:
        """As it stands in the results."""
        engine = self.engine
        return {
            "name": self.name,
            "n_params": sum(p.numel() for p in engine.model.parameters()),
            "weights": format_of(engine.model),
            "dtype": str(next(engine.model.parameters()).dtype).removeprefix("torch."),
            "determinism": engine.determinism,
            "attention": engine.attention,
            "has_graphs": engine.has_graphs,
            "notes": list(self.notes),
            "fp8_scales": fp8_ways(engine.model),
            "fused_norms": n_fused(engine.model),
            "pass_ms": {str(n): round(1e3 * s, 3) for n, s in sorted(engine.pass_times.items())},
            "ideal_pass_ms": {
                str(n): round(1e3 * self.roofline.pass_s(PassWork(n, 512, 512 * n)), 3) for n in engine.pass_times
            },
            "weight_bytes_read": self.roofline.weight_bytes,
            "memory": dict(self.memory),
            "self_test": dict(self.self_test),
        }


def shape_name(name: str) -> str:
    """`7b` -> the shape's own name, which it may be as well."""
    return SHORT_NAMES.get(name, name)


def load_gpu_target(
    name: str, prompt_format: Replay, card: Card, *, device: str, n_together: int, options: Mapping[str, Any]
) -> GpuTarget:
    """A shape with room for `n_together` tokens of sessions that are open at a time, and for their prompts in the
    prefix cache as far as there is memory; `options` go to the engine.

    Raises:
        UnknownModel: no such shape.  ModelTooLarge: it does not fit.
    """
    full = PREFIX + shape_name(name)
    slots, kept = _room(full, device, n_together)
    loaded = load_replay(full, device=device, kv_cache_bytes=slots + kept, prefix_cache_bytes=kept, **options)
    engine, found = loaded.engine, loaded.self_test
    assert isinstance(engine, ReplayEngine)
    assert found is not None
    return GpuTarget(
        name=full,
        engine=engine,
        prompt_format=prompt_format,
        roofline=Roofline.of(engine.model, card),
        memory={} if loaded.memory is None else loaded.memory.as_dict(),
        self_test={
            "differing_rows": {str(n): share for n, share in found.differing_rows.items()},
            "flipped_choices": {str(n): share for n, share in found.flipped_choices.items()},
        },
        notes=found.notes,
    )


def _room(name: str, device: str, n_together: int) -> tuple[int, int]:
    """Bytes for sessions, and beside them for prompts that are kept: at most as many again."""
    shape = find_shape(name)
    where = torch.device("cuda" if device == "auto" and torch.cuda.is_available() else device.replace("auto", "cpu"))
    itemsize = 2 if where.type == "cuda" else 4
    slot = 2 * shape.n_layers * shape.n_kv_heads * shape.d_head * itemsize
    needed = max(n_together, shape.context) * slot
    weights = shape.n_params * (1 if shape.weights == "fp8" else itemsize) * 1.04
    left = free_bytes(where) - weights - needed - SPARE_BYTES
    return needed, int(min(needed, max(0, left))) // SLOT_GRAIN * SLOT_GRAIN


def tokens_together(cases: Sequence[Case], batch: int) -> int:
    """Slots of `batch` sessions of the longest of `cases`."""
    return batch * max(-(-case.n_needed // SLOT_GRAIN) * SLOT_GRAIN for case in cases)

"""One piece of `benchmarks.gpu` measured: a shape, its contenders in turns on the prepared edits."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from apply_eval.arguments import REPLAY
from apply_eval.replay import Replay, ReplayEngine, find_shape, load_replay
from apply_service.engine.eight_bit import EightBitLinear
from apply_service.engine.loading import LoadedModel
from apply_service.engine.memory import free_bytes
from apply_service.engine.weights import fp8_ways, n_fused
from apply_service.errors import ContextLimitExceeded
from apply_service.protocols import SamplingParams, Window
from apply_service.target import Target
from benchmarks.decoding.contenders import (
    LOOKUP_TOKENS,
    Case,
    EngineContender,
    PeerContender,
    describe,
    expect,
    groups_of,
    open_contender,
    take_turns,
    undrafted_cap,
    wait_for_device,
)
from benchmarks.decoding.samples import Sample
from benchmarks.gpu.edits import BATCH_MAX_TOKENS, MAX_TOKENS, case_of, read_prepared
from benchmarks.gpu.pieces import Piece, Results, failure_of

LAST_SAMPLE_S = 20.0
"""A piece takes no new sample with less than this left."""
MAX_TRIES = 3
"""Of a run until no pass is captured in it."""
SLOT_GRAIN = 512
"""A sequence's slots come in multiples of this."""
SPARE_BYTES = 14e9
"""Left free beside weights and slots on a card: the library's own caches and logits, graphs, workspaces."""


def measure_piece(
    piece: Piece,
    options: argparse.Namespace,
    files: Results,
    found: dict[str, Any],
    stop_s: float,
    *,
    log: Callable[[str], None],
) -> bool:
    """Add samples to `found` until there are all, or time is up (`stop_s`, on the monotonic clock); whether there are
    all.

    Raises:
        ApplyError: the shape can't be made, or no edit fits.
    """
    prompt_format = Replay()
    is_alone = piece.batches == (1,)
    most = MAX_TOKENS if is_alone else BATCH_MAX_TOKENS
    cases = [case_of(edit, prompt_format) for edit in read_prepared(options.out)["edits"]]
    cases = [case for case in cases if case.n_needed <= most][: options.limit if is_alone else None]
    if not cases:
        raise ContextLimitExceeded("no edit fits", value=0, limit=most, remedy="prepare shorter edits")
    longest = max(-(-case.n_needed // SLOT_GRAIN) * SLOT_GRAIN for case in cases)
    loaded = load_shape(piece.shape, options, n_together=max(piece.batches) * longest)
    engine = loaded.engine
    assert isinstance(engine, ReplayEngine)
    expect(engine, cases)
    found["target"] = describe(engine.name, engine, cases) | describe_shape(loaded, engine)
    target = Target(engine.name, engine, prompt_format)
    files.write(piece.name, found)
    contenders = [open_contender(one, target, engine) for one in options.contenders.split(",")]
    for batch in piece.batches:
        robust = [RobustContender(c, batch, found) for c in contenders]
        done = {(row["contender"], row["group"]) for row in found["samples"] if row["batch"] == batch}
        if is_alone:  # the library's runs take most of the time
            done |= {(peer, case.id) for peer in LOOKUP_TOKENS for case in cases[options.peer_limit :]}
        groups = groups_of(cases, batch, options.groups)
        for sample in take_turns(robust, groups, cap=cap_of(options, batch), done=done):
            if sample is not None:
                found["samples"].append(sample.as_json())
                log(f"{piece.name} batch {sample.batch} {sample.contender}: {sample.tok_s:,.0f} tok/s")
            files.write(piece.name, found)
            if time.monotonic() > stop_s - LAST_SAMPLE_S:
                return False
    return True


def cap_of(options: argparse.Namespace, batch: int) -> Callable[[str], int | None]:
    """Where each contender stops an output: undrafted ones early alone; in batches the library's alone."""
    if batch == 1:
        return undrafted_cap(options.plain_tokens)
    return lambda name: options.peer_tokens if name in LOOKUP_TOKENS else None


def load_shape(name: str, options: argparse.Namespace, *, n_together: int) -> LoadedModel:
    """A shape with room for `n_together` tokens of sequences that are open at a time, and for their prompts in the
    prefix cache as far as there is memory: at most as many again.

    Raises:
        UnknownModel: no such shape.  ModelTooLarge: it does not fit.
    """
    full = REPLAY + name
    shape = find_shape(full)
    itemsize = 2 if options.where.type == "cuda" else 4
    slot = 2 * shape.n_layers * shape.n_kv_heads * shape.d_head * itemsize
    needed = max(n_together, shape.context) * slot
    weights = shape.n_params * (1 if shape.weights == "fp8" else itemsize) * 1.04
    left = free_bytes(options.where) - weights - needed - SPARE_BYTES
    kept = int(min(needed, max(0, left))) // SLOT_GRAIN * SLOT_GRAIN
    given = {"attention": options.attention, "cuda_graphs": options.cuda_graphs}
    chosen: dict[str, Any] = {key: value for key, value in given.items() if value != "auto"}
    return load_replay(full, device=options.where.type, kv_cache_bytes=needed + kept, prefix_cache_bytes=kept, **chosen)


def bytes_read(model: Any) -> int:
    """Bytes of weights that every pass reads: all but an embedding that is no head as well, of which a pass reads a row
    a token."""
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    whole = sum(parameter.nbytes for parameter in model.parameters())
    return int(whole if embedding is head else whole - embedding.nbytes)


def format_of(model: Any) -> str:
    """The number format of the layers' weights: fp8, int8, or the model's own type."""
    for module in model.modules():
        if isinstance(module, EightBitLinear):
            return module.number_format
    return str(next(model.parameters()).dtype).removeprefix("torch.")


def describe_shape(loaded: LoadedModel, engine: ReplayEngine) -> dict[str, Any]:
    """What its passes run on."""
    tested = loaded.self_test
    assert tested is not None
    return {
        "pass_ms": time_passes(engine),
        "weights": format_of(engine.model),
        "attention": engine.attention,
        "has_graphs": engine.has_graphs,
        "notes": list(tested.notes),
        "fp8_scales": fp8_ways(engine.model),
        "fused_norms": n_fused(engine.model),
        "memory": {} if loaded.memory is None else loaded.memory.as_dict(),
        "differing_rows": {str(n): share for n, share in tested.differing_rows.items()},
        "flipped_choices": {str(n): share for n, share in tested.flipped_choices.items()},
        "weight_bytes_read": bytes_read(engine.model),
    }


def time_passes(engine: ReplayEngine) -> dict[str, float]:
    """Milliseconds of the fastest of a few passes of each row count, with a single token."""
    session = engine.open([0], 1)
    assert session is not None, "an idle engine has room"
    least = {}
    with session:
        for n_rows in engine.buckets:
            seconds = []
            for _ in range(3):
                wait_for_device()
                started = time.perf_counter()
                engine.logits([Window(session, 0, [], SamplingParams())], n_rows, n_head_rows=n_rows)
                wait_for_device()
                seconds.append(time.perf_counter() - started)
            least[str(n_rows)] = round(1e3 * min(seconds), 3)
    return least


@dataclass(frozen=True, slots=True)
class RobustContender:
    """A contender at one batch size whose failures are noted in `found` and not tried again, so that the others go on;
    and a run in which no pass was captured (after `MAX_TRIES`: in which some were): a server captures the passes of its
    traffic once, and one capture takes as long as the passes of an edit."""

    inner: EngineContender | PeerContender
    batch: int
    found: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.inner.name

    def run(self, cases: Sequence[Case], group: str, *, cap: int | None) -> Sample | None:
        if any((one["contender"], one["batch"]) == (self.name, self.batch) for one in self.found["skipped"]):
            return None
        try:
            for _ in range(MAX_TRIES):
                n_before = self._n_captured()
                sample = self.inner.run(cases, group, cap=cap)
                captures = self._n_captured() - n_before
                if not captures:
                    break
            return replace(sample, captures=captures)
        except torch.cuda.OutOfMemoryError:
            reason = "out of the card's memory"
        except Exception as error:  # a peer's, or ours; what breaks the device itself raises again here
            wait_for_device()
            self.found["failures"].append(failure_of(error, f"{self.name}, batch {self.batch}, {group}"))
            reason = f"failed: {type(error).__name__}: {str(error)[:200]}"
        self.found["skipped"].append({"contender": self.name, "batch": self.batch, "reason": reason})
        torch.cuda.empty_cache()
        return None

    def _n_captured(self) -> int:
        return int(getattr(getattr(self.inner.target.engine, "passes", None), "n_captured", 0))

"""Which row counts give bit-equal rows on this device with this model, and how long their passes take: measured at
start, not assumed.

A verified window may put a position at any row of any bucket, beside any neighbour; the lossless law holds bit for bit
if its logits are the same there as alone in a pass of the largest bucket, one token at a time (the oracle's way).
Random tokens are decoded both ways; a bucket whose rows differ is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch

from apply_service.engine.device_test import check_device_parts
from apply_service.engine.session import TorchSession
from apply_service.engine.torch_local import KEY_GRAIN, QUERY_GRAIN, TorchEngine
from apply_service.protocols import Part, Prefill, SamplingParams, Window

N_PROBES = 8
PROMPT_LENGTH = KEY_GRAIN - 6
"""So that some passes attend to one block of keys and some to two: other lengths, same bits."""
NEIGHBOUR_LENGTH = 37
SMALL_BUCKET = 64
"""On a GPU passes of up to so many rows take the time of one row."""
SIZES = ((1, 2), (3, 6), (N_PROBES, N_PROBES))
"""Tokens a pass, and how many of the probes are decoded that way."""


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What was found.  `differing_rows` is the share of probed rows whose logits differed in any bit, by bucket;
    `flipped_choices` the share whose argmax did: the divergence rate.  `pass_times`: seconds of the fastest pass of
    each of `buckets`.  `attention` and `has_graphs`: what the passes ran on, `notes` why on nothing better."""

    buckets: tuple[int, ...]
    query_grain: int
    differing_rows: Mapping[int, float]
    flipped_choices: Mapping[int, float]
    pass_times: Mapping[int, float]
    attention: Literal["sdpa", "triton"] = "sdpa"
    has_graphs: bool = False
    notes: tuple[str, ...] = ()

    @property
    def determinism(self) -> Literal["bitwise", "tolerant"]:
        return "tolerant" if any(self.differing_rows[bucket] for bucket in self.buckets) else "bitwise"

    @property
    def divergence(self) -> float:
        """The share of choices that another row count or neighbour changed, over the buckets in use."""
        return max(self.flipped_choices[bucket] for bucket in self.buckets)


def run_self_test(engine: TorchEngine, *, seed: int = 0) -> SelfTest:
    """Compare every bucket of `engine` with one-at-a-time decoding in the largest, with ever coarser query rows until
    the largest agrees with itself.  Leaves `engine.query_grain` at what was found.

    Raises:
        EngineFailure: what the passes run on gives wrong results.
    """
    check_device_parts(engine, seed)
    grains = (QUERY_GRAIN, 4 * QUERY_GRAIN, engine.buckets[-1]) if engine.attention == "sdpa" else (QUERY_GRAIN,)
    for grain in dict.fromkeys(grains):
        engine.query_grain = grain
        found = _compare(engine, seed)
        if found.determinism == "bitwise":
            break
    return found


@torch.inference_mode()
def _compare(engine: TorchEngine, seed: int) -> SelfTest:
    probe = _Probe(engine, seed)
    largest = engine.buckets[-1]
    with probe:
        oracle = torch.cat([rows for rows, _ in probe.decode(largest, size=1, n_probes=N_PROBES, beside=False)])
        differing, flipped, times = {}, {}, {}
        for bucket in engine.buckets:
            rows, wanted, times[bucket] = probe.measure(bucket, oracle)
            differing[bucket] = float((rows != wanted).any(dim=-1).float().mean())
            flipped[bucket] = float((rows.argmax(-1) != wanted.argmax(-1)).float().mean())
    buckets = usable(differing, small=None if engine.device.type == "cpu" else SMALL_BUCKET)
    times = consistent({bucket: times[bucket] for bucket in buckets})
    notes = tuple(note for note in (engine.attention_note, engine.graphs_note) if note)
    return SelfTest(buckets, engine.query_grain, differing, flipped, times, engine.attention, engine.has_graphs, notes)


def usable(differing: Mapping[int, float], *, small: int | None) -> tuple[int, ...]:
    """The row counts whose rows agree with the largest's, if that agrees with itself, else that alone.

    With `small`, all of them where none up to that size is among these: on a GPU a pass of the largest takes several
    times as long as one of few rows, and choices that may differ in the last bit cost less than that.
    """
    largest = max(differing)
    equal = tuple(sorted(bucket for bucket, share in differing.items() if share == 0.0))
    buckets = equal if largest in equal else (largest,)
    return buckets if small is None or buckets[0] <= max(small, min(differing)) else tuple(sorted(differing))


@torch.inference_mode()
def time_passes(engine: TorchEngine, *, seed: int = 0) -> dict[int, float]:
    """Seconds of a pass of each bucket: what a start measures that has the rest from an earlier one."""
    probe = _Probe(engine, seed)
    size, n_probes = SIZES[-1]
    times = {}
    with probe:
        for bucket in engine.buckets:
            passes = probe.decode(bucket, size=min(size, bucket), n_probes=n_probes, beside=False)
            times[bucket] = min(seconds for _, seconds in passes)
    return times


def consistent(times: Mapping[int, float]) -> dict[int, float]:
    """Measured times of passes without what only a busy machine can make of them: more rows never take less time, and
    never more than as many smaller passes would."""
    out: dict[int, float] = {}
    n_before, before = 0, 0.0
    for n_rows, seconds in sorted(times.items()):
        if n_before:
            seconds = min(max(seconds, before), before * n_rows / n_before)
        out[n_rows] = seconds
        n_before, before = n_rows, seconds
    return out


def stopwatch(device: torch.device) -> Callable[[], float]:
    """Gives seconds since now; on a CPU those in which this process ran at all, where that is less: what others take of
    a busy machine comes and goes."""
    wall, processor = time.perf_counter(), time.process_time()
    if device.type != "cpu":
        return lambda: time.perf_counter() - wall
    return lambda: min(time.perf_counter() - wall, time.process_time() - processor)


class _Probe:
    """A session at `PROMPT_LENGTH` whose next tokens are known, and a neighbour for it."""

    def __init__(self, engine: TorchEngine, seed: int) -> None:
        self.engine = engine
        generator = torch.Generator().manual_seed(seed)
        n_vocab = engine.model.config.get_text_config().vocab_size
        n_prompt = min(PROMPT_LENGTH, engine.context_limit - N_PROBES - 2)
        ids = torch.randint(0, n_vocab, (n_prompt + N_PROBES + NEIGHBOUR_LENGTH,), generator=generator).tolist()
        self.ids = ids[n_prompt : n_prompt + N_PROBES]
        self.session = self._open([*ids[:n_prompt], 0])
        self.neighbour = self._open(ids[n_prompt + N_PROBES :])

    def _open(self, prompt_ids: list[int]) -> TorchSession:
        session = self.engine.open(prompt_ids, N_PROBES + 1)
        assert isinstance(session, TorchSession)
        while session.n_pending:
            self.engine.step([Prefill(session, min(session.n_pending, self.engine.buckets[-1]))])
        return session

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self.session.close()
        self.neighbour.close()

    def measure(self, bucket: int, oracle: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, float]:
        """Logits of passes of `bucket` rows, the oracle's of the same tokens, and the seconds of the fastest pass."""
        found, wanted, seconds = [], [], []
        for size, n_probes in SIZES:
            for beside in (False, True):
                if size + beside > bucket:
                    continue
                for rows, taken in self.decode(bucket, size=size, n_probes=n_probes, beside=beside):
                    found.append(rows)
                    seconds.append(taken)
                wanted.append(oracle[:n_probes])
        return torch.cat(found), torch.cat(wanted), min(seconds)

    def decode(self, n_rows: int, *, size: int, n_probes: int, beside: bool) -> Iterator[tuple[torch.Tensor, float]]:
        """Logits [size, vocab] after each of the first `n_probes` tokens, `size` a pass of `n_rows` rows, behind a
        window of the neighbour's if `beside`; and each pass's seconds.  The session is left as it was."""
        for start in range(0, n_probes, size):
            chunk = self.ids[start : min(start + size, n_probes)]
            parts: list[Part] = [Window(self.session, chunk[0], chunk[1:], SamplingParams())]
            if beside:
                n_beside = min(n_rows - len(chunk), 5)
                parts.insert(0, Window(self.neighbour, 1, [2] * (n_beside - 1), SamplingParams()))
            elapsed = stopwatch(self.engine.device)
            logits, layout = self.engine.logits(parts, n_rows, n_head_rows=n_rows)
            first = layout.windows[-1].first
            rows = logits[first : first + len(chunk)].float().cpu().clone()
            yield rows, elapsed()
            self.session.length += len(chunk)
        self.session.rewind(n_probes)

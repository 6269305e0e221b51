"""One piece of `benchmarks.bench_gpu` measured: a shape, its contenders in turns on the prepared edits."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from apply_service.engine.replay_shapes import replay_directory
from apply_service.errors import ContextLimitExceeded
from apply_service.prompts.replay import Replay
from benchmarks.bench_case import Case
from benchmarks.bench_gpu_cases import Prepared, cases_of
from benchmarks.bench_gpu_pieces import Piece, PieceFiles, failure_of
from benchmarks.bench_gpu_roofline import card_of
from benchmarks.bench_gpu_sample import Measured
from benchmarks.bench_gpu_target import PEER_LOOKUP, PEER_PLAIN, PLAIN, GpuTarget, load_gpu_target, tokens_together
from benchmarks.bench_turns import take, take_turns
from benchmarks.engine_runs import wait_for_device

PEERS = (PEER_PLAIN, PEER_LOOKUP)
LAST_SAMPLE_S = 20.0
"""A piece takes no new sample with less than this left."""


def measure_piece(
    piece: Piece,
    options: argparse.Namespace,
    files: PieceFiles,
    found: dict[str, Any],
    stop_s: float,
    *,
    name: str,
    log: Callable[[str], None],
) -> bool:
    """Add samples to `found` until there are all, or time is up (`stop_s`, on the monotonic clock); whether there are
    all.  `name`: the device's.

    Raises:
        ApplyError: the shape can't be made, or no edit fits.
    """
    prompt_format = Replay.from_directory(replay_directory())
    cases = draw(cases_of(Prepared.read(options.cases).edits, prompt_format), piece, options)
    card = card_of(options.where, name)
    room = max(tokens_together(cases, batch) for batch in piece.batches)
    engine_options = engine_options_of(options)
    target = load_gpu_target(
        piece.shape, prompt_format, card, device=options.where.type, n_together=room, options=engine_options
    )
    target.expect(cases)
    found["target"] = target.describe() | describe_cases(cases) | {"card": card.as_json()}
    files.write(piece.name, found)
    for measured in samples_of(piece, target, cases, options, found):
        if measured is not None:
            found["samples"].append(measured.as_json())
            sample = measured.sample
            log(f"{piece.name} batch {sample.batch} {sample.contender}: {sample.tok_s:,.0f} tok/s")
        files.write(piece.name, found)
        if time.monotonic() > stop_s - LAST_SAMPLE_S:
            return False
    return True


def engine_options_of(options: argparse.Namespace) -> dict[str, Any]:
    given = {"attention": options.attention, "cuda_graphs": options.cuda_graphs}
    return {name: value for name, value in given.items() if value != "auto"}


def draw(cases: Sequence[Case], piece: Piece, options: argparse.Namespace) -> list[Case]:
    """The edits of a piece, in the order of the file: so many alone, or all short ones.

    Raises:
        ContextLimitExceeded: there is none.
    """
    is_alone = piece.batches == (1,)
    most = options.max_tokens if is_alone else options.batch_max_tokens
    fitting = [case for case in cases if case.n_needed <= most]
    if not fitting:
        raise ContextLimitExceeded("no edit fits", value=len(cases), limit=most, remedy="prepare shorter edits")
    return fitting[: options.limit] if is_alone else fitting


def describe_cases(cases: Sequence[Case]) -> dict[str, Any]:
    n_tokens = sum(case.n_output for case in cases)
    return {
        "n_cases": len(cases),
        "prompt_tokens": sorted(len(case.prompt_ids) for case in cases)[len(cases) // 2],
        "output_tokens": sorted(case.n_output for case in cases)[len(cases) // 2],
        "chars_a_token": round(sum(len(case.after) for case in cases) / n_tokens, 3),
    }


def samples_of(
    piece: Piece, target: GpuTarget, cases: Sequence[Case], options: argparse.Namespace, found: dict[str, Any]
) -> Iterator[Measured | None]:
    """The runs that `found` lacks; None for one that failed or had not enough memory, which is noted there."""
    contenders = target.contenders(options.contenders.split(","))
    for batch in piece.batches:
        able = [_Sparing(c, batch, found) for c in contenders if batch <= (c.max_batch or batch)]
        if batch == 1:
            groups = {case.id: [case] for case in cases}
            left_out = {(name, case.id) for name in PEERS for case in cases[options.peer_limit :]}
        else:
            left_out = set()
            groups = {f"group {i}": take(cases, batch, start=i * batch) for i in range(options.groups)}
        done = left_out | {(row["contender"], row["group"]) for row in found["samples"] if row["batch"] == batch}
        yield from take_turns(able, groups, cap=cap_of(options, batch), is_done=partial(_is_in, done))


def _is_in(done: set[tuple[str, str]], contender: str, group: str) -> bool:
    return (contender, group) in done


def cap_of(options: argparse.Namespace, batch: int) -> Callable[[str], int | None]:
    """Where each contender stops an output: undrafted ones early alone; in batches the library's alone."""
    caps = {PLAIN: options.plain_tokens, PEER_PLAIN: options.plain_tokens} if batch == 1 else {}
    if batch > 1:
        caps = {PEER_PLAIN: options.peer_tokens, PEER_LOOKUP: options.peer_tokens}
    return lambda name: caps.get(name) or None


class _Sparing:
    """A contender whose failures are noted and not tried again, so that the others go on."""

    def __init__(self, inner: Any, batch: int, found: dict[str, Any]) -> None:
        self._inner = inner
        self._batch = batch
        self._found = found

    @property
    def name(self) -> str:
        return str(self._inner.name)

    @property
    def max_batch(self) -> int | None:
        return None

    def run(self, cases: Sequence[Case], group: str, *, cap: int | None) -> Measured | None:
        if any((one["contender"], one["batch"]) == (self.name, self._batch) for one in self._found["skipped"]):
            return None
        try:
            return self._inner.run(cases, group, cap=cap)  # type: ignore[no-any-return]
        except torch.cuda.OutOfMemoryError:
            self._skip("out of the card's memory")
        except Exception as error:  # a peer's, or ours; what breaks the device itself raises again here
            wait_for_device()
            self._found["failures"].append(failure_of(error, f"{self.name}, batch {self._batch}, {group}"))
            self._skip(f"failed: {type(error).__name__}: {str(error)[:200]}")
        torch.cuda.empty_cache()
        return None

    def _skip(self, reason: str) -> None:
        self._found["skipped"].append({"contender": self.name, "batch": self._batch, "reason": reason})

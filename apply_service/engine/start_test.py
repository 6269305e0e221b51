"""The self-test at start: made, or found again as an earlier start left it and timed anew."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from apply_service.engine.device_options import find_options, found_options
from apply_service.engine.self_test import SelfTest, consistent, time_passes
from apply_service.engine.self_test_store import SelfTestStore
from apply_service.engine.torch_local import TorchEngine

BETTER = 0.9
"""A pass that takes less than this share of the time on record is worth writing down."""


def find_self_test(
    model: Any, name: str, buckets: tuple[int, ...], store: SelfTestStore | None, engine_options: Mapping[str, Any]
) -> SelfTest:
    """What the self-test finds of a model here, from `store` where it is known there.

    Raises:
        Exception: whatever the model trips over, run with windows over slots.
    """
    wanted = repr(sorted(engine_options.items()))
    known = None if store is None else store.get(model, buckets, wanted)
    found = find_options(model, name, buckets, engine_options) if known is None else known
    if known is not None and next(model.parameters()).device.type == "cpu":
        found = _timed_again(model, name, known, engine_options)
    if store is not None and (known is None or _is_better(found, known)):
        store.put(model, buckets, found, wanted)
    _give_back_memory()
    return found


def _timed_again(model: Any, name: str, known: SelfTest, engine_options: Mapping[str, Any]) -> SelfTest:
    """With the least times of then and now: a machine that was busy once is not so for ever."""
    options = found_options(engine_options, known)
    engine = TorchEngine(
        model, name=name, buckets=known.buckets, query_grain=known.query_grain, kv_cache_bytes=0, **options
    )
    times = {bucket: min(seconds, known.pass_times[bucket]) for bucket, seconds in time_passes(engine).items()}
    return replace(known, pass_times=consistent(times))


def _is_better(found: SelfTest, known: SelfTest) -> bool:
    return any(seconds < BETTER * known.pass_times[bucket] for bucket, seconds in found.pass_times.items())


def _give_back_memory() -> None:
    """What the engine of the self-test held: it is part of a ring of references, its slots are a whole context's."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        gc.collect()
        torch.cuda.empty_cache()

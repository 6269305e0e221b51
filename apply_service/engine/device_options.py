"""What the passes of a model run on here: the attention kernel and captured graphs where the start-up self-test passes
with them, else what PyTorch has.

What was asked for by name is not replaced: then a failed test is an error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from apply_service.engine.device_norms import n_fused
from apply_service.engine.self_test import SelfTest, run_self_test
from apply_service.engine.torch_local import CUDA_BUCKETS, DEFAULT_BUCKETS, LARGE_BUCKET, TorchEngine
from apply_service.engine.weights.conversion import fp8_ways

SMALL_MODEL = 3e9
"""Weights up to which a pass of `LARGE_BUCKET` rows pays: the time around a pass is a good part of the time in it."""

log = logging.getLogger(__name__)


def buckets_on(model: Any, buckets: Sequence[int]) -> tuple[int, ...]:
    """Row counts of passes on the model's device, where its record asks for none of its own."""
    if tuple(buckets) != DEFAULT_BUCKETS or next(model.parameters()).device.type == "cpu":
        return tuple(buckets)
    n_weights = sum(weight.numel() for weight in model.parameters())
    return (*CUDA_BUCKETS, LARGE_BUCKET) if n_weights <= SMALL_MODEL else CUDA_BUCKETS


def find_options(model: Any, name: str, buckets: Sequence[int], options: Mapping[str, Any]) -> SelfTest:
    """The self-test with the first of the ways of running that passes it; its `notes` say why better ones did not.

    Raises:
        Exception: whatever the last way, or what was asked for by name, trips over.
    """
    notes: tuple[str, ...] = ()
    ways = list(_ways(options))
    for i, way in enumerate(ways):
        try:
            found = run_self_test(TorchEngine(model, name=name, buckets=buckets, kv_cache_bytes=0, **way))
        except Exception as error:  # a broken driver or compiler raises anything
            if i + 1 == len(ways):
                raise
            notes += (f"{_named(way)}: {type(error).__name__}: {str(error)[:500]}",)
            log.info("%s does not run with %s", name, _named(way), exc_info=True)
            continue
        return replace(found, notes=(*notes, *found.notes))
    raise AssertionError("there is always a way")


def found_options(options: Mapping[str, Any], found: SelfTest) -> dict[str, Any]:
    """The options of an engine that runs as the self-test did."""
    return {**options, "attention": found.attention, "cuda_graphs": "on" if found.has_graphs else "off"}


def _ways(options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """From what was asked for to what is plainest; on the CPU there is one."""
    yield dict(options)
    if not torch.cuda.is_available():
        return
    is_free = {key: options.get(key, "auto") == "auto" for key in ("attention", "cuda_graphs")}
    if is_free["cuda_graphs"]:
        yield {**options, "cuda_graphs": "off"}
        if is_free["attention"]:
            yield {**options, "cuda_graphs": "off", "attention": "sdpa"}


def _named(way: Mapping[str, Any]) -> str:
    return f"attention {way.get('attention', 'auto')}, graphs {way.get('cuda_graphs', 'auto')}"


def log_passes(name: str, model: Any, found: SelfTest) -> None:
    """What its passes run on, for whoever reads the log of a start: measured just now or known from an earlier one."""
    why = f" ({'; '.join(found.notes)})" if found.notes else ""
    after = [size for size, way in fp8_ways(model).items() if way == "after"]
    log.info(
        "%s: attention %s, CUDA graphs %s%s; %d norms in one kernel each%s; %s, divergence rate %.4f",
        name,
        found.attention,
        "on" if found.has_graphs else "off",
        why,
        n_fused(model),
        f"; fp8 products of {', '.join(after)} scaled afterwards" if after else "",
        found.determinism,
        found.divergence,
    )

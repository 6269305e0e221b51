"""The self-test at start: taken from a record of an earlier start, or run with the best options that pass it.

A record is valid only for the same weights, libraries, device and thread count.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
import transformers

from apply_service.engine.kv_cache import KVShape
from apply_service.engine.self_test import PROBE_SLOTS, SelfTest, run_self_test
from apply_service.engine.torch_local import DEFAULT_BUCKETS, TorchEngine
from apply_service.engine.weights import PIECE, fp8_ways, multiply_in_pieces, n_fused, pack_matrices

VERSION = 8
"""Of the self-test.  Records of other versions are ignored."""
CUDA_BUCKETS = (32, 64, 128, 192, 256)
"""Used in place of the default ones, because fewer rows take no less time on CUDA."""
LARGE_BUCKET = 512
"""On CUDA, also for models of up to `SMALL_MODEL` weights, where the overhead of a pass counts most."""
SMALL_MODEL = 3e9

log = logging.getLogger(__name__)


def read_self_test(path: Path) -> SelfTest | None:
    """The record in a file; None if there is none that can be read."""
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for name in ("differing_rows", "flipped_choices", "pass_times"):
            values[name] = {int(bucket): float(value) for bucket, value in values[name].items()}
        return SelfTest(**values | {name: tuple(values[name]) for name in ("buckets", "notes")})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def keep_self_test(path: Path, found: SelfTest) -> None:
    """Keep a record, whole or not at all.  A folder that can't be written to keeps none."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            json.dump(asdict(found), file)
        os.replace(file.name, path)


def fingerprint(model: Any, buckets: Sequence[int], wanted: str = "") -> str:
    """A digest of everything that the self-test may depend on: kernels, threads, shapes, number format, the `wanted`
    options of the engine, and a sample of every weight."""
    device = next(model.parameters()).device
    cpu = triton = ""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        cpu = "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))
    with contextlib.suppress(PackageNotFoundError):
        triton = version("triton")
    parts = [
        *(VERSION, torch.__version__, torch.__config__.show(), torch.get_num_threads(), transformers.__version__),
        *(triton, platform.machine(), cpu or platform.processor()),
        torch.cuda.get_device_name(device) if device.type == "cuda" else torch.backends.cpu.get_cpu_capability(),
        *(model.config.to_json_string(), tuple(buckets), wanted),
    ]
    digest = blake2b(repr(parts).encode(), digest_size=16)
    for name, weight in model.named_parameters():
        sample = weight.detach().flatten()[:: max(1, weight.numel() // 64)].double().cpu()
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode() + sample.numpy().tobytes())
    return digest.hexdigest()


def find_self_test(
    model: Any, name: str, buckets: Sequence[int], records: Path | None, options: Mapping[str, Any]
) -> SelfTest:
    """Pack the matrices of `model`, and return its self-test with these options of the engine: the one in the folder
    `records`, or a new one.  Matrices are multiplied in pieces only if more row counts agree that way.  Logs what
    passes run on.  Raises Exception: whatever goes wrong in a model that does not suit the engine."""
    key = fingerprint(model, buckets, repr(sorted(options.items())))  # packed weights can't be sampled
    pack_matrices(model)
    record = None if records is None else records / f"{key}.json"
    known = None if record is None else read_self_test(record)
    found = find_options(model, name, buckets, options) if known is None else known
    if known is None and len(found.buckets) < len(buckets) and multiply_in_pieces(model, PIECE):
        in_pieces = replace(find_options(model, name, buckets, options), piece=PIECE)
        found = max(found, in_pieces, key=lambda one: len(one.buckets))
    multiply_in_pieces(model, found.piece)
    if record is not None and known is None:
        keep_self_test(record, found)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        # The engine of the self-test is part of a ring of references; its slots are a whole context's.
        gc.collect()
        torch.cuda.empty_cache()
    after = ", ".join(size for size, way in fp8_ways(model).items() if way == "after")
    log.info(
        "%s: attention %s, CUDA graphs %s%s; %d norms in one kernel each%s; %s, divergence rate %.4f",
        *(name, found.attention, "on" if found.has_graphs else "off"),
        f" ({'; '.join(found.notes)})" if found.notes else "",
        *(n_fused(model), f"; fp8 products of {after} scaled afterwards" if after else ""),
        *(found.determinism, found.divergence),
    )
    return found


def find_options(model: Any, name: str, buckets: Sequence[int], options: Mapping[str, Any]) -> SelfTest:
    """Try ways to run passes, from the one that was asked for to the plainest, and return the self-test of the first
    that works; its `notes` say why the others did not.  What was asked for by name is not replaced.  Raises Exception:
    the error of the last way."""
    ways = [dict(options)]
    if torch.cuda.is_available() and options.get("cuda_graphs", "auto") == "auto":
        ways.append({**options, "cuda_graphs": "off"})
        if options.get("attention", "auto") == "auto":
            ways.append({**options, "cuda_graphs": "off", "attention": "sdpa"})
    parameter, notes = next(model.parameters()), list[str]()
    shape = KVShape.of(model.config.get_text_config(), parameter.dtype, parameter.device)
    engine_of = partial(
        TorchEngine, model, name=name, buckets=buckets, kv_cache_bytes=PROBE_SLOTS * shape.bytes_per_slot
    )
    for way in ways:
        try:
            found = run_self_test(engine_of(**way))
        except Exception as error:  # a broken driver or compiler raises anything
            if way is ways[-1]:
                raise
            tried = f"attention {way.get('attention', 'auto')}, graphs {way.get('cuda_graphs', 'auto')}"
            notes.append(f"{tried}: {type(error).__name__}: {str(error)[:500]}")
            log.info("%s does not run with %s", name, tried, exc_info=True)
            continue
        return replace(found, notes=(*notes, *found.notes))
    raise AssertionError("there is always a way")


def buckets_on(model: Any) -> tuple[int, ...]:
    """Row counts of passes on the model's device."""
    if next(model.parameters()).device.type == "cpu":
        return DEFAULT_BUCKETS
    n_weights = sum(weight.numel() for weight in model.parameters())
    return (*CUDA_BUCKETS, LARGE_BUCKET) if n_weights <= SMALL_MODEL else CUDA_BUCKETS

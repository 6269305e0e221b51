"""What earlier self-tests found, by model and machine: a start that changes nothing need not measure again.

A record is found again only by the same weights, libraries, device and thread count; one that can't be read is
measured anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import tempfile
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
import transformers

from apply_service.engine.self_test import SelfTest

VERSION = 3
"""Of the self-test itself: another one finds nothing that this one left."""


class SelfTestStore:
    """Records in a folder, which is made when the first is kept."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, model: Any, buckets: tuple[int, ...], wanted: str = "") -> SelfTest | None:
        """What a self-test of this model here found, `wanted` of the engine's options; None where there was none."""
        try:
            values = json.loads(self._path(model, buckets, wanted).read_text(encoding="utf-8"))
            return SelfTest(
                buckets=tuple(values["buckets"]),
                query_grain=int(values["query_grain"]),
                differing_rows={int(k): float(v) for k, v in values["differing_rows"].items()},
                flipped_choices={int(k): float(v) for k, v in values["flipped_choices"].items()},
                pass_times={int(k): float(v) for k, v in values["pass_times"].items()},
                attention=values["attention"],
                has_graphs=bool(values["has_graphs"]),
                notes=tuple(map(str, values["notes"])),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def put(self, model: Any, buckets: tuple[int, ...], found: SelfTest, wanted: str = "") -> None:
        """Keep a record, whole or not at all.  A folder that can't be written to keeps none."""
        path = self._path(model, buckets, wanted)
        values = {name: getattr(found, name) for name in SelfTest.__slots__}
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
                json.dump(values, file)
            os.replace(file.name, path)

    def _path(self, model: Any, buckets: tuple[int, ...], wanted: str) -> Path:
        return self._directory / f"{fingerprint(model, buckets, wanted)}.json"


def fingerprint(model: Any, buckets: tuple[int, ...], wanted: str = "") -> str:
    """A digest of everything that the self-test's outcome may depend on: kernels, threads, shapes, number format, the
    `wanted` options of the engine, and a sample of every weight."""
    device = next(model.parameters()).device
    parts = [
        VERSION,
        torch.__version__,
        torch.__config__.show(),
        torch.get_num_threads(),
        transformers.__version__,
        platform.machine(),
        _cpu_name(),
        torch.cuda.get_device_name(device) if device.type == "cuda" else torch.backends.cpu.get_cpu_capability(),
        model.config.to_json_string(),
        buckets,
        wanted,
        _version_of("triton"),
    ]
    digest = blake2b(repr(parts).encode(), digest_size=16)
    for name, weight in model.named_parameters():
        sample = weight.detach().flatten()[:: max(1, weight.numel() // 64)].double().cpu()
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode() + sample.numpy().tobytes())
    return digest.hexdigest()


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _cpu_name() -> str:
    """As the system names it; kernels are chosen by it."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next((line for line in lines if line.startswith("model name")), "")
    return platform.processor()

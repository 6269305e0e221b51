"""`apply-service doctor`: versions, device, whether the model loads, and what the engine's self-test finds."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, NamedTuple

from apply_service.commands.exit_codes import OK, UNAVAILABLE
from apply_service.commands.output import write_line
from apply_service.drafting.chain import check_drafter
from apply_service.errors import ApplyError
from apply_service.remote.endpoint import PREFIX as REMOTE_PREFIX
from apply_service.remote.endpoint import Endpoint
from apply_service.settings import Settings

if TYPE_CHECKING:
    from apply_service.engine.self_test import SelfTest

PACKAGES = (
    "apply-service",
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "numpy",
    "tree-sitter",
    "rapidfuzz",
    "fastapi",
    "pydantic",
    "uvicorn",
)


class Finding(NamedTuple):
    topic: str
    is_ok: bool
    text: str


def run(arguments: Namespace, settings: Settings) -> int:
    """Run the command; the exit code says whether everything works."""
    findings = []
    for finding in examine(settings):
        findings.append(finding)
        if not arguments.json:
            write_line(f"{'ok  ' if finding.is_ok else 'FAIL'} {finding.topic}: {finding.text}")
    if arguments.json:
        write_line(json.dumps([finding._asdict() for finding in findings]))
    return OK if all(finding.is_ok for finding in findings) else UNAVAILABLE


def examine(settings: Settings) -> Iterator[Finding]:
    """All findings, cheap ones first."""
    yield Finding("python", sys.version_info >= (3, 11), f"{platform.python_version()} on {platform.platform()}")
    yield from (_package(name) for name in PACKAGES)
    yield Finding("cpu", True, f"{os.cpu_count()} cores, {platform.machine()}")
    yield _state(settings)
    yield _drafter(settings)
    yield _device()
    yield _model(settings)


def _package(name: str) -> Finding:
    try:
        return Finding(name, True, version(name))
    except PackageNotFoundError:
        return Finding(name, False, "not installed")


def _state(settings: Settings) -> Finding:
    place = settings.state_path
    nearest = next(path for path in (place, *place.parents) if path.exists())
    return Finding("backups", os.access(nearest, os.W_OK), str(place))


def _drafter(settings: Settings) -> Finding:
    try:
        check_drafter(settings.drafter, has_draft_model=settings.draft_model is not None)
    except ApplyError as error:
        return Finding("drafter", False, f"{settings.drafter}: {error.message}")
    return Finding("drafter", True, settings.drafter)


def _device() -> Finding:
    try:
        import torch
    except ImportError as error:
        return Finding("device", False, f"torch cannot be imported: {error}")
    if torch.cuda.is_available():
        return Finding("device", True, f"cuda: {torch.cuda.get_device_name()}")
    return Finding("device", True, f"cpu, {torch.get_num_threads()} threads")


def _model(settings: Settings) -> Finding:
    start = time.perf_counter()
    source = settings.model_sources[settings.model]
    try:
        if source.startswith(REMOTE_PREFIX):
            return _remote(source.removeprefix(REMOTE_PREFIX), settings)
        from apply_service.build import self_test

        found = self_test(settings.model, settings)
    except ApplyError as error:
        return Finding("model", False, f"{settings.model}: {error.message} [{error.code}] {error.remedy}")
    except Exception as error:  # a diagnosis must not die of what it diagnoses
        return Finding("model", False, f"{settings.model}: {type(error).__name__}: {error}")
    seconds = time.perf_counter() - start
    if found is None:
        return Finding("model", True, f"{settings.model} loads in {seconds:.1f} s; it is decoded without drafts")
    buckets = ", ".join(str(bucket) for bucket in found.buckets)
    return Finding(
        "model",
        True,
        f"{settings.model} loads and passes its self-test in {seconds:.1f} s; "
        f"determinism: {found.determinism}{_divergence(found)}; windows of {buckets} rows; {_passes(found)}",
    )


def _divergence(found: SelfTest) -> str:
    return "" if found.determinism == "bitwise" else f" (divergence rate {found.divergence:.4f})"


def _passes(found: SelfTest) -> str:
    """What passes run on, and why on nothing better."""
    why = f" ({'; '.join(found.notes)})" if found.notes else ""
    return f"attention {found.attention}, CUDA graphs {'on' if found.has_graphs else 'off'}{why}"


def _remote(model: str, settings: Settings) -> Finding:
    """Raises ApplyError."""
    from apply_service.remote.listing import served_models

    endpoint = Endpoint.of(settings)
    served = served_models(endpoint)
    text = f"{settings.model} at {endpoint.url}"
    return Finding("model", model in served, text if model in served else f"{text}: it serves {', '.join(served)}")

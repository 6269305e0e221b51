"""`apply-service models` and `doctor`: which models a request may name here, and whether this installation works."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from apply_service.commands.output import OK, UNAVAILABLE, write_json, write_line
from apply_service.engine.replay_shapes import PREFIX as REPLAY_PREFIX
from apply_service.engine.replay_shapes import find_shape, replay_directory
from apply_service.errors import ApplyError
from apply_service.models import EMBEDDED, embedded_directory
from apply_service.remote.endpoint import PREFIX as REMOTE_PREFIX
from apply_service.remote.endpoint import Endpoint
from apply_service.settings import Settings

PACKAGES = (
    *("apply-service", "torch", "transformers", "tokenizers", "safetensors", "numpy", "tree-sitter", "rapidfuzz"),
    *("fastapi", "pydantic", "uvicorn"),
)


# -- models ------------------------------------------------------------------------------------------------------------
class ModelListing(NamedTuple):
    """What can be said of a model from its files."""

    name: str
    directory: str | None
    """None where the files are not in a folder of their own: in the hub's cache, to be downloaded, or elsewhere."""
    is_present: bool
    is_default: bool
    n_bytes: int = 0
    context_limit: int | None = None
    architecture: str | None = None


def models(arguments: Namespace, settings: Settings) -> int:
    """Run `models`; the exit code.  Reads configurations and no weights.  Raises ApplyError."""
    listings = []
    for name, source in settings.model_sources.items():
        one = ModelListing(name, None, is_present=True, is_default=name == settings.model)
        directory = embedded_directory() if source == EMBEDDED else Path(source).expanduser()
        if source.startswith(REPLAY_PREFIX):
            shape = find_shape(source)
            kind = f"{shape.family}, {shape.n_params / 1e6:,.0f}M random weights that measure speed alone"
            one = one._replace(directory=str(replay_directory()), context_limit=shape.context, architecture=kind)
        elif source.startswith(REMOTE_PREFIX):
            one = one._replace(architecture=f"asked at {settings.vllm_url or settings.remote_url}")
        elif (directory / "config.json").is_file():
            config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
            one = one._replace(
                directory=str(directory),
                n_bytes=sum(path.stat().st_size for path in directory.glob("*.safetensors")),
                context_limit=config.get("max_position_embeddings"),
                architecture=next(iter(config.get("architectures") or []), None),
            )
        else:
            one = one._replace(is_present=False)
        listings.append(one)
    if arguments.json:
        write_json([one._asdict() for one in listings])
        return OK
    for one in listings:
        if not one.is_present:
            text = "not in this installation" if one.name == EMBEDDED else "from the Hugging Face cache or hub"
        elif one.directory is None:
            text = str(one.architecture)
        else:
            size = f"{one.n_bytes / 2**20:.1f} MiB, context {one.context_limit}"
            text = f"{one.architecture}, {size}, {one.directory}"
        write_line(f"{'*' if one.is_default else ' '} {one.name}: {text}")
    return OK


# -- doctor ------------------------------------------------------------------------------------------------------------
class Finding(NamedTuple):
    topic: str
    is_ok: bool
    text: str


def run(arguments: Namespace, settings: Settings) -> int:
    """Run `doctor`; the exit code says whether everything works."""
    findings = []
    for finding in examine(settings):
        findings.append(finding)
        if not arguments.json:
            write_line(f"{'ok  ' if finding.is_ok else 'FAIL'} {finding.topic}: {finding.text}")
    if arguments.json:
        write_json([finding._asdict() for finding in findings])
    return OK if all(finding.is_ok for finding in findings) else UNAVAILABLE


def examine(settings: Settings) -> Iterator[Finding]:
    """All findings, cheap ones first."""
    from apply_service.drafting.chain import check_drafter

    yield Finding("python", sys.version_info >= (3, 11), f"{platform.python_version()} on {platform.platform()}")
    for name in PACKAGES:
        try:
            yield Finding(name, True, version(name))
        except PackageNotFoundError:
            yield Finding(name, False, "not installed")
    yield Finding("cpu", True, f"{os.cpu_count()} cores, {platform.machine()}")
    place = settings.state_path
    nearest = next(path for path in (place, *place.parents) if path.exists())
    yield Finding("backups", os.access(nearest, os.W_OK), str(place))
    try:
        check_drafter(settings.drafter, has_draft_model=settings.draft_model is not None)
        yield Finding("drafter", True, settings.drafter)
    except ApplyError as error:
        yield Finding("drafter", False, f"{settings.drafter}: {error.message}")
    try:
        import torch

        is_cuda = torch.cuda.is_available()
        device = f"cuda: {torch.cuda.get_device_name()}" if is_cuda else f"cpu, {torch.get_num_threads()} threads"
        yield Finding("device", True, device)
    except ImportError as error:
        yield Finding("device", False, f"torch cannot be imported: {error}")
    try:
        yield _examine_model(settings)
    except ApplyError as error:
        yield Finding("model", False, f"{settings.model}: {error.message} [{error.code}] {error.remedy}")
    except Exception as error:  # a diagnosis must not die of what it diagnoses
        yield Finding("model", False, f"{settings.model}: {type(error).__name__}: {error}")


def _examine_model(settings: Settings) -> Finding:
    """Load the model, or ask its server for it.  Raises whatever keeps it from working."""
    source = settings.model_sources[settings.model]
    if source.startswith(REMOTE_PREFIX):
        from apply_service.remote.client import served_models

        endpoint = Endpoint.of(settings)
        served = served_models(endpoint)
        is_served = source.removeprefix(REMOTE_PREFIX) in served
        what = "" if is_served else f": it serves {', '.join(served)}"
        return Finding("model", is_served, f"{settings.model} at {endpoint.url}{what}")

    from apply_service.build import self_test

    start = time.perf_counter()
    found = self_test(settings.model, settings)
    seconds = time.perf_counter() - start
    if found is None:
        return Finding("model", True, f"{settings.model} loads in {seconds:.1f} s; it is decoded without drafts")
    divergence = "" if found.determinism == "bitwise" else f" (divergence rate {found.divergence:.4f})"
    buckets = ", ".join(str(bucket) for bucket in found.buckets)
    notes = f" ({'; '.join(found.notes)})" if found.notes else ""
    return Finding(
        "model",
        True,
        f"{settings.model} loads and passes its self-test in {seconds:.1f} s; determinism: {found.determinism}"
        f"{divergence}; windows of {buckets} rows; attention {found.attention}, CUDA graphs "
        f"{'on' if found.has_graphs else 'off'}{notes}",
    )

"""Runs `apply-service doctor`: tells whether this installation works."""

from __future__ import annotations

import os
import platform
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from apply_service.commands.output import OK, UNAVAILABLE, write_json, write_line
from apply_service.errors import ApplyError
from apply_service.settings import REMOTE_PREFIX, Settings

PACKAGES = ("apply-service", "numpy", "tree-sitter", "rapidfuzz", "fastapi", "pydantic", "uvicorn")
MODEL_PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "llama-cpp-python")


class Finding(NamedTuple):
    topic: str
    is_ok: bool
    text: str


def run(arguments: Namespace, settings: Settings) -> int:
    """Run `doctor` and return the exit code, which says whether everything works."""
    findings = []
    for finding in examine(settings):
        findings.append(finding)
        if not arguments.json:
            write_line(f"{'ok  ' if finding.is_ok else 'FAIL'} {finding.topic}: {finding.text}")
    if arguments.json:
        write_json([finding._asdict() for finding in findings])
    return OK if all(finding.is_ok for finding in findings) else UNAVAILABLE


def examine(settings: Settings) -> Iterator[Finding]:
    """Yield all findings, starting with those that are fast to get."""
    from apply_service.drafting.drafter import check_drafter
    from apply_service.registry import head_of

    yield Finding("python", sys.version_info >= (3, 11), f"{platform.python_version()} on {platform.platform()}")
    for name in (*PACKAGES, *MODEL_PACKAGES):
        try:
            yield Finding(name, True, version(name))
        except PackageNotFoundError:
            is_optional = name in MODEL_PACKAGES
            yield Finding(name, is_optional, "not installed" + "; the embedded model needs none" * is_optional)
    yield Finding("cpu", True, f"{os.cpu_count()} cores, {platform.machine()}")
    place = settings.state_path
    nearest = next(path for path in (place, *place.parents) if path.exists())
    yield Finding("backups", os.access(nearest, os.W_OK), str(place))
    try:
        has_draft_model, head = settings.draft_model is not None, head_of(settings.drafter)
        check_drafter(settings.drafter, has_draft_model=has_draft_model, head=head)
        yield Finding("drafter", True, settings.drafter)
    except ApplyError as error:
        yield Finding("drafter", False, f"{settings.drafter}: {error.message}")
    try:
        import torch

        is_cuda = torch.cuda.is_available()
        device = f"cuda: {torch.cuda.get_device_name()}" if is_cuda else f"cpu, {torch.get_num_threads()} threads"
        yield Finding("device", True, device)
    except ImportError as error:
        yield Finding(
            "device", isinstance(error, ModuleNotFoundError), f"only the CPU, because torch cannot be imported: {error}"
        )
    try:
        is_ok, text = _examine_model(settings)
    except ApplyError as error:
        is_ok, text = False, f": {error.message} [{error.code}] {error.remedy}"
    except Exception as error:  # whatever is broken is a finding, and must not end the diagnosis
        is_ok, text = False, f": {type(error).__name__}: {error}"
    yield Finding("model", is_ok, settings.model + text)


def _examine_model(settings: Settings) -> tuple[bool, str]:
    """Load the model, or ask the server that has it.  Return whether the model works, and the words to print after its
    name.  Raises any error that keeps the model from working."""
    source = settings.model_sources[settings.model]
    if source.startswith(REMOTE_PREFIX):
        from apply_service.remote.client import Endpoint, served_models

        endpoint = Endpoint.of(settings)
        served = served_models(endpoint)
        is_served = source.removeprefix(REMOTE_PREFIX) in served
        return is_served, f" at {endpoint.url}" + ("" if is_served else f": it serves {', '.join(served)}")

    from apply_service.build import load_anew, load_llama, load_target, runs_on_llama_cpp, runs_on_numpy

    start = time.perf_counter()
    if runs_on_llama_cpp(source, settings):
        return True, f" runs in llama.cpp and {load_llama(settings.model, settings).describe()}"
    if runs_on_numpy(source, settings):
        engine = load_target(settings.model, settings).engine
        seconds = time.perf_counter() - start
        windows = f"windows of up to {engine.max_draft + 1} rows"
        return True, f" runs on NumPy and loads in {seconds:.1f} s; determinism: {engine.determinism}; {windows}"
    loaded = load_anew(settings.model, settings)
    found = loaded.self_test
    seconds = time.perf_counter() - start
    divergence = "" if found.determinism == "bitwise" else f" (divergence rate {found.divergence:.4f})"
    times = ", ".join(f"{n_rows} {1e3 * seconds:.3g}" for n_rows, seconds in sorted(found.pass_times.items()))
    best = max(n_rows / seconds for n_rows, seconds in found.pass_times.items())
    return True, (
        f" loads in {loaded.number_format} and passes its self-test in {seconds:.1f} s; determinism: "
        f"{found.determinism}{divergence}; milliseconds of a pass by its rows: {times}; at most "
        f"{1 / found.plain_s:,.3g} tokens a second without drafts, {best:,.4g} with all drafts right; attention "
        f"{found.attention}, CUDA graphs "
        + ("on" if found.has_graphs else "off")
        + (f" ({'; '.join(found.notes)})" if found.notes else "")
    )

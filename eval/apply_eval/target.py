"""The target of a run in this process.  It is loaded once and shared by all contestants.

The prefix cache is off, so that every contestant reads every prompt.  A replay target gets the right answer of every
record beforehand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

from apply_eval.arguments import REPLAY
from apply_eval.datasets import EditRecord
from apply_eval.provenance import hash_file
from apply_eval.runners import RequestOptions, request_of
from apply_service.build import build_runtime, load_target
from apply_service.errors import ApplyError
from apply_service.models import EMBEDDED, embedded_directory
from apply_service.pipeline import read_edit
from apply_service.settings import Settings
from apply_service.syntax.languages import detect_language
from apply_service.target import Runtime, Target
from apply_service.text.fidelity import normalise

IDENTITY_SUFFIXES = (".safetensors", ".json", ".xz", ".toml")


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """The model and how it runs; see the service's settings of the same names."""

    name: str = "embedded"
    device: str = "auto"
    dtype: str = "auto"
    window: int | None = None
    kv_cache_mb: int = 1024
    windows: str = "context"


@dataclass(frozen=True, slots=True)
class OpenTarget:
    """A loaded target.  `plain` is the same model without drafts, with one unpadded row a pass."""

    runtime: Runtime
    plain: Runtime
    identity: dict[str, Any]


def open_target(options: TargetOptions, records: Sequence[EditRecord], request: RequestOptions) -> OpenTarget:
    """Load it.  Raises ApplyError: no such model, not loadable, no such device."""
    name = options.name
    same = {own.name: getattr(options, own.name) for own in fields(options) if own.name != "name"}
    settings = Settings(model=name, prefix_cache_mb=0, **same)
    target = open_any(name, settings)
    runtime = replace(build_runtime(settings), load=lambda _: target)
    engine: Any = target.engine
    if name.startswith(REPLAY):
        prompt_format = cast(Any, target.prompt_format)
        for record in records:
            asked = request_of(record, request)
            with suppress(ApplyError):  # the run will meet the same refusal
                job = read_edit(asked, detect_language(name=asked.language, path=asked.path))
                right = prompt_format.encode_output(normalise(record.after))
                engine.answers.expect(prompt_format.encode_prompt(job), right)
    plain = type(target)(name, engine.plain(), target.prompt_format)
    return OpenTarget(
        runtime,
        Runtime(load=lambda _: plain, models=runtime.models, default_drafter="none", windows=options.windows),
        identify(name, target),
    )


def open_any(name: str, settings: Settings) -> Target:
    """Open a target of this process by its name, "replay:SHAPE" included.  Raises as `load_target` and
    `open_replay`."""
    if not name.startswith(REPLAY):
        return load_target(name, settings)
    from apply_eval.replay import open_replay  # needs torch

    return open_replay(name, settings)


def identify(name: str, target: Target) -> dict[str, Any]:
    """Name, kind and device of a target, and a hash over the files of its model (None if they can't be found)."""
    engine: Any = target.engine
    device = getattr(engine, "device", None)
    device_name = str(device or "")
    if device is not None and device.type == "cuda":
        import torch

        device_name = f"{device}: {torch.cuda.get_device_name(device)}"
    found: dict[str, Any] = {
        "name": name,
        "determinism": engine.determinism,
        "context_limit": engine.context_limit,
        "device": device_name,
        "prompt_format": target.prompt_format.name,
    }
    if name.startswith(REPLAY):
        from apply_eval.replay import find_shape

        return found | {"kind": "replay", "shape": asdict(find_shape(name)), "sha256": None}
    folder = embedded_directory() if name == EMBEDDED else Path(name).expanduser()
    if not folder.is_dir():
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(name, "config.json")
        if not isinstance(cached, str):
            return found | {"kind": "weights", "sha256": None}
        folder = Path(cached).parent
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix in IDENTITY_SUFFIXES:
            digest.update(f"{path.name} {hash_file(path)}\n".encode())
    return found | {"kind": "weights", "sha256": digest.hexdigest()}

"""From a name to a model in memory: the embedded model, a folder, or a Hugging Face id.

Weights come from safetensors only; Python code that ships with a model runs only where the settings allow it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from apply_service.calibration import Calibration
from apply_service.engine.attention import register
from apply_service.engine.memory import MemoryPlan, first_fitting, plan_memory
from apply_service.engine.self_test import SelfTest
from apply_service.engine.self_test_store import SelfTestStore, buckets_on, find_self_test, found_options
from apply_service.engine.stepwise import UNDRAFTED, StepwiseEngine, is_recurrent
from apply_service.engine.torch_local import DEFAULT_BUCKETS, KV_CACHE_BYTES, TorchEngine
from apply_service.engine.weights import (
    LEAST_SHARE,
    WeightsSetting,
    bring,
    candidates,
    dtype_of,
    fuse_norms,
    known_share,
    refuse_unknown_layers,
)
from apply_service.errors import MissingDependency, ModelNotLoadable, RemoteCodeRefused, UnknownModel
from apply_service.model_folder import EMBEDDED, RECORD_FILE
from apply_service.model_folder import embedded_directory as embedded_directory
from apply_service.protocols import Prefill, SamplingParams, Window

WINDOWS = ("context", "always")
HUB_ID = re.compile(r"[\w][\w.-]*(/[\w][\w.-]*)?")
HUB_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """What a model's own folder says of how to run it (`apply_service.json`, and `calibration.json` of its
    confidence); a missing file means the defaults."""

    prompt_format: str | None = None
    buckets: tuple[int, ...] = DEFAULT_BUCKETS
    calibration: Calibration | None = None
    windows: str = "context"
    """When it decides the touched regions of a file alone, unless the settings say: past its `context`, or `always`
    where that saves half of a long file."""

    @classmethod
    def read(cls, directory: Path) -> ModelRecord:
        """
        Raises:
            ModelNotLoadable: a file is there and can't be used.
        """
        path, calibration = directory / RECORD_FILE, Calibration.read(directory)
        if not path.is_file():
            return cls(calibration=calibration)
        mend = "correct or remove it"
        try:
            values = dict(json.loads(path.read_text(encoding="utf-8")))
            buckets = tuple(sorted(map(int, values.get("buckets", DEFAULT_BUCKETS))))
        except (ValueError, TypeError) as error:
            raise ModelNotLoadable(f"{RECORD_FILE} can't be read: {error}", value=str(path), remedy=mend) from error
        if unknown := values.keys() - {"prompt_format", "buckets", "windows"}:
            raise ModelNotLoadable(f"unknown key in {RECORD_FILE}", value=sorted(unknown), remedy="remove it")
        if not buckets or buckets[0] < 1:
            message, limit = f"bad buckets in {RECORD_FILE}", "positive numbers"
            raise ModelNotLoadable(message, value=buckets, limit=limit, remedy=mend)
        if (windows := values.get("windows", "context")) not in WINDOWS:
            raise ModelNotLoadable(f"bad windows in {RECORD_FILE}", value=windows, limit=list(WINDOWS), remedy=mend)
        return cls(values.get("prompt_format"), buckets, calibration, windows)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """An engine, where its files are (None: in the hub's cache, by `source`), its record, its self-test and the plan of
    the device's memory.  A model that can't verify drafts has no self-test, and `undrafted` says why."""

    engine: TorchEngine | StepwiseEngine
    source: str
    directory: Path | None
    record: ModelRecord
    self_test: SelfTest | None
    undrafted: str = ""
    memory: MemoryPlan | None = None


def load_model(
    name: str,
    *,
    device: str = "auto",
    dtype: str = "auto",
    weights: WeightsSetting = "auto",
    window: int | None = None,
    allow_remote_code: bool = False,
    kv_cache_bytes: int = KV_CACHE_BYTES,
    prefix_cache_bytes: int = 0,
    self_tests: SelfTestStore | None = None,
    **engine_options: Any,
) -> LoadedModel:
    """Load weights, plug our attention in, and find by self-test which buckets are bit-equal (or look up what an
    earlier one in `self_tests` found).  `engine_options` go to `TorchEngine`.

    Raises:
        UnknownModel: no such folder or id.  ModelTooLarge: it does not fit into the device's free memory.
        ModelNotLoadable: the files are unusable (no safetensors, an architecture without the attention interface).
        RemoteCodeRefused: the model needs its own Python code.
    """
    directory = embedded_directory() if name == EMBEDDED else Path(name).expanduser()
    local = directory if directory.is_dir() else None
    if name == EMBEDDED and local is None:
        raise ModelNotLoadable("this installation ships no embedded model", value=name, remedy="reinstall the package")
    if local is None:
        _refuse_unknown_id(name)
    record = ModelRecord() if local is None else ModelRecord.read(local)
    if window is not None:
        record = replace(record, buckets=(window + 1,))
    source, where = str(local or name), pick_device(device)
    formats = candidates(weights, where)
    model = _from_pretrained(source, dtype_of(weights, dtype, where), allow_remote_code).eval()
    if is_recurrent(model):
        refuse_unknown_layers(model, formats[0])
        return LoadedModel(_stepwise(model.to(where), name), source, local, record, None, UNDRAFTED)
    room = {"kv_cache_bytes": kv_cache_bytes, "prefix_cache_bytes": prefix_cache_bytes}
    plans = [
        plan_memory(model, kind, where, n_rows=record.buckets[-1], kv_cache_bytes=kv_cache_bytes, **engine_options)
        for kind in formats
        if weights != "auto" or known_share(model, kind) >= LEAST_SHARE
    ]
    plan = first_fitting(plans, name)
    model = bring(model, plan.weights_format, where)
    return make_ready(model, name, record, local, room, engine_options, self_tests=self_tests, memory=plan)


def make_ready(
    model: Any,
    name: str,
    record: ModelRecord,
    directory: Path | None,
    room: Mapping[str, int],
    engine_options: Mapping[str, Any],
    *,
    self_tests: SelfTestStore | None,
    memory: MemoryPlan,
    engine_type: type[TorchEngine] = TorchEngine,
) -> LoadedModel:
    """An engine of `engine_type` around `model`, in the buckets that its self-test finds bit-equal; `engine_options` go
    to it and to the one that is tested, `room` (bytes) to it alone.

    Raises:
        ModelNotLoadable: the model does not run with our attention.
    """
    fuse_norms(model)
    try:
        found = find_self_test(model, name, buckets_on(model, record.buckets), self_tests, engine_options)
    except MissingDependency:
        raise
    except Exception as error:  # whatever an unknown architecture trips over
        raise _does_not_run(name, "windows over slots", error) from error
    tested = {"buckets": found.buckets, "determinism": found.determinism, "query_grain": found.query_grain}
    options: dict[str, Any] = {**tested, **room, **found_options(engine_options, found)}
    engine = engine_type(model, name=name, pass_times=found.pass_times, **options)
    return LoadedModel(engine, str(directory or name), directory, record, found, memory=memory)


def _stepwise(model: Any, name: str) -> StepwiseEngine:
    """A recurrent model, run through the library's own attention and cache; tried on a few tokens."""
    engine = StepwiseEngine(model, name=name)
    try:
        try:
            model.set_attn_implementation("sdpa")
        except ValueError:  # the architecture has no faster one
            model.set_attn_implementation("eager")
        session = engine.open([1, 2, 3], 2)
        assert session is not None
        with session:
            engine.step([Prefill(session, 2)])
            engine.step([Window(session, 3, (), SamplingParams())])
    except Exception as error:  # whatever an unknown architecture trips over
        raise _does_not_run(name, "one token at a time", error) from error
    return engine


def _does_not_run(name: str, way: str, error: Exception) -> ModelNotLoadable:
    return ModelNotLoadable(
        f"the model does not run with {way} ({type(error).__name__}: {str(error)[:200]})",
        value=name,
        remedy="use a decoder-only model whose attention goes through the library's attention interface",
    )


def pick_device(device: str) -> torch.device:
    """`auto`: CUDA where there is one, else the CPU."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        raise MissingDependency("no CUDA device was found", value=device, remedy="use --device cpu")
    return torch.device(device)


def _refuse_unknown_id(name: str) -> None:
    """One look at the cache and one at the hub, before heavy imports and the hub client's many patient retries."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # standard error is the caller's
    if not HUB_ID.fullmatch(name):
        raise _unknown(name, "it is neither a folder nor an id of the form owner/name")
    if isinstance(try_to_load_from_cache(name, "config.json"), str):
        return
    try:
        get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=HUB_TIMEOUT_S)
    except Exception as error:  # no network, no such model, no permission: all the same to the caller
        raise _unknown(name, _first_line(error)) from error


def _from_pretrained(source: str, dtype: torch.dtype, allow_remote_code: bool) -> Any:
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging as bars

    bars.disable_progress_bar()  # standard error is the caller's
    try:
        return AutoModelForCausalLM.from_pretrained(
            source,
            dtype=dtype,
            attn_implementation=register(),
            trust_remote_code=allow_remote_code,
            use_safetensors=True,
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        # transformers reports every trouble as one of these: tell them apart by what they say.
        if "trust_remote_code" in str(error):
            message, remedy = (
                "the model brings Python code of its own",
                "set allow_remote_code if you trust its authors",
            )
            raise RemoteCodeRefused(message, value=source, remedy=remedy) from error
        if isinstance(error, OSError) and not Path(source).is_dir():
            raise _unknown(source, _first_line(error)) from error
        message = f"the model can't be loaded: {_first_line(error)}"
        raise ModelNotLoadable(message, value=source, remedy="see the message") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0][:300]


def _unknown(name: str, reason: str) -> UnknownModel:
    return UnknownModel(
        f"no model of that name could be found or downloaded: {reason}",
        value=name,
        limit="embedded, a folder, or a Hugging Face id",
        remedy="check the spelling, or download the model first",
    )

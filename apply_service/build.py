"""Builds the targets, the runtime and the service from the settings.

Torch is imported only when a model that needs it is first used.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from apply_service.drafting.drafter import check_drafter
from apply_service.drafting.recent import RecentOutputs
from apply_service.engine.record import KINDS, UNTRAINED, Kind, ModelRecord
from apply_service.errors import (
    ModelNotLoadable,
    RequestError,
    SettingsError,
    UnknownModel,
    UnsupportedParameter,
    missing_extra,
)
from apply_service.models import EMBEDDED, embedded_directory, hub
from apply_service.protocols import DraftEngine, DraftHead, Engine
from apply_service.registry import head_of
from apply_service.settings import LLAMA_CPP, RECORD, REMOTE_PREFIX, Settings
from apply_service.target import Decider, Runtime, Target, no_target

if TYPE_CHECKING:
    from apply_service.deadline import Deadline
    from apply_service.engine.llama_cpp.engine import LlamaEngine
    from apply_service.engine.loading import LoadedModel
    from apply_service.engine.weights import Weights
    from apply_service.service import Service
    from apply_service.types import ApplyRequest

ACTIVE_ON_CPU = 4
ACTIVE_ELSEWHERE = 64


# -- the service -------------------------------------------------------------------------------------------------------
def open_service(runtime: Runtime, settings: Settings) -> Service:
    """Return a service that runs the pipeline.

    Worker processes start when they are first needed, except one for small edits, which starts now.
    """
    from apply_service.pipeline import Running, read_or_apply, run
    from apply_service.service import Service, count_chars
    from apply_service.serving.workers import WorkerPool
    from apply_service.strategies import ReadEdit

    small = WorkerPool(settings.small_edit_workers) if settings.small_edit_workers else None
    large = WorkerPool(settings.large_edit_workers) if settings.large_edit_workers else None
    if small is not None:
        small.submit(os.getpid)

    def answer(request: ApplyRequest, deadline: Deadline, edit: ReadEdit | None = None) -> Running:
        is_large = edit is not None and count_chars(request) >= settings.large_edit_chars
        return run(request, runtime, deadline, edit, finishes_in_worker=is_large)

    return Service(
        answer,
        partial(read_or_apply, runtime=replace(runtime, load=no_target)),
        small=small,
        large=large,
        large_chars=settings.large_edit_chars,
        is_remote=lambda request: _source(request.model or runtime.models[0], settings).startswith(REMOTE_PREFIX),
        max_active=active_limit(settings),
        max_threads=settings.max_active or ACTIVE_ELSEWHERE,
        queue_limit=settings.queue_limit,
        default_timeout_s=settings.default_timeout_s,
        max_timeout_s=settings.max_timeout_s,
    )


def active_limit(settings: Settings) -> int:
    """Return how many requests this process decodes at a time: `max_active`, or else a number that suits the device.

    More requests at a time make an accelerator more efficient, but not a CPU.
    """
    if settings.max_active is not None:
        return settings.max_active
    has_driver = settings.device == "auto" and shutil.which("nvidia-smi") is not None
    return ACTIVE_ELSEWHERE if has_driver or settings.device in ("cuda", "mps") else ACTIVE_ON_CPU


# -- targets -----------------------------------------------------------------------------------------------------------
def build_runtime(settings: Settings) -> Runtime:
    """Return the runtime, which loads each target by name, once, on first use.

    Requests may name the embedded model and the configured models.  A request can't load any other model.  Raises
    SettingsError.
    """
    has_draft_model, head = settings.draft_model is not None, head_of(settings.drafter)
    try:
        check_drafter(settings.drafter, has_draft_model=has_draft_model, head=head)
    except RequestError as error:
        raise SettingsError(error.message, value=error.value, limit=error.limit, remedy=error.remedy) from error
    draft_model = None if settings.draft_model is None else cache(partial(_load_draft_model, settings))
    targets: dict[str, Decider] = {}
    lock = threading.Lock()

    def load(name: str) -> Decider:
        with lock:
            if name not in targets:
                targets[name] = open_target(name, settings, draft_model)
            return targets[name]

    return Runtime(
        load=load,
        models=tuple(settings.model_sources),
        default_drafter=settings.drafter,
        has_draft_model=has_draft_model,
        head=head,
        windows=settings.windows,
        confirm_threshold=settings.confirm_threshold,
        choose_threshold=settings.choose_threshold,
        decides={name: decided_kinds(name, settings) for name in settings.model_sources},
    )


def decided_kinds(name: str, settings: Settings) -> frozenset[Kind]:
    """Return what a model may decide under strategy `auto`.  For the service's own model, the settings say it; for any
    other model, its record does, which is read without the weights.  A model that can't be found or read may decide
    everything: the first edit then tries to load it and reports why it can't be used."""
    if name == settings.model and settings.decides != (RECORD,):
        return frozenset(kind for kind in KINDS if kind in settings.decides)
    source = _source(name, settings)
    if source == EMBEDDED:
        return ModelRecord.read_without_calibration(embedded_directory()).decides(was_trained=True)
    if source.startswith(REMOTE_PREFIX):
        return UNTRAINED
    from apply_service.prompts.by_model import name_prompt_format, was_trained_to_merge

    try:
        place = hub.known(source).hub_id if _is_pulled(source) else str(Path(source).expanduser())
        record = ModelRecord.read_without_calibration(Path(place))
        return record.decides(was_trained=was_trained_to_merge(name_prompt_format(place)))
    except (UnknownModel, ModelNotLoadable):
        return frozenset(KINDS)


def open_target(name: str, settings: Settings, draft_model: Callable[[], LoadedModel] | None = None) -> Decider:
    """Return the target for a model by its name in the settings.

    A model in this process is loaded.  A model on a server is not contacted yet.

    Raises SettingsError if the model is on a server that the settings do not name, and the errors of `load_target`.
    """
    source = _source(name, settings)
    if not source.startswith(REMOTE_PREFIX):
        return load_target(name, settings, draft_model)
    from apply_service.remote.client import Endpoint, RemoteClient
    from apply_service.remote.target import RemoteTarget

    return RemoteTarget(name, source.removeprefix(REMOTE_PREFIX), RemoteClient(Endpoint.of(settings)))


def load_target(name: str, settings: Settings, draft_model: Callable[[], LoadedModel] | None = None) -> Target:
    """Return the target with the weights, self-test and prompt format of one model, by its name in the settings.

    `draft_model` loads the model that drafts for the target; it is None if no draft model is set.  Raises what
    `engine.loading.load_model` raises: ModelError and UnknownModel.
    """
    from apply_service.prompts.by_model import open_gguf_format, open_prompt_format

    source = _source(name, settings)
    recent = RecentOutputs() if settings.prefix_cache_mb else None  # outputs are kept only where prompts are
    if runs_on_llama_cpp(source, settings):
        llama = load_llama(name, settings)
        return Target(name, llama, open_gguf_format(source, llama.model), recent=recent)
    engine: Engine
    head: DraftHead | None = None
    if runs_on_numpy(source, settings):
        from apply_service.engine.numpy_local import NumpyEngine

        directory = embedded_directory()
        record = ModelRecord.read(directory)
        engine = NumpyEngine(
            directory,
            name=name,
            max_draft=settings.window,
            kv_cache_bytes=settings.kv_cache_mb * 2**20,
            prefix_cache_bytes=settings.prefix_cache_mb * 2**20,
        )
    else:
        loaded = _load(source, settings, head_of(settings.drafter) if name == settings.model else None)
        engine, directory, record, head = loaded.engine, loaded.directory, loaded.record, loaded.head
    open_draft_engine = None
    if draft_model is not None:
        open_draft_engine = partial(_draft_engine, engine, directory, draft_model)
        draft_model()  # else the first edit would load it, without the report of the start
        if name == settings.model:
            _check_default_drafter(settings, open_draft_engine)
    return Target(
        name,
        engine,
        open_prompt_format(str(directory)),
        open_draft_engine=open_draft_engine,
        calibration=record.calibration,
        windows=record.windows,
        head=head,
        recent=recent,
    )


def runs_on_numpy(source: str, settings: Settings) -> bool:
    """Tell whether a model runs without torch: the embedded model does, unless the settings need torch."""
    asked = (settings.engine, settings.weights, settings.attention, settings.cuda_graphs)
    return (
        source == EMBEDDED
        and settings.device in ("auto", "cpu")
        and settings.dtype in ("auto", "float32")
        and head_of(settings.drafter) is None
        and all(one in ("local", LLAMA_CPP, "own", "auto", "sdpa", "off") for one in asked)
    )


def runs_on_llama_cpp(source: str, settings: Settings) -> bool:
    """Tell whether a model runs in llama.cpp: if the settings say so, every model except the embedded one does."""
    return settings.engine == LLAMA_CPP and source != EMBEDDED


def load_llama(name: str, settings: Settings) -> LlamaEngine:
    """Return the engine that runs a GGUF file in llama.cpp.

    Raises:
        MissingDependency: llama-cpp-python is not installed, or was not built for this device.
        ModelNotLoadable: the file is not a GGUF file, or can't be used.
        ModelTooLarge: there is not enough memory for the model.
    """
    _wait_asleep()
    from apply_service.engine.llama_cpp.engine import LlamaEngine
    from apply_service.engine.llama_cpp.model import LlamaModel

    model = LlamaModel(Path(_source(name, settings)).expanduser(), device=settings.device)
    wanted = os.environ.get("OMP_NUM_THREADS", "")  # as for torch
    n_processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return LlamaEngine(
        model,
        name=name,
        window=settings.window,
        n_threads=int(wanted) if wanted.isdecimal() and int(wanted) else n_processors,
        kv_cache_bytes=settings.kv_cache_mb * 2**20,
        prefix_cache_bytes=settings.prefix_cache_mb * 2**20,
    )


def _wait_asleep() -> None:
    """Make the threads of a pass sleep soon when they wait for each other.  By default they wait in a busy loop for up
    to milliseconds.  Passes then take several times as long whenever other processes hold up a thread."""
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def load_anew(name: str, settings: Settings) -> LoadedModel:
    """Return the model in the torch engine, with its self-test on this machine, measured now.  Raises what
    `load_target` raises."""
    from apply_service.prompts.by_model import open_prompt_format

    loaded = _load(_source(name, settings), settings, head_of(settings.drafter), is_fresh=True)
    open_prompt_format(str(loaded.directory))
    if settings.draft_model is not None:
        load = partial(_load_draft_model, settings)
        _check_default_drafter(settings, partial(_draft_engine, loaded.engine, loaded.directory, load))
    return loaded


def _source(name: str, settings: Settings) -> str:
    """Return the folder, id or server-side name of a model, by its name in the settings."""
    return settings.model_sources.get(name, name)


def _load_draft_model(settings: Settings) -> LoadedModel:
    """Return the draft model, without a prefix cache, because its sessions belong to no request."""
    assert settings.draft_model is not None
    return _load(settings.draft_model, replace(settings, prefix_cache_mb=0, adapter=None), None)


def _check_default_drafter(settings: Settings, open_draft_engine: Callable[[], DraftEngine]) -> None:
    """Raise ModelNotLoadable if the default drafter is a draft model that can't draft: every edit would be refused."""
    if "draft_model" in settings.drafter.split("+"):
        try:
            open_draft_engine()
        except UnsupportedParameter as error:
            raise ModelNotLoadable(error.message, value=error.value, limit=error.limit, remedy=error.remedy) from error


def _draft_engine(target: Any, directory: Path, draft_model: Callable[[], LoadedModel]) -> DraftEngine:
    """Return the draft model for a target of either local engine.  Raises UnsupportedParameter if their tokenizers
    differ."""
    draft = draft_model()
    if _vocabulary(str(draft.directory)) != _vocabulary(str(directory)):
        message = "the draft model has another tokenizer than the model that it drafts for"
        remedy = "name another drafter, or set draft_model to a smaller model of the same family"
        raise UnsupportedParameter(message, value=draft.engine.name, limit=target.name, remedy=remedy)
    # Drafts may use the ids that both models have.  If the tables are padded, these are more than the tokenizer's ids.
    return DraftEngine(draft.engine, min(draft.engine.n_vocab, target.n_vocab))


@cache
def _vocabulary(source: str) -> Mapping[str, int]:
    """Return all tokens with their ids, including control tokens."""
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    file = Path(source) / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file)) if file.is_file() else AutoTokenizer.from_pretrained(source)
    vocabulary: Mapping[str, int] = tokenizer.get_vocab()
    return vocabulary


def _is_pulled(source: str) -> bool:
    """Tell whether the hub's client finds the model's files: the model is not the embedded one, and not a file or
    folder."""
    return source != EMBEDDED and (hub.is_hub_name(source) or not Path(source).expanduser().exists())


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ImportError:
        return False


def _load(source: str, settings: Settings, head: str | None, *, is_fresh: bool = False) -> LoadedModel:
    _wait_asleep()
    # Errors that can be found at once are raised before torch is imported, because the import takes seconds.
    if _is_pulled(source):
        hub.known(source)
    if not all(map(_is_installed, ("torch", "transformers"))):
        raise missing_extra(f"The model {source} runs on torch and transformers", "models")
    if _is_pulled(source):
        hub.find_or_pull(source, allow_code=settings.allow_remote_code)
    from apply_service.engine.loading import load_model

    return load_model(
        source,
        allow_remote_code=settings.allow_remote_code,
        unpack_to=settings.state_path / "models",
        adapter=Path(settings.adapter).expanduser() if settings.adapter and source == settings.model else None,
        device=settings.device,
        dtype=settings.dtype,
        weights=cast("Weights", settings.weights),
        window=settings.window,
        head=head,
        head_folder=Path(settings.draft_head).expanduser() if settings.draft_head else None,
        kv_cache_bytes=settings.kv_cache_mb * 2**20,
        prefix_cache_bytes=settings.prefix_cache_mb * 2**20,
        attention=settings.attention,
        cuda_graphs=settings.cuda_graphs,
        self_tests=None if is_fresh else settings.state_path / "self-tests",
    )

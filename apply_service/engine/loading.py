"""Loads a model by its name: the embedded model, a folder, a GGUF file, a short name or a Hugging Face id.

Weights come from safetensors or GGUF only.  Python code of a model runs only if the settings allow it.  A LoRA adapter
is added to the weights once.  After that the engine runs plain linear layers, and no other module knows of adapters.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from apply_service.disk.paths import platform_state_path
from apply_service.engine.attention import register
from apply_service.engine.gguf import unpacked
from apply_service.engine.heads.base import open_head
from apply_service.engine.memory import (
    MemoryPlan,
    free_bytes,
    n_stored_weights,
    plan_memory,
    refuse_plan,
    refuse_too_large,
)
from apply_service.engine.progress import telling
from apply_service.engine.record import ModelRecord
from apply_service.engine.self_test import SelfTest, buckets_on, find_self_test
from apply_service.engine.torch_local import DEFAULT_BUCKETS, KV_CACHE_BYTES, TorchEngine
from apply_service.engine.weights import Weights, bring, dtype_of, fuse_norms, refuse_format
from apply_service.errors import MissingDependency, ModelNotLoadable, RemoteCodeRefused
from apply_service.models import EMBEDDED, embedded_directory
from apply_service.models.hub import find_or_pull, first_line, is_hub_name
from apply_service.protocols import DraftHead, Prefill, SamplingParams, Window

N_PROMPT, N_WINDOW = 24, 8
"""The numbers of tokens on which the engine is compared with the library's own forward."""
ROUNDING, COARSE_ROUNDING = 1e-3, 0.5
"""The largest allowed difference between the engine and the library, in standard deviations of the logits.  The first
number is for float32 on a CPU, the second for everything else."""
TIMES_OWN = 2.0
"""A difference above the coarse rounding is still allowed up to this many times the difference between two of the
library's own ways to compute attention (eager and sdpa).  In some pretrained models in bfloat16, these two differ by
0.7 standard deviations."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    engine: TorchEngine
    directory: Path
    record: ModelRecord
    self_test: SelfTest
    memory: MemoryPlan
    head: DraftHead | None = None
    """The head that drafts inside the engine, if there is one."""

    @property
    def number_format(self) -> str:
        """The type of the weights that are not in 8 bits."""
        return str(self.engine.pool.shape.dtype).removeprefix("torch.")


def load_model(
    name: str,
    *,
    device: str = "auto",
    dtype: str = "auto",
    weights: Weights = "own",
    window: int | None = None,
    allow_remote_code: bool = False,
    kv_cache_bytes: int = KV_CACHE_BYTES,
    prefix_cache_bytes: int = 0,
    self_tests: Path | None = None,
    unpack_to: Path | None = None,
    adapter: Path | None = None,
    head: str | None = None,
    head_folder: Path | None = None,
    **engine_options: Any,
) -> LoadedModel:
    """Load a model and make it ready: load its weights, plug in our attention, and run the self-test.

    `self_tests`: the folder for results of self-tests; if the result is already there, no test runs.  `unpack_to`: the
    folder for unpacked GGUF files; if it is None, the platform's folder for state is used.  `adapter`: the folder of a
    LoRA adapter to add to the weights; with an adapter, the model's calibration is not used.  `head`: the name of the
    head that drafts inside the engine.  `head_folder`: the folder of the head's files, if it has any.  `engine_options`
    go to `TorchEngine`.

    Raises:
        UnknownModel: there is no such file, folder or id.
        ModelTooLarge: the model does not fit into the free memory of the machine or of the device.
        ModelNotLoadable: the files are unusable (no safetensors, an architecture without the attention interface), the
            model keeps a recurrent state, or the adapter was made for another model.
        MissingDependency: the model is a GGUF file, and the libraries to read it are not installed.
        RemoteCodeRefused: the model needs its own Python code.
    """
    directory = find_directory(name, unpack_to, allow_remote_code=allow_remote_code)
    record = ModelRecord.read(directory)
    if adapter is not None:
        record = replace(record, calibration=None)
    where = pick_device(device)
    refuse_format(weights, where)
    matrix = _matrix_of(directory) if (dtype, where.type, weights) == ("auto", "cpu", "own") else None
    model = _from_pretrained(directory, name, dtype_of(dtype, where, matrix), allow_remote_code).eval()
    if getattr(model, "_is_stateful", False):
        raise ModelNotLoadable(
            "the model keeps a recurrent state, which this engine can't roll back after a wrong draft",
            value=name,
            limit="models whose only state is keys and values",
            remedy="serve it with another program, such as vLLM, and name it as remote:NAME",
        )
    if adapter is not None:
        add_adapter(model, adapter)
    room: dict[str, Any] = {"kv_cache_bytes": kv_cache_bytes, "prefix_cache_bytes": prefix_cache_bytes}
    plan = plan_memory(model, weights, where, n_rows=most_rows(window), **room, **engine_options)
    refuse_plan(plan, name)
    model = bring(model, weights, where)
    engine, found = make_ready(model, name, room, engine_options, window=window, self_tests=self_tests)
    refuse_other_logits(engine, name)
    drafts = None if head is None else open_head(head, engine, directory, head_folder)
    return LoadedModel(engine, directory, record, found, plan, drafts)


def refuse_other_logits(engine: TorchEngine, name: str) -> None:
    """Compare a window of the engine with the library's own forward of the same weights.  This is needed because an
    architecture may treat logits, positions or attention in a way that the engine does not know.  It costs two forwards
    of 32 tokens.  Raises ModelNotLoadable if the logits differ by more than rounding explains."""
    model, n_vocab = engine.model, engine.model.config.get_text_config().vocab_size
    ids = [(7 * i + 3) % n_vocab for i in range(N_PROMPT + N_WINDOW)]
    session = engine.open(ids[: N_PROMPT + 1], N_WINDOW)
    assert session is not None, "an idle engine has room"
    with session:
        while session.n_pending:
            engine.step([Prefill(session, min(session.n_pending, engine.prefill_grain))])
        window = Window(session, ids[N_PROMPT], ids[N_PROMPT + 1 :], SamplingParams())
        logits, layout = engine.logits([window], engine.row_count(N_WINDOW))
        found = logits[layout.windows[0].first :][:N_WINDOW].float()
    wanted = _library_logits(model, ids, "eager")
    rounding = ROUNDING if (found.device.type, model.dtype) == ("cpu", torch.float32) else COARSE_ROUNDING
    difference = float((found - wanted).abs().max() / wanted.std())
    if difference > rounding == COARSE_ROUNDING and model._supports_sdpa:
        own = float((_library_logits(model, ids, "sdpa") - wanted).abs().max() / wanted.std())
        rounding = max(rounding, TIMES_OWN * own)
    if not difference <= rounding:
        raise ModelNotLoadable(
            f"the results of this model differ from the transformers library by {difference:.2g} standard deviations",
            value=name,
            limit=rounding,
            remedy="use another model, and report the name of this one: its architecture is not supported",
        )


def _library_logits(model: Any, ids: Sequence[int], attention: str) -> torch.Tensor:
    """Return the logits of the tokens behind the prompt, float32 [N_WINDOW, vocab], by the library's own forward."""
    ours = register()
    try:
        model.set_attn_implementation(attention)
        with torch.inference_mode():
            output = model(torch.tensor([ids], device=model.device), use_cache=False)
    finally:
        model.set_attn_implementation(ours)
    logits: torch.Tensor = output.logits[0, N_PROMPT:].float()
    return logits


def make_ready(
    model: Any,
    name: str,
    room: Mapping[str, int],
    engine_options: Mapping[str, Any],
    *,
    window: int | None,
    self_tests: Path | None,
    engine_type: type[TorchEngine] = TorchEngine,
) -> tuple[TorchEngine, SelfTest]:
    """Return an engine around `model` and the result of its self-test.  The engine uses the buckets (row counts of a
    pass) whose results the test found bitwise equal.

    `engine_options` go to the tested engine and to the returned one; `room` (sizes in bytes) goes only to the returned
    engine.  Raises ModelNotLoadable if the model does not run with our attention.
    """
    fuse_norms(model)
    buckets = buckets_on(model) if window is None else (window + 1,)
    try:
        found = find_self_test(model, name, buckets, self_tests, engine_options)
    except MissingDependency:
        raise
    except Exception as error:  # an unknown architecture can raise anything
        raise ModelNotLoadable(
            f"the model does not run with this engine's attention ({type(error).__name__}: {str(error)[:200]})",
            value=name,
            remedy="use a decoder-only model that uses the attention interface of transformers",
        ) from error
    options: dict[str, Any] = {**room, **engine_options}
    options |= {"buckets": found.buckets, "determinism": found.determinism, "query_grain": found.query_grain}
    options |= {"attention": found.attention, "cuda_graphs": "on" if found.has_graphs else "off"}
    options |= {"pass_times": found.pass_times}
    return engine_type(model, name=name, **options), found


def most_rows(window: int | None) -> int:
    """Return the number of rows of the largest pass on a CPU, for windows of `window` draft tokens (None means that the
    engine chooses)."""
    return DEFAULT_BUCKETS[-1] if window is None else window + 1


def pick_device(device: str) -> torch.device:
    """Return the device named `device`.  `auto` means CUDA if there is a CUDA device, or else the CPU.  Raises
    MissingDependency if CUDA is demanded and there is no CUDA device."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        raise MissingDependency("no CUDA device was found", value=device, remedy="use --device cpu")
    return torch.device(device)


def find_directory(name: str, unpack_to: Path | None, *, allow_remote_code: bool) -> Path:
    """Return the folder of a model.  Unpacks or downloads it if necessary.  Raises the errors of `load_model`."""
    if is_hub_name(name):
        return find_or_pull(name, allow_code=allow_remote_code)
    path = embedded_directory() if name == EMBEDDED else Path(name).expanduser()
    if path.is_dir():
        return path
    if name == EMBEDDED:
        raise ModelNotLoadable(
            "this installation lacks the embedded model", value=name, remedy="install the package again"
        )
    if path.is_file():
        return unpacked(path, unpack_to or platform_state_path(os.environ) / "models")
    return find_or_pull(name, allow_code=allow_remote_code)


def _matrix_of(directory: Path) -> tuple[int, int] | None:
    """Return the numbers of inputs and outputs of a layer's largest matrix; None if the configuration lacks the usual
    names."""
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        config = config.get("text_config", config)
        return int(config["hidden_size"]), int(config["intermediate_size"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _from_pretrained(directory: Path, name: str, dtype: torch.dtype, allow_remote_code: bool) -> Any:
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging as bars

    bars.disable_progress_bar()  # standard error belongs to the caller
    try:
        n_bytes = n_stored_weights(directory) * dtype.itemsize
        refuse_too_large(name, n_bytes, free_bytes(torch.device("cpu")))
        with telling(f"loading {name}: {n_bytes / 1e9:.1f} GB of weights"):
            return AutoModelForCausalLM.from_pretrained(
                directory,
                dtype=dtype,
                attn_implementation=register(),
                trust_remote_code=allow_remote_code,
                use_safetensors=True,
            )
    except (OSError, ValueError, KeyError, ImportError, SafetensorError) as error:
        # transformers raises one of these for every kind of failure, so the text must tell them apart.
        if "trust_remote_code" in str(error):
            remedy = "set allow_remote_code if you trust its authors"
            raise RemoteCodeRefused("the model brings Python code of its own", value=name, remedy=remedy) from error
        message = f"the model can't be loaded: {first_line(error)}"
        raise ModelNotLoadable(
            message, value=name, remedy="check that the model's files are complete, or use another model"
        ) from error


# -- LoRA adapters as peft writes them ---------------------------------------------------------------------------------
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
DOWN, UP = ".lora_A.weight", ".lora_B.weight"
HARMLESS = frozenset({
    "peft_version", "r", "lora_alpha", "use_rslora", "lora_dropout", "task_type", "base_model_name_or_path", "revision",
    "inference_mode", "target_modules", "exclude_modules", "layers_to_transform", "layers_pattern", "loftq_config",
    "eva_config", "corda_config", "lora_ga_config", "auto_mapping", "megatron_config", "megatron_core",
    "qalora_group_size", "runtime_config",
})  # fmt: skip
"""Keys of the file that do not change how the tensors are used, or that are read here.  If any other key is set, the
adapter is not a plain LoRA, except for the pairs of `PLAIN`."""
PLAIN = (("peft_type", "LORA"), ("init_lora_weights", True), ("init_lora_weights", "gaussian"))


@torch.no_grad()
def add_adapter(model: Any, folder: Path) -> None:
    """Add the adapter in `folder` to the linear layers of `model`, in place.  The sums are computed in float32 and
    rounded once.

    Raises:
        ModelNotLoadable: the folder has no plain LoRA adapter in safetensors, or the adapter was made for another
            model.
    """
    base, scale, tensors = read_adapter(folder)
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, torch.nn.Linear)}
    for name in [name.removeprefix(PREFIX).removesuffix(DOWN) for name in tensors if name.endswith(DOWN)]:
        layer = layers.get(name)
        down, up = (tensors[PREFIX + name + end].float() for end in (DOWN, UP))
        if layer is None or layer.weight.shape != (up.shape[0], down.shape[1]) or up.shape[1] != down.shape[0]:
            raise ModelNotLoadable(
                "the adapter was made for another model",
                value=f"{name}: {tuple(up.shape)} x {tuple(down.shape)}",
                limit=None if layer is None else tuple(layer.weight.shape),
                remedy=f"use it with {base or 'its own model'}",
            )
        layer.weight.copy_(layer.weight.float() + scale * (up @ down))


def read_adapter(folder: Path) -> tuple[Any, float, dict[str, torch.Tensor]]:
    """Return the name of the adapter's model (None if not given), the scale of its products, and its matrices.  Raises
    ModelNotLoadable if the adapter is not a plain LoRA."""
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        config.setdefault("peft_type", "not given")
        is_set = {name: value for name, value in config.items() if value not in (None, False, "none", [], {})}
        odd = {name: value for name, value in is_set.items() if name not in HARMLESS and (name, value) not in PLAIN}
        rank = float(config["r"])
        scale = float(config["lora_alpha"]) / (rank**0.5 if config.get("use_rslora") else rank)
        tensors = load_file(folder / WEIGHTS)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError, SafetensorError) as error:
        raise ModelNotLoadable(
            f"the adapter can't be read: {type(error).__name__}: {error}",
            value=str(folder),
            limit=f"a folder with {CONFIG} and {WEIGHTS}",
            remedy="name the folder that peft or training.finetune wrote",
        ) from error
    if odd:
        message, remedy = "the adapter is not a plain LoRA", "merge it into its model with peft, and load the result"
        raise ModelNotLoadable(message, value=odd, limit="LoRA of linear layers", remedy=remedy)
    names = [name.removeprefix(PREFIX).removesuffix(DOWN) for name in tensors if name.endswith(DOWN)]
    if not names or tensors.keys() != {PREFIX + name + end for name in names for end in (DOWN, UP)}:
        unknown = sorted(name for name in tensors if not name.endswith((DOWN, UP)))[:3]
        message = "the adapter's file has other tensors than the A and B matrices of a LoRA"
        raise ModelNotLoadable(message, value=unknown, limit=[DOWN, UP], remedy="use a LoRA adapter of linear layers")
    return config.get("base_model_name_or_path"), scale, tensors

"""LoRA adapters as peft writes them: added to the weights of a model once, when it is loaded.

Afterwards the engine runs plain linear layers: number formats, packing, self-test and drafts know nothing of adapters.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from apply_service.errors import ModelNotLoadable

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
DOWN, UP = ".lora_A.weight", ".lora_B.weight"
HARMLESS = frozenset({
    "peft_version", "r", "lora_alpha", "use_rslora", "lora_dropout", "task_type", "base_model_name_or_path", "revision",
    "inference_mode", "target_modules", "exclude_modules", "layers_to_transform", "layers_pattern", "loftq_config",
    "eva_config", "corda_config", "lora_ga_config", "auto_mapping", "megatron_config", "megatron_core",
    "qalora_group_size", "runtime_config",
})  # fmt: skip
"""Keys of the file that change nothing of what is computed from the tensors, or that are read here.  Any other that is
set makes the adapter something else than plain LoRA, but for these."""
PLAIN = (("peft_type", "LORA"), ("init_lora_weights", True), ("init_lora_weights", "gaussian"))


@torch.no_grad()
def add_adapter(model: Any, folder: Path) -> None:
    """Add the adapter in `folder` to the linear layers of `model`, in place: computed in float32, rounded once.

    Raises:
        ModelNotLoadable: the folder has no plain LoRA adapter in safetensors, or it was made for another model.
    """
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
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, torch.nn.Linear)}
    names = [name.removeprefix(PREFIX).removesuffix(DOWN) for name in tensors if name.endswith(DOWN)]
    if not names or tensors.keys() != {PREFIX + name + end for name in names for end in (DOWN, UP)}:
        unknown = sorted(name for name in tensors if not name.endswith((DOWN, UP)))[:3]
        message = "the adapter's file has other tensors than the A and B matrices of a LoRA"
        raise ModelNotLoadable(message, value=unknown, limit=[DOWN, UP], remedy="use a LoRA adapter of linear layers")
    for name in names:
        layer = layers.get(name)
        down, up = (tensors[PREFIX + name + end].float() for end in (DOWN, UP))
        if layer is None or layer.weight.shape != (up.shape[0], down.shape[1]) or up.shape[1] != down.shape[0]:
            raise ModelNotLoadable(
                "the adapter was made for another model",
                value=f"{name}: {tuple(up.shape)} x {tuple(down.shape)}",
                limit=None if layer is None else tuple(layer.weight.shape),
                remedy=f"use it with {config.get('base_model_name_or_path') or 'its own model'}",
            )
        layer.weight.copy_(layer.weight.float() + scale * (up @ down))

"""Unpacks a GGUF file into a model folder, once.  Every later start loads the folder.

`transformers` reads weights, configuration, tokenizer and chat template from the file.  A GGUF holds no code.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from contextlib import nullcontext, redirect_stderr
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from packaging.version import Version

from apply_service.engine.memory import free_bytes, refuse_too_large
from apply_service.engine.progress import is_terminal, telling
from apply_service.errors import ModelNotLoadable, missing_extra
from apply_service.models.hub import first_line

MAGIC = b"GGUF"
PLAIN = {"F32": torch.float32, "F16": torch.float16}
"""Number formats that the folder keeps.  All other formats become bfloat16."""
OLDEST_TRANSFORMERS = Version("5.23")
"""Earlier versions read some weights and the end of a turn wrongly."""


def unpacked(path: Path, parent: Path) -> Path:
    """Return the folder below `parent` with the model of the GGUF file `path`.  Unpacks the file if there is no such
    folder.

    Raises:
        MissingDependency: the extra `gguf` is not installed.
        ModelNotLoadable: the file is damaged, is not a GGUF, or has an unknown quantisation or architecture.
        ModelTooLarge: memory or disk are too small for the unpacked weights.
    """
    status = path.stat()
    key = f"{path.resolve()} {status.st_size} {status.st_mtime_ns}"
    folder = parent / f"{path.stem}-{blake2b(key.encode(), digest_size=4).hexdigest()}"
    if folder.is_dir():
        return folder
    with path.open("rb") as file:
        if (magic := file.read(4)) != MAGIC:
            raise _unreadable(path, f"it begins with {magic!r}, not with {MAGIC!r}")
    try:
        import accelerate  # noqa: F401
        import gguf
        import transformers
        from transformers import GgufConfig

        if Version(transformers.__version__) < OLDEST_TRANSFORMERS:
            raise ImportError(f"transformers {OLDEST_TRANSFORMERS} or later, found {transformers.__version__}")
    except ImportError as error:
        raise missing_extra(f"A GGUF file needs more packages ({error})", "gguf") from error
    try:
        tensors = gguf.GGUFReader(path).tensors
    except Exception as error:  # a damaged file can lead to any error
        raise _unreadable(path, first_line(error)) from error
    kinds = {tensor.tensor_type for tensor in tensors}
    for kind in kinds:
        n_bytes = gguf.GGML_QUANT_SIZES[kind][1]
        try:
            gguf.dequantize(torch.zeros((1, n_bytes), dtype=torch.uint8).numpy(), kind)
        except NotImplementedError as fault:
            raise ModelNotLoadable(
                f"the file is quantised as {kind.name} (type {int(kind)}), which can't be unpacked",
                value=str(path),
                limit="F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ1 to IQ4",
                remedy="use a file with another quantisation",
            ) from fault
    matrix_kinds = {tensor.tensor_type.name for tensor in tensors if len(tensor.shape) > 1}
    dtype = PLAIN.get("".join(matrix_kinds), torch.bfloat16)
    n_weights = [int(tensor.n_elements) for tensor in tensors]
    needed = sum(n_weights) * dtype.itemsize
    # One tensor at a time also takes memory for two copies in float32.
    refuse_too_large(str(path), needed + 8 * max(n_weights, default=0), free_bytes(torch.device("cpu")))
    parent.mkdir(parents=True, exist_ok=True)
    refuse_too_large(str(path), needed, shutil.disk_usage(parent).free, what="disk")
    with (
        telling(f"unpacking {path.name} into {folder}, once: {needed / 1e9:.1f} GB"),
        tempfile.TemporaryDirectory(dir=parent) as scratch,
    ):
        made = Path(scratch) / "model"
        _convert(path, made, dtype, GgufConfig(dequantize=True))
        try:
            os.replace(made, folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise
    return folder


def _convert(path: Path, made: Path, dtype: torch.dtype, plain: Any) -> None:
    """Let the library read the file, and write a model folder with safetensors."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source: dict[str, Any] = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    try:
        # The library's progress bar can't be switched off, so hide it unless standard error is a terminal.
        with nullcontext() if is_terminal() else redirect_stderr(io.StringIO()):
            model = AutoModelForCausalLM.from_pretrained(**source, dtype=dtype, quantization_config=plain)
        model.save_pretrained(made)
        AutoTokenizer.from_pretrained(**source).save_pretrained(made)
    except OSError:
        raise
    except Exception as error:  # an unknown architecture, tensors that do not belong to it, an odd tokenizer
        raise _unreadable(path, first_line(error)) from error


def _unreadable(path: Path, reason: str) -> ModelNotLoadable:
    return ModelNotLoadable(
        f"the GGUF file can't be read: {reason}", value=str(path), remedy="download it again, or use another model"
    )

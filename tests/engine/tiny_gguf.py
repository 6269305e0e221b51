"""Small GGUF files, written on the spot from the tiny models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

from tests.engine.tiny_models import CHATML, tiny_tokenizer


def save_gguf(
    path: Path,
    model: Any,
    kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    *,
    template: str | None = CHATML,
) -> Path:
    """Write a llama or qwen2 model as llama.cpp's converter does, with its matrices in `kind`."""
    config, arch = (
        model.config,
        {"llama": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2}[model.config.model_type],
    )
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch])
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    _add_tokenizer(writer, config.vocab_size, template)
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = weight.float().numpy()
        if arch is gguf.MODEL_ARCH.LLAMA and (".q_proj." in name or ".k_proj." in name):
            values = _interleave(values, config.num_attention_heads if ".q_" in name else config.num_key_value_heads)
        stored = stored_as(values, kind)
        known = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert known is not None, name
        writer.add_tensor(known, stored, raw_dtype=kind if values.ndim > 1 else None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def stored_as(values: np.ndarray[Any, Any], kind: gguf.GGMLQuantizationType) -> np.ndarray[Any, Any]:
    """What a file of `kind` holds of a tensor: vectors stay in float32.  The package can't write blocks of K-quants, so
    these hold drawn numbers with small scales."""
    if values.ndim < 2:
        return values
    try:
        return gguf.quantize(values, kind)
    except NotImplementedError:
        n_weights, n_bytes = gguf.GGML_QUANT_SIZES[kind]
        drawn = np.random.default_rng(0).integers(0, 64, (*values.shape[:-1], values.shape[-1] // n_weights, n_bytes))
        blocks = drawn.astype(np.uint8)
        scale = np.frombuffer(np.float16(2**-12).tobytes(), np.uint8)
        places = {"Q4_K": (0, 2), "Q6_K": (208,)}[kind.name]
        for place in places:
            blocks[..., place : place + 2] = scale
        return blocks.reshape(*values.shape[:-1], -1)


def _interleave(values: np.ndarray[Any, Any], n_heads: int) -> np.ndarray[Any, Any]:
    """Rows as llama.cpp's rotation wants them: both halves of each head in turn."""
    halves = values.reshape(n_heads, 2, values.shape[0] // n_heads // 2, *values.shape[1:])
    return halves.swapaxes(1, 2).reshape(values.shape)


def _add_tokenizer(writer: gguf.GGUFWriter, n_vocab: int, template: str | None) -> None:
    import json

    tokenizer = tiny_tokenizer()
    vocabulary = {token: text for text, token in tokenizer.get_vocab().items()}
    control = {token for token, one in tokenizer.added_tokens_decoder.items() if one.special}
    texts = [vocabulary.get(token, f"<unused{token}>") for token in range(n_vocab)]
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(texts)
    kinds = gguf.TokenType
    types = dict.fromkeys(tokenizer.added_tokens_decoder, kinds.USER_DEFINED) | dict.fromkeys(control, kinds.CONTROL)
    writer.add_token_types([types.get(token, kinds.NORMAL) for token in range(n_vocab)])
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    if template is not None:
        writer.add_chat_template(template)

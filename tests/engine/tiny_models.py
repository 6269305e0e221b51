"""Small random models and tokenizers, made on the spot: the real loading code runs on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

from apply_service.engine.attention import register

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SIZES: dict[str, Any] = {
    "hidden_size": 96,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 512,
    "max_position_embeddings": 2048,
}
CONFIGS = {
    "llama": LlamaConfig(**SIZES, attention_bias=True, tie_word_embeddings=True),
    "qwen2": Qwen2Config(**SIZES),
    "qwen3": Qwen3Config(**SIZES),
    "mistral": MistralConfig(**SIZES, sliding_window=24),
    "gemma2": Gemma2Config(**SIZES, sliding_window=24, query_pre_attn_scalar=16),
    "gemma3": Gemma3TextConfig(
        **SIZES, sliding_window=24, query_pre_attn_scalar=16, layer_types=["sliding_attention", "full_attention"]
    ),
}


def tiny_model(family: str, *, dtype: torch.dtype = torch.float32, attention: str | None = None, seed: int = 0) -> Any:
    """A random model of `family`; `attention` None plugs in ours."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(CONFIGS[family], dtype=dtype, attn_implementation=attention or register())
    return model.eval()


def with_ties(model: Any, n_distinct: int = 8) -> Any:
    """Make every output row equal to one of the first `n_distinct`: exact ties everywhere."""
    with torch.no_grad():
        weight = model.get_output_embeddings().weight
        weight.copy_(weight[torch.arange(len(weight)) % n_distinct])
    return model


def tiny_tokenizer(*, vocab_size: int = 480) -> PreTrainedTokenizerFast:
    """Byte-level BPE with control tokens, one of them not marked special (as published models have them)."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    text = ["def add(a, b):\n    return a + b\n", "class Thing:\n    value = 1\n", "</updated-code>", "<updated-code>"]
    tokenizer.train_from_iterator(text * 20, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>")
    fast.add_tokens(["<tool_call>"], special_tokens=False)
    fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    fast.chat_template = CHATML
    return fast


def save_tiny(directory: Path, family: str = "qwen2") -> Path:
    """A model folder as a user would download it."""
    tiny_model(family, attention="sdpa").save_pretrained(directory)
    tiny_tokenizer().save_pretrained(directory)
    return directory

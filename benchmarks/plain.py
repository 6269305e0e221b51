"""`plain`, the baseline of every speed-up: the fastest undrafted decoding of the same model, prompt and output length.

Two candidates are timed and the faster one counts: our engine with one unpadded row a pass, and the library's own
`generate` with a dynamic cache.  A padded run (the oracle of the lossless law) is never a baseline.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, cast

import torch

from apply_service.decoding.scheduler import decode_alone
from apply_service.decoding.verify import Decoding
from apply_service.drafting.none import NoDraft
from apply_service.engine.attention import ATTENTION_NAME
from apply_service.engine.torch_local import TorchEngine


@dataclass(frozen=True, slots=True)
class Plain:
    """Generated tokens a second, prefill not counted."""

    engine_tok_s: float
    generate_tok_s: float
    n_tokens: int

    @property
    def tok_s(self) -> float:
        return max(self.engine_tok_s, self.generate_tok_s)

    @property
    def winner(self) -> str:
        return "one row a pass" if self.engine_tok_s >= self.generate_tok_s else "generate()"


def measure_plain(engine: TorchEngine, prompt_ids: list[int], n_tokens: int) -> Plain:
    """Time both candidates on `n_tokens` tokens after `prompt_ids`; each once unmeasured on a few tokens first."""
    plain = engine.plain()
    _engine_tok_s(plain, prompt_ids, 4)
    _generate_tok_s(engine, prompt_ids, 4)
    return Plain(_engine_tok_s(plain, prompt_ids, n_tokens), _generate_tok_s(engine, prompt_ids, n_tokens), n_tokens)


def _engine_tok_s(plain: TorchEngine, prompt_ids: list[int], n_tokens: int) -> float:
    decoding = Decoding(plain, prompt_ids, NoDraft(), n_tokens, frozenset())
    for _ in decode_alone(decoding):
        pass
    return decoding.stats.tokens_per_s


@torch.inference_mode()
def _generate_tok_s(engine: TorchEngine, prompt_ids: list[int], n_tokens: int) -> float:
    """The time of `n_tokens + 1` tokens less that of the first, which holds the prefill."""
    model = cast(Any, engine.model)
    model.set_attn_implementation("sdpa")
    try:
        ids = torch.tensor([prompt_ids], device=engine.device)
        seconds = [_generate(model, ids, n) for n in (1, n_tokens + 1)]
    finally:
        model.set_attn_implementation(ATTENTION_NAME)
    return n_tokens / (seconds[1] - seconds[0])


def _generate(model: Any, ids: torch.Tensor, n_tokens: int) -> float:
    started = time.perf_counter()
    model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=n_tokens,
        min_new_tokens=n_tokens,
        do_sample=False,
        use_cache=True,
        pad_token_id=0,
    )
    if ids.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - started

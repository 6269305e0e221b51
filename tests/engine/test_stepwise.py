"""Recurrent and hybrid models: no drafts, one forward a sequence, the same logits as one forward over everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, JambaConfig, MambaConfig, Qwen3NextConfig

from apply_service.decoding.scheduler import Scheduler, decode_alone
from apply_service.decoding.verify import Decoding
from apply_service.drafting.drafter import NoDraft
from apply_service.engine.loading import load_model
from apply_service.engine.stepwise import StepwiseEngine, is_recurrent
from apply_service.errors import ContextLimitExceeded
from apply_service.protocols import Drafter
from tests.adversarial import RandomDraft
from tests.engine.tiny_models import SIZES, tiny_model, tiny_tokenizer

MORE = {**SIZES, "max_position_embeddings": 256}
CONFIGS: dict[str, Any] = {
    "mamba": MambaConfig(hidden_size=64, state_size=8, num_hidden_layers=2, vocab_size=512),
    "qwen3_next": Qwen3NextConfig(
        **{**MORE, "num_hidden_layers": 4},
        linear_num_value_heads=4,
        linear_num_key_heads=2,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
    ),
    "jamba": JambaConfig(
        **{**MORE, "num_hidden_layers": 4},
        attn_layer_period=2,
        attn_layer_offset=1,
        num_experts=2,
        num_experts_per_tok=1,
        mamba_d_state=8,
        use_mamba_kernels=False,
    ),
}


def recurrent_model(family: str) -> Any:
    torch.manual_seed(1)
    return AutoModelForCausalLM.from_config(CONFIGS[family], dtype=torch.float32).eval()


def decoding(engine: StepwiseEngine, prompt: Sequence[int], drafter: Drafter, limit: int = 12) -> Decoding:
    return Decoding(engine, list(prompt), drafter, limit, frozenset())


@pytest.mark.parametrize("family", CONFIGS)
def test_output_is_that_of_a_forward_over_everything(family: str) -> None:
    model = recurrent_model(family)
    assert is_recurrent(model)
    prompt = torch.randint(0, 512, (20,), generator=torch.Generator().manual_seed(2)).tolist()
    wanted = list(prompt)
    with torch.inference_mode():
        for _ in range(12):
            wanted.append(int(model(torch.tensor([wanted]), use_cache=False).logits[0, -1].argmax()))
    drafted = decoding(StepwiseEngine(model, name=family), prompt, RandomDraft(512, answer=wanted[20:]))
    assert [token for step in decode_alone(drafted) for token in step.ids] == wanted[20:]
    assert drafted.stats.drafted_tokens == 0


def test_sequences_together_give_what_they_give_alone() -> None:
    engine = StepwiseEngine(recurrent_model("mamba"), name="mamba")
    prompts = [[1, 2, 3], [4, 5, 6, 7, 8], list(range(100))]
    alone = []
    for prompt in prompts:
        one = decoding(engine, prompt, NoDraft())
        list(decode_alone(one))
        alone.append(one.output_ids)
    together = [decoding(engine, prompt, NoDraft()) for prompt in prompts]
    scheduler = Scheduler()
    while active := [one for one in together if one.finish_reason is None]:
        scheduler.run_pass(active)
    assert [one.output_ids for one in together] == alone


def test_a_failed_neighbour_does_not_advance_a_state_twice() -> None:
    class Fragile(StepwiseEngine):
        """Fails on a token that one of two prompts ends in."""

        def _forward(self, session: Any, ids: Any) -> Any:
            if 99 in ids:
                raise RuntimeError("bad token")
            return super()._forward(session, ids)

    model = recurrent_model("mamba")
    one = decoding(StepwiseEngine(model, name="mamba"), [1, 2, 3], NoDraft())
    list(decode_alone(one))
    engine, scheduler = Fragile(model, name="mamba"), Scheduler()
    good, bad = decoding(engine, [1, 2, 3], NoDraft()), decoding(engine, [5, 6, 99], NoDraft())
    errors: list[Exception] = []
    while good.finish_reason is None:
        outcomes = scheduler.run_pass([good, bad] if not errors else [good])
        errors += [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert [str(error) for error in errors] == ["bad token"]
    assert good.output_ids == one.output_ids


def test_sessions_are_bounded_and_freed() -> None:
    engine = StepwiseEngine(recurrent_model("mamba"), name="mamba", max_active=1)
    first = engine.open([1, 2], 3)
    assert first is not None
    assert engine.open([1, 2], 3) is None
    first.close()
    assert engine.open([1, 2], 3) is not None
    with pytest.raises(ContextLimitExceeded):
        StepwiseEngine(recurrent_model("jamba"), name="jamba").open([1] * 250, 7)


def test_loading_a_recurrent_model_says_why_it_is_undrafted(tmp_path: Any) -> None:
    recurrent_model("mamba").save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    loaded = load_model(str(tmp_path))
    assert isinstance(loaded.engine, StepwiseEngine)
    assert loaded.self_test is None
    assert "recurrent" in loaded.undrafted


def test_other_models_are_not_recurrent() -> None:
    assert not is_recurrent(tiny_model("gemma2"))

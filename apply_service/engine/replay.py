"""The replay target: a model of a real shape with random weights that writes what is known to be right.

Every forward is really computed, so its time is that of a model that makes exactly these choices; that is all that it
is for.  Nothing that it writes is a model's opinion: it gives no log-probabilities, and the service labels its answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch

from apply_service.engine.attention import register
from apply_service.engine.loading import LoadedModel, ModelRecord, make_ready, pick_device
from apply_service.engine.memory import MemoryPlan, first_fitting, plan_memory
from apply_service.engine.replay_answers import Answers, known_ids
from apply_service.engine.replay_shapes import ReplayShape, find_shape, replay_directory
from apply_service.engine.sampling import Rows
from apply_service.engine.self_test_store import SelfTestStore
from apply_service.engine.session import TorchSession
from apply_service.engine.torch_local import DEFAULT_BUCKETS, KV_CACHE_BYTES, TorchEngine
from apply_service.engine.weights.choice import WeightsSetting, candidates, dtype_of
from apply_service.engine.weights.conversion import bring
from apply_service.protocols import Part, Session, Verification, Window


class ReplayEngine(TorchEngine):
    """A torch engine whose choices are the known answers, where there are any."""

    def __init__(self, model: Any, *, answers: Answers | None = None, **options: Any) -> None:
        super().__init__(model, known=self._known_ids, **options)
        self.answers = Answers() if answers is None else answers
        self._by_session: WeakKeyDictionary[TorchSession, Sequence[int]] = WeakKeyDictionary()

    def plain(self) -> ReplayEngine:
        """The fastest undrafted run of the same model, with the same answers."""
        options = {name: value for name, value in self._options.items() if name != "known"}
        return ReplayEngine(
            self.model,
            answers=self.answers,
            name=self.name,
            buckets=self.buckets,
            padded=False,
            pool=self.pool,
            **options,
        )

    def open(self, prompt_ids: Sequence[int], max_new_tokens: int, *, owner: str = "") -> Session | None:
        session = super().open(prompt_ids, max_new_tokens, owner=owner)
        answer = None if session is None else self.answers.find(prompt_ids)
        if answer is not None:
            self._by_session[cast(TorchSession, session)] = answer
        return session

    def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]:
        return [None if found is None else replace(found, logprobs=None) for found in super().step(parts)]

    def _known_ids(self, rows: Rows, window: Window) -> Sequence[int] | None:
        session = cast(TorchSession, window.session)
        answer = self._by_session.get(session)
        return None if answer is None else known_ids(answer, rows.position - len(session.prompt_ids), rows.n_rows)


def load_replay(
    name: str,
    *,
    device: str = "auto",
    dtype: str = "auto",
    weights: WeightsSetting = "auto",
    window: int | None = None,
    kv_cache_bytes: int = KV_CACHE_BYTES,
    prefix_cache_bytes: int = 0,
    self_tests: SelfTestStore | None = None,
    **engine_options: Any,
) -> LoadedModel:
    """What `load_model` is for other names: `name` is "replay:SHAPE".  With weights `auto` they are as the shape says.

    Raises:
        UnknownModel: no such shape. MissingDependency: the device can't have its weights. ModelTooLarge: it does not
        fit.
    """
    shape = find_shape(name)
    where = pick_device(device)
    setting = _setting(shape, weights)
    record = ModelRecord("replay", DEFAULT_BUCKETS if window is None else (window + 1,))
    room = {"kv_cache_bytes": kv_cache_bytes, "n_rows": record.buckets[-1], **engine_options}
    model, plan = _made(shape, where, dtype_of(setting, dtype, where), 0, setting, room)
    return make_ready(
        model,
        name,
        record,
        directory=replay_directory(),
        kv_cache_bytes=kv_cache_bytes,
        prefix_cache_bytes=prefix_cache_bytes,
        self_tests=self_tests,
        engine_type=ReplayEngine,
        memory=plan,
        **engine_options,
    )


def make_model(
    shape: ReplayShape,
    device: torch.device,
    dtype: torch.dtype,
    *,
    seed: int = 0,
    weights: WeightsSetting = "auto",
) -> Any:
    """A model of `shape` with random weights, made on the device itself, layer by layer; no file is read.

    Raises:
        ModelTooLarge: it does not fit. MissingDependency: the device can't have these weights.
    """
    setting = _setting(shape, weights)
    return _made(shape, device, dtype, seed, setting, {"kv_cache_bytes": 0, "n_rows": DEFAULT_BUCKETS[-1]})[0]


def _setting(shape: ReplayShape, weights: WeightsSetting) -> WeightsSetting:
    return shape.weights if weights == "auto" and shape.weights != "own" else weights


def _made(
    shape: ReplayShape,
    device: torch.device,
    dtype: torch.dtype,
    seed: int,
    weights: WeightsSetting,
    room: Mapping[str, Any],
) -> tuple[Any, MemoryPlan]:
    """The model and its plan, in which there is `room` (options of `plan_memory`) for the engine."""
    with torch.device("meta"):
        model = _of_shape(shape, dtype)
    plans = [plan_memory(model, kind, device, **room) for kind in candidates(weights, device)]
    plan = first_fitting(plans, shape.name)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        bring(model, plan.weights_format, device, fill=partial(_fill, model, device))
    model.tie_weights()
    return model.eval(), plan


def _of_shape(shape: ReplayShape, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config

    config = {"llama": LlamaConfig, "qwen2": Qwen2Config}[shape.family](
        vocab_size=shape.n_vocab,
        hidden_size=shape.d_model,
        intermediate_size=shape.d_ff,
        num_hidden_layers=shape.n_layers,
        num_attention_heads=shape.n_heads,
        num_key_value_heads=shape.n_kv_heads,
        head_dim=shape.d_head,
        tie_word_embeddings=shape.tied,
        max_position_embeddings=shape.context,
        bos_token_id=None,
        eos_token_id=None,
    )
    return AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=register())


def _fill(model: Any, device: torch.device, part: torch.nn.Module) -> None:
    """Give every module of `part` that has no memory yet some on `device`, and the library's random weights."""
    for module in part.modules():
        own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        if any(tensor.device.type == "meta" for tensor in own):
            module.to_empty(device=device, recurse=False)
            model._init_weights(module)

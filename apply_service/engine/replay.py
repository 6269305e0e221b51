"""The replay target: a model of a real shape with random weights that writes what is known to be right.

Every forward is really computed, so its time is that of a model that makes exactly these choices; that is all that it
is for.  Only the logit of the known next token is raised above all others before the choice.  Nothing that it writes is
a model's opinion: it gives no log probabilities, and the service labels its answers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch

from apply_service.engine.attention import register
from apply_service.engine.loading import LoadedModel, ModelRecord, make_ready, pick_device
from apply_service.engine.memory import MemoryPlan, first_fitting, plan_memory
from apply_service.engine.replay_shapes import ReplayShape, find_shape, replay_directory
from apply_service.engine.sampling import WindowRows
from apply_service.engine.self_test_store import SelfTestStore
from apply_service.engine.session import TorchSession
from apply_service.engine.torch_local import DEFAULT_BUCKETS, KV_CACHE_BYTES, TorchEngine
from apply_service.engine.weights import WeightsSetting, bring, candidates, dtype_of
from apply_service.protocols import Part, Session, Verification, Window

MAX_SUGGESTIONS = 1024


# -- known answers -----------------------------------------------------------------------------------------------------
class Answers:
    """Answers by prompt.  Those that a benchmark `expect`s are all kept; of those that are `suggest`ed for other
    prompts, the latest."""

    def __init__(self) -> None:
        self._expected: dict[bytes, Sequence[int]] = {}
        self._suggested: OrderedDict[bytes, Callable[[], Sequence[int]]] = OrderedDict()

    def expect(self, prompt_ids: Sequence[int], answer_ids: Sequence[int]) -> None:
        """The right output after a prompt, stop token included."""
        self._expected[_digest(prompt_ids)] = list(answer_ids)

    def forget(self, prompt_ids: Sequence[int]) -> None:
        """Expect nothing after a prompt any more."""
        self._expected.pop(_digest(prompt_ids), None)

    def suggest(self, prompt_ids: Sequence[int], make: Callable[[], Sequence[int]]) -> None:
        """An output to write after a prompt for which none is expected; made where it is needed."""
        self._suggested[_digest(prompt_ids)] = make
        if len(self._suggested) > MAX_SUGGESTIONS:
            self._suggested.popitem(last=False)

    def find(self, prompt_ids: Sequence[int]) -> Sequence[int] | None:
        """The expected answer, else the suggested one, else None."""
        digest = _digest(prompt_ids)
        if digest in self._expected:
            return self._expected[digest]
        make = self._suggested.get(digest)
        return None if make is None else list(make())


def _digest(ids: Sequence[int]) -> bytes:
    return blake2b(np.asarray(ids, dtype=np.int64).tobytes(), digest_size=16).digest()


def known_ids(answer_ids: Sequence[int], first: int, n_rows: int) -> list[int]:
    """The known tokens `first..first + n_rows` of an answer; beyond its end its last one again."""
    known = list(answer_ids[first : first + n_rows])
    return known + [answer_ids[-1]] * (n_rows - len(known))


class ReplayEngine(TorchEngine):
    """A torch engine whose choices are the known answers, where there are any."""

    def __init__(self, model: Any, *, answers: Answers | None = None, **options: Any) -> None:
        super().__init__(model, known=self._known_ids, **options)
        self.answers = Answers() if answers is None else answers
        self._by_session: WeakKeyDictionary[TorchSession, Sequence[int]] = WeakKeyDictionary()

    def plain(self) -> ReplayEngine:
        """The fastest undrafted run of the same model, with the same answers."""
        shared = {name: value for name, value in self._options.items() if name != "known"}
        shared |= {"name": self.name, "buckets": self.buckets, "pool": self.pool, "answers": self.answers}
        return ReplayEngine(self.model, padded=False, **shared)

    def open(self, prompt_ids: Sequence[int], max_new_tokens: int, *, owner: str = "") -> Session | None:
        session = super().open(prompt_ids, max_new_tokens, owner=owner)
        answer = None if session is None else self.answers.find(prompt_ids)
        if answer is not None:
            self._by_session[cast(TorchSession, session)] = answer
        return session

    def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]:
        return [None if found is None else replace(found, logprobs=None) for found in super().step(parts)]

    def _known_ids(self, rows: WindowRows, window: Window) -> Sequence[int] | None:
        session = cast(TorchSession, window.session)
        answer = self._by_session.get(session)
        return None if answer is None else known_ids(answer, rows.position - len(session.prompt_ids), rows.n_rows)


# -- making a model ----------------------------------------------------------------------------------------------------
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
    shape, where = find_shape(name), pick_device(device)
    record = ModelRecord("replay", DEFAULT_BUCKETS if window is None else (window + 1,))
    room = {"kv_cache_bytes": kv_cache_bytes, "prefix_cache_bytes": prefix_cache_bytes}
    planned = {"n_rows": record.buckets[-1], **room, **engine_options}
    model, plan = make_model(shape, where, dtype, weights=weights, room=planned)
    return make_ready(
        model,
        name,
        record,
        replay_directory(),
        room,
        engine_options,
        self_tests=self_tests,
        memory=plan,
        engine_type=ReplayEngine,
    )


def make_model(
    shape: ReplayShape,
    device: torch.device,
    dtype: str = "auto",
    *,
    seed: int = 0,
    weights: WeightsSetting = "auto",
    room: Mapping[str, Any] | None = None,
) -> tuple[Any, MemoryPlan]:
    """A model of `shape` with random weights, made on the device itself, layer by layer, and the plan of its memory
    with `room` (options of `plan_memory`) for an engine; no file is read.

    Raises:
        ModelTooLarge: it does not fit. MissingDependency: the device can't have these weights.
    """
    setting = shape.weights if weights == "auto" and shape.weights != "own" else weights
    room = {"kv_cache_bytes": 0, "n_rows": DEFAULT_BUCKETS[-1]} if room is None else room
    with torch.device("meta"):
        model = model_of_shape(shape, dtype_of(setting, dtype, device))
    plan = first_fitting([plan_memory(model, kind, device, **room) for kind in candidates(setting, device)], shape.name)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        bring(model, plan.weights_format, device, fill=partial(_fill, model, device))
    model.tie_weights()
    return model.eval(), plan


def model_of_shape(shape: ReplayShape, dtype: torch.dtype) -> Any:
    """A model of `shape` on the current device, with the library's initial weights."""
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

"""The replay target: a model of a real shape with random weights that writes what is known to be right.

Every forward is really computed, so its time is that of a model that makes exactly these choices; that is all that it
is for.  Nothing that it writes is a model's opinion: it gives no log-probabilities, and the service labels its answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch

from apply_service.engine.attention import register
from apply_service.engine.loading import LoadedModel, ModelRecord, make_ready, pick_device, pick_dtype
from apply_service.engine.replay_answers import Answers, known_ids, raise_known
from apply_service.engine.replay_shapes import ReplayShape, find_shape, replay_directory
from apply_service.engine.sampling import Rows, choose
from apply_service.engine.self_test_store import SelfTestStore
from apply_service.engine.session import TorchSession
from apply_service.engine.torch_local import DEFAULT_BUCKETS, KV_CACHE_BYTES, TorchEngine
from apply_service.errors import ModelNotLoadable
from apply_service.protocols import Part, Session, Verification, Window


class ReplayEngine(TorchEngine):
    """A torch engine whose choices are the known answers, where there are any."""

    def __init__(self, model: Any, *, answers: Answers | None = None, **options: Any) -> None:
        super().__init__(model, chooser=self._choose_known, **options)
        self.answers = Answers() if answers is None else answers
        self._by_session: WeakKeyDictionary[TorchSession, Sequence[int]] = WeakKeyDictionary()

    def plain(self) -> ReplayEngine:
        """The fastest undrafted run of the same model, with the same answers."""
        return ReplayEngine(
            self.model, answers=self.answers, name=self.name, buckets=self.buckets, padded=False, pool=self.pool
        )

    def open(self, prompt_ids: Sequence[int], max_new_tokens: int, *, owner: str = "") -> Session | None:
        session = super().open(prompt_ids, max_new_tokens, owner=owner)
        answer = None if session is None else self.answers.find(prompt_ids)
        if answer is not None:
            self._by_session[cast(TorchSession, session)] = answer
        return session

    def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]:
        return [None if found is None else replace(found, logprobs=None) for found in super().step(parts)]

    def _choose_known(self, logits: torch.Tensor, rows: Sequence[Rows], windows: Sequence[Window]) -> torch.Tensor:
        places: list[int] = []
        ids: list[int] = []
        for here, window in zip(rows, windows, strict=True):
            session = cast(TorchSession, window.session)
            answer = self._by_session.get(session)
            if answer is not None:
                places += range(here.first, here.first + here.n_rows)
                ids += known_ids(answer, here.position - len(session.prompt_ids), here.n_rows)
        if places:
            raise_known(logits, places, ids)
        return choose(logits, rows)


def load_replay(
    name: str,
    *,
    device: str = "auto",
    dtype: str = "auto",
    window: int | None = None,
    kv_cache_bytes: int = KV_CACHE_BYTES,
    prefix_cache_bytes: int = 0,
    self_tests: SelfTestStore | None = None,
) -> LoadedModel:
    """What `load_model` is for other names: `name` is "replay:SHAPE".

    Raises:
        UnknownModel: no such shape. ModelNotLoadable: see `make_model`.
    """
    shape = find_shape(name)
    where = pick_device(device)
    return make_ready(
        make_model(shape, where, pick_dtype(dtype, where)),
        name,
        ModelRecord("replay", DEFAULT_BUCKETS if window is None else (window + 1,)),
        directory=replay_directory(),
        kv_cache_bytes=kv_cache_bytes,
        prefix_cache_bytes=prefix_cache_bytes,
        self_tests=self_tests,
        engine_type=ReplayEngine,
    )


def make_model(shape: ReplayShape, device: torch.device, dtype: torch.dtype, *, seed: int = 0) -> Any:
    """A model of `shape` with random weights, made on the device itself; no file is read.

    Raises:
        ModelNotLoadable: the shape's weights are of a kind that is not supported, or do not fit.
    """
    from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config

    if shape.weights != "own":
        raise ModelNotLoadable(
            f"{shape.weights} weights are not supported yet",
            value=shape.name,
            limit="float32, bfloat16",
            remedy="use the shape without them",
        )
    _refuse_too_large(shape, device, dtype)
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
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), device:
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=register())
    return model.eval()


def _refuse_too_large(shape: ReplayShape, device: torch.device, dtype: torch.dtype) -> None:
    needed, free = shape.n_params * dtype.itemsize, free_bytes(device)
    if needed > free:
        raise ModelNotLoadable(
            "the weights do not fit into free memory",
            value=f"{needed / 1e9:.1f} GB",
            limit=f"{free / 1e9:.1f} GB",
            remedy="use a smaller shape, bfloat16, or a larger device",
        )


def free_bytes(device: torch.device) -> float:
    """Memory that is free on a device now; infinite where the system doesn't say."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").split("\n")
    except OSError:
        return float("inf")
    found = next((line.split()[1] for line in lines if line.startswith("MemAvailable")), None)
    return float("inf") if found is None else 1024.0 * float(found)

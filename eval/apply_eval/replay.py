"""The replay target (`--target replay:SHAPE`): a model of a real shape with random weights that writes what is known.

Every forward is really computed, so its time is that of a model that makes exactly these choices; that is all that it
is for.  Only the logit of the known next token is raised above all others before the choice.  Nothing that it writes is
a model's opinion: it gives no log probabilities.  The shapes are sizes of published models, and tiny ones for a CPU.
"""

from __future__ import annotations

import lzma
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
from tokenizers import Tokenizer

from apply_eval.arguments import REPLAY
from apply_service.deadline import Deadline
from apply_service.engine.attention import register
from apply_service.engine.loading import LoadedModel, make_ready, most_rows, pick_device
from apply_service.engine.memory import MemoryPlan, plan_memory, refuse_plan
from apply_service.engine.record import ModelRecord
from apply_service.engine.torch_local import DEFAULT_BUCKETS, KV_CACHE_BYTES, TorchEngine
from apply_service.engine.weights import Weights, bring, dtype_of, refuse_format
from apply_service.errors import Truncated, UnknownModel
from apply_service.prompts.tokenizer import ContentTokenizer, IncrementalDecoder, lines_of_tokens, text_sources
from apply_service.protocols import (
    Constraint,
    DraftSources,
    EditJob,
    Part,
    Session,
    StopFinder,
    TextStream,
    Verification,
    Window,
)
from apply_service.settings import Settings
from apply_service.target import Candidate, Scoring, Target
from apply_service.types import ApplyRequest

FILES = Path(__file__).parent / "fixtures" / "replay"
SHAPES_FILE, TOKENIZER_FILE = "shapes.toml", "tokenizer.json.xz"


# -- shapes ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ReplayShape:
    """Everything that the time of a forward depends on.  `weights` is the number format of the linear layers where it
    is not the model's own."""

    name: str
    family: Literal["llama", "qwen2"]
    n_vocab: int
    d_model: int
    d_ff: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_head: int
    tied: bool
    context: int
    source: str
    weights: Literal["own", "fp8"] = "own"
    published_params: float | None = None

    @property
    def n_params(self) -> int:
        """Weights in all, embeddings included."""
        d_query, d_kv = self.n_heads * self.d_head, self.n_kv_heads * self.d_head
        biases = d_query + 2 * d_kv if self.family == "qwen2" else 0
        attention = self.d_model * (2 * d_query + 2 * d_kv) + biases
        layer = attention + 3 * self.d_model * self.d_ff + 2 * self.d_model
        embeddings = self.n_vocab * self.d_model * (1 if self.tied else 2)
        return embeddings + self.n_layers * layer + self.d_model


@cache
def read_shapes() -> Mapping[str, ReplayShape]:
    """All shapes by name, in the order of the file."""
    table: dict[str, dict[str, Any]] = tomllib.loads((FILES / SHAPES_FILE).read_text(encoding="utf-8"))
    return {name: ReplayShape(name, **values) for name, values in table.items()}


def find_shape(model: str) -> ReplayShape:
    """The shape that `model` ("replay:NAME") names.  Raises UnknownModel: no such shape."""
    shapes = read_shapes()
    name = model.removeprefix(REPLAY)
    if name not in shapes:
        limit = [REPLAY + known for known in shapes]
        raise UnknownModel("no such shape to replay", value=model, limit=limit, remedy="name one of these")
    return shapes[name]


# -- known answers -----------------------------------------------------------------------------------------------------
class Answers:
    """Answers by prompt."""

    def __init__(self) -> None:
        self._known: dict[bytes, Callable[[], Sequence[int]]] = {}

    def expect(self, prompt_ids: Sequence[int], answer_ids: Sequence[int]) -> None:
        """The right output after a prompt, stop token included."""
        answer = list(answer_ids)
        self._known[_digest(prompt_ids)] = lambda: answer

    def suggest(self, prompt_ids: Sequence[int], make: Callable[[], Sequence[int]]) -> None:
        """An output to write after a prompt for which none is known; made where it is needed."""
        self._known.setdefault(_digest(prompt_ids), make)

    def find(self, prompt_ids: Sequence[int]) -> Sequence[int] | None:
        make = self._known.get(_digest(prompt_ids))
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
        self._by_session: WeakKeyDictionary[Session, Sequence[int]] = WeakKeyDictionary()

    def plain(self) -> ReplayEngine:
        """The fastest undrafted run of the same model, with the same answers."""
        shared = {name: value for name, value in self._options.items() if name != "known"}
        shared |= {"name": self.name, "buckets": self.buckets, "pool": self.pool, "answers": self.answers}
        return ReplayEngine(self.model, padded=False, **shared)

    def open(self, prompt_ids: Sequence[int], max_new_tokens: int, *, owner: str = "") -> Session | None:
        session = super().open(prompt_ids, max_new_tokens, owner=owner)
        answer = None if session is None else self.answers.find(prompt_ids)
        if answer is not None:
            self._by_session[cast(Session, session)] = answer
        return session

    def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]:
        return [None if found is None else replace(found, logprobs=None) for found in super().step(parts)]

    def _known_ids(self, window: Window) -> Sequence[int] | None:
        session = window.session
        n_written = session.length + session.n_pending + 1 - len(session.prompt_ids)
        answer = self._by_session.get(session)
        return None if answer is None else known_ids(answer, n_written, 1 + len(window.draft_ids))


# -- making a model ----------------------------------------------------------------------------------------------------
def load_replay(
    name: str,
    *,
    device: str = "auto",
    dtype: str = "auto",
    weights: Weights = "own",
    window: int | None = None,
    kv_cache_bytes: int = KV_CACHE_BYTES,
    prefix_cache_bytes: int = 0,
    self_tests: Path | None = None,
    **engine_options: Any,
) -> LoadedModel:
    """What `load_model` is for models: `name` is "replay:SHAPE".  Weights `own` are as the shape says.
    Raises UnknownModel: no such shape. MissingDependency: the device can't have its weights. ModelTooLarge: it does not
    fit."""
    shape, where = find_shape(name), pick_device(device)
    room = {"kv_cache_bytes": kv_cache_bytes, "prefix_cache_bytes": prefix_cache_bytes}
    planned = {"n_rows": most_rows(window), **room, **engine_options}
    model, plan = make_model(shape, where, dtype, weights=weights, room=planned)
    engine, found = make_ready(
        model, name, room, engine_options, window=window, self_tests=self_tests, engine_type=ReplayEngine
    )
    return LoadedModel(engine, FILES, ModelRecord(), found, plan)


def make_model(
    shape: ReplayShape,
    device: torch.device,
    dtype: str = "auto",
    *,
    seed: int = 0,
    weights: Weights = "own",
    room: Mapping[str, Any] | None = None,
) -> tuple[Any, MemoryPlan]:
    """A model of `shape` with random weights, made on the device itself, layer by layer, and the plan of its memory
    with `room` (options of `plan_memory`) for an engine; no file is read.  Raises ModelTooLarge: it does not fit.
    MissingDependency: the device can't have these weights."""
    weights = shape.weights if weights == "own" else weights
    refuse_format(weights, device)
    with torch.device("meta"):
        model = model_of_shape(shape, dtype_of(dtype, device))
    plan = plan_memory(model, weights, device, **room or {"kv_cache_bytes": 0, "n_rows": DEFAULT_BUCKETS[-1]})
    refuse_plan(plan, shape.name)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        bring(model, weights, device, fill=partial(_fill, model, device))
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


# -- prompts -----------------------------------------------------------------------------------------------------------
CONTROL_TOKENS = ("<|rules|>", "<|original|>", "<|update|>", "<|instruction|>", "<|merged|>", "<|end|>")
RULES = """Write the file that results from the edit, whole and without remarks. Placeholder comments in the edit stand
for lines that stay as they are; copy those lines exactly. Keep order, indentation and comments."""


class Replay:
    """`PromptFormat`: the original, then the update, in; the whole merged file out.

    Shaped like the prompts of published apply models (rules, the file, the edit, the rewritten file), so that prompt
    and output are as long as theirs.  Between the parts are control tokens, which no file text can become.
    """

    name = "replay"
    takes_instructions = False
    constrains_by_default = False

    def __init__(self, answers: Answers | None = None, *, tokenizer_json: str | None = None) -> None:
        """`answers`: gets the predicted merge of each prompt as a suggestion."""
        self._answers = Answers() if answers is None else answers
        if tokenizer_json is None:
            tokenizer_json = lzma.decompress((FILES / TOKENIZER_FILE).read_bytes()).decode()
        self._content = ContentTokenizer(tokenizer_json)
        vocabulary: dict[str, int] = Tokenizer.from_str(tokenizer_json).get_vocab()
        self._controls = {name: vocabulary[name] for name in CONTROL_TOKENS}
        self.end_id = self._controls["<|end|>"]
        self.stop_ids = frozenset({self.end_id})
        self.n_vocab = len(vocabulary)

    def encode_prompt(self, job: EditJob) -> list[int]:
        parts = {"<|rules|>": RULES, "<|original|>": job.original, "<|update|>": job.update}
        if job.instruction:
            parts["<|instruction|>"] = job.instruction
        ids: list[int] = []
        for control, text in parts.items():
            ids += [self._controls[control], *self._content.encode(text).ids]
        ids.append(self._controls["<|merged|>"])
        self._answers.suggest(ids, lambda: self.encode_output(job.prediction.text))
        return ids

    def encode_output(self, text: str) -> list[int]:
        """The output that writes `text` (LF line ends), end token included: the known answer of a replay."""
        return [*self._content.encode(text).ids, self.end_id]

    def encode_sources(self, job: EditJob) -> DraftSources:
        return text_sources(job, self._content, before="", after="", end_id=self.end_id)

    def decode(self, ids: Sequence[int]) -> str:
        return self._content.decode([token for token in ids if token != self.end_id])

    def decode_output(self, ids: Sequence[int]) -> str:
        if not ids or ids[-1] != self.end_id:
            raise Truncated("the output lacks its end token", remedy="allow more tokens")
        return self.decode(ids)

    def open_stream(self) -> TextStream:
        return IncrementalDecoder(self.decode)

    def lines_of(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        return lines_of_tokens(ids, self.decode)

    def stop_finder(self, job: EditJob) -> StopFinder | None:  # noqa: ARG002
        return None

    def constraint(self, job: EditJob) -> Constraint | None:  # noqa: ARG002
        return None


# -- targets -----------------------------------------------------------------------------------------------------------
class ReplayTarget(Target):
    """A target that has no opinion of any text."""

    def score(
        self,
        candidates: Sequence[Candidate],  # noqa: ARG002
        request: ApplyRequest,  # noqa: ARG002
        deadline: Deadline,  # noqa: ARG002
    ) -> Scoring:
        yield from ()
        return None


def open_replay(name: str, settings: Settings) -> ReplayTarget:
    """Make the target "replay:SHAPE".  Raises as `load_replay`."""
    loaded = load_replay(
        name,
        device=settings.device,
        dtype=settings.dtype,
        weights=cast(Weights, settings.weights),
        window=settings.window,
        kv_cache_bytes=settings.kv_cache_mb * 2**20,
        prefix_cache_bytes=settings.prefix_cache_mb * 2**20,
        self_tests=settings.state_path / "self-tests",
    )
    engine = cast(ReplayEngine, loaded.engine)
    return ReplayTarget(name, engine, Replay(engine.answers))

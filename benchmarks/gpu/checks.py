"""The first piece of `benchmarks.gpu`: is it right at all?  Kernels against oracles at fresh random inputs, and drafted
decoding against undrafted on a model's own choices, none of them known beforehand.  Run group by group.

Each check says what it found, what it allows, and whether that holds; one that can't run here says why.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from apply_eval.arguments import REPLAY
from apply_eval.replay import load_replay
from apply_service.decoding.verify import Decoding
from apply_service.drafting.drafter import NoDraft
from apply_service.drafting.written import HeadDrafter
from apply_service.engine.attention import register
from apply_service.engine.eight_bit import LEAST_SCALE, LIMITS, EightBitLinear, Format, ScaledRows, quantise_rows
from apply_service.engine.heads.eagle3 import Eagle3
from apply_service.engine.heads.medusa import Medusa
from apply_service.engine.heads.self_speculation import SelfSpeculation
from apply_service.engine.torch_local import TorchEngine
from apply_service.engine.weights import Weights
from apply_service.errors import ApplyError
from apply_service.protocols import Draft, DraftContext, Drafter, DraftHead, Prefill, SamplingParams, Session, Window
from benchmarks.decoding.contenders import wait_for_device, write_outputs
from benchmarks.gpu.pieces import failure_of
from training.heads import config_of

MATRICES = ((8_192, 10_240), (8_192, 57_344), (28_672, 8_192), (3_584, 18_944))
"""Columns and rows of joined queries, keys and values of 70B, joined gate and up, its down projection; gate of 7B."""
TINY_MATRICES = ((96, 64), (256, 320))
ROW_COUNTS = (1, 3, 17, 64, 256, 300)
ROUNDING = {"fp8": 0.075, "int8": 0.015}
"""Largest error of a result's norm against float32: rounding of weights and activations to 3 bits of fraction (4%) or
one to 127 steps, rounding to bfloat16, and in fp8 Hopper's fast accumulation, which keeps some 14 bits."""
LEAST_GROUP_S = 90.0
"""With less than this left no group of checks is begun."""
LOST = "its process did not come back: it broke, or it took too long"


class Check(NamedTuple):
    """`worst` is compared with `limit`; `n` things were looked at.  `is_ok` None: it could not run, `note` says why."""

    name: str
    is_ok: bool | None
    worst: float | None = None
    limit: float | None = None
    n: int = 0
    note: str = ""


Group = Callable[[], Iterable[Check]]


def run_checks(
    groups: Mapping[str, Group],
    found: dict[str, Any],
    stop_s: float,
    *,
    save: Callable[[], None],
    log: Callable[[str], None],
) -> bool:
    """Go on with the checks in `found`, group by group, until `stop_s`; whether all are done.

    A group that an earlier process began and did not end is told as failed and not tried again.

    Raises:
        Exception: the device is broken by a group, which is told; another process can go on with the others.
    """
    states: dict[str, str] = found.setdefault("groups", {})
    found.setdefault("checks", [])
    for name, run in groups.items():
        if states.get(name) == "done":
            continue
        if time.monotonic() > stop_s - LEAST_GROUP_S:
            return False
        is_lost = name in states
        states[name] = "begun"
        save()
        for check in [Check(name, False, note=LOST)] if is_lost else _guarded(name, run, found["failures"]):
            log(f"{check.name}: {'ok' if check.is_ok else check.note or check.worst}")
            found["checks"].append(check._asdict())
        states[name] = "done"
        save()
        wait_for_device()
    return True


def _guarded(name: str, run: Group, failures: list[dict[str, Any]]) -> Iterator[Check]:
    """What cannot run here is told; what breaks is a failed check, and the others go on."""
    try:
        yield from run()
    except ApplyError as error:
        yield Check(name, None, note=f"{error.code}: {error.message}")
    except Exception as error:  # a check is there to find them
        failures.append(failure_of(error, name))
        yield Check(name, False, note=f"{type(error).__name__}: {str(error)[:300]}")


def worst_of(name: str, errors: Iterable[tuple[float, str]], limit: float, n: int) -> Check:
    """The largest error decides, and the note says where it was; NaN is worse than anything."""
    error, where = max(errors, key=lambda one: (math.isnan(one[0]), one[0]))
    return Check(name, error <= limit, error, limit, n, where)


# -- weights -----------------------------------------------------------------------------------------------------------
@torch.inference_mode()
def check_matrices(device: torch.device, number_format: Format, *, seed: int) -> Iterator[Check]:
    """Linear layers in 8 bits against float32."""
    generator = torch.Generator(device).manual_seed(seed)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    errors = []
    for n_in, n_out in MATRICES if device.type == "cuda" else TINY_MATRICES:
        linear = torch.nn.Linear(n_in, n_out, bias=False, device=device, dtype=dtype)
        linear.weight.normal_(0, 0.02, generator=generator)
        small: Any = EightBitLinear(linear, number_format)
        x = torch.randn(max(ROW_COUNTS), n_in, device=device, generator=generator).to(dtype)
        wanted = x.float() @ linear.weight.float().T
        for n in ROW_COUNTS:
            found = small(x[:n]).float()
            error = float((found - wanted[:n]).norm() / wanted[:n].norm())
            errors.append(
                (error, f"{n} rows of {n_in} times {n_out}, scales {getattr(small, 'way', None) or 'by row'}")
            )
    yield worst_of(f"{number_format} matrices against float32", errors, ROUNDING[number_format], len(errors))


@torch.inference_mode()
def check_rows(device: torch.device, *, seed: int) -> Iterator[Check]:
    """The kernel that makes fp8 rows of activations against the same in torch, in every bit."""
    generator = torch.Generator(device).manual_seed(seed)
    errors = []
    sizes = ((1, 8_192), (256, 28_672), (37, 3_584), (5, 100)) if device.type == "cuda" else ((7, 300),)
    for n_rows, n_columns in sizes:
        x = torch.randn(n_rows, n_columns, device=device, generator=generator).bfloat16()
        x[0, : n_columns // 2] *= 1e-4
        found = wanted = quantise_rows(x, "fp8")
        if x.is_cuda:
            from apply_service.engine.triton_kernels import quantise_rows_fp8

            found = ScaledRows(*quantise_rows_fp8(x, LIMITS["fp8"], LEAST_SCALE))
        pairs = ((found.values.float(), wanted.values.float()), (found.scales, wanted.scales))
        errors += [(float((a != b).float().mean()), f"{n_rows} rows of {n_columns}") for a, b in pairs]
    yield worst_of("fp8 rows: share of other bits than torch's", errors, 0.0, len(sizes))


CONTEXT = 2_048
ALLOWED = 1.5
"""Errors of the kernel over those of PyTorch's own attention in the same number format, both against float32."""
LEAST_ERROR = 2e-3
"""Errors below this are as good as none."""
DIVERGENCES = 0.2
"""Of the tokens of a model whose kernels are tolerant: near ties that come out the other way in another pass.  A random
model has many: bfloat16 alone flips some 5% of the choices of float32, fp8 12%.  What is wrong flips nearly all."""

Plan = list[tuple[list[int], list[int]]]  # of every sequence the prompt and the tokens of its window


# -- attention ---------------------------------------------------------------------------------------------------------
def check_attention(device: torch.device, dtype: torch.dtype, *, seed: int) -> Iterator[Check]:
    """The check of one number format; raises MissingDependency where the kernel can't run."""
    rng = random.Random(seed)
    errors, n = [], 0
    for group in range(1, 9) if device.type == "cuda" else (3,):
        model = _model(group, device, dtype)
        exact = _model(group, device, torch.float32)
        exact.load_state_dict({name: value.float() for name, value in model.state_dict().items()})
        longest = CONTEXT if device.type == "cuda" else 90
        between = [(rng.randrange(3, longest - 60), rng.randint(1, 60)) for _ in range(3)]
        lengths = [(1, 5), (2, 1), (longest - 40, 40), *between]
        plan = [([rng.randrange(512) for _ in range(n)], [rng.randrange(512) for _ in range(m)]) for n, m in lengths]
        wanted = _keys_and_values(exact, "sdpa", plan)
        usual = max(_errors(_keys_and_values(model, "sdpa", plan), wanted))
        for i, found in enumerate(_errors(_keys_and_values(model, "triton", plan), wanted)):
            where = f"group {group}, sequence of {sum(map(len, plan[i // 2]))} tokens: {found:.2g} against {usual:.2g}"
            errors.append((found / max(usual, LEAST_ERROR), where))
        n += len(plan)
    name = f"attention kernel, {str(dtype).removeprefix('torch.')}: error over that of PyTorch's, both against float32"
    yield worst_of(name, errors, ALLOWED, n)


def _model(group: int, device: torch.device, dtype: torch.dtype) -> Any:
    """Two layers of random weights so large that attention decides what comes out."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(
        vocab_size=512,
        hidden_size=64 * group,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2 * group,
        num_key_value_heads=2,
        head_dim=128 if device.type == "cuda" else 16,
        max_position_embeddings=CONTEXT,
        initializer_range=0.1,
    )
    torch.manual_seed(group)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=register())
    return model.to(device).eval()


def _keys_and_values(model: Any, attention: str, plan: Plan) -> list[torch.Tensor]:
    """Of the last layer, which has read what attention made in the one before: of every sequence, float32 on the CPU.
    Windows are accepted whole: masks leave one token at every place."""
    options: dict[str, Any] = {"attention": attention, "cuda_graphs": "off"}
    engine = TorchEngine(model, name=attention, buckets=(64, 256), kv_cache_bytes=2**26, **options)
    with ExitStack() as stack:
        sessions = [cast(Session, engine.open(prompt, len(new))) for prompt, new in plan]
        for session in sessions:
            stack.enter_context(session)
        while reading := [session for session in sessions if session.n_pending]:
            share = max(1, engine.buckets[-1] // len(reading))
            engine.step([Prefill(session, min(session.n_pending, share)) for session in reading])
        windows = [
            Window(session, new[0], new[1:], SamplingParams(), [np.array([token]) for token in [*new[1:], 0]])
            for session, (_, new) in zip(sessions, plan, strict=True)
        ]
        for first in range(0, len(windows), 3):
            engine.step(windows[first : first + 3])
        return [
            pool[:, session.slots.start : session.slots.start + session.length].float().cpu().clone()
            for session in sessions
            for pool in (engine.pool.keys[-1], engine.pool.values[-1])
        ]


def _errors(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> list[float]:
    return [float((a - b).norm() / b.norm()) for a, b in zip(found, wanted, strict=True)]


# -- decoding ----------------------------------------------------------------------------------------------------------
class KnownDraft(NoDraft):
    """Drafts `ids`, with every `period`th token wrong."""

    def __init__(self, ids: Sequence[int], period: int) -> None:
        self._ids = list(ids)
        self._period = period

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        first = len(output_ids)
        ids = self._ids[first : first + max(0, limit)]
        return Draft([token ^ ((first + i) % self._period == self._period - 1) for i, token in enumerate(ids)], 0.99)


def check_decoding(name: str, shape: str, device: torch.device, weights: Weights, seed: int) -> Iterator[Check]:
    """Drafted against undrafted, unpadded against padded, captured against eager."""
    window = None if device.type == "cuda" else 31  # one bucket: its self-test takes seconds
    given: dict[str, Any] = {"device": device.type, "weights": weights, "window": window, "kv_cache_bytes": 2**30}
    engine = load_replay(REPLAY + shape, **given).engine
    assert isinstance(engine, TorchEngine)
    rng = random.Random(seed)
    n_prompts, longest = (16, 1_200) if engine.device.type == "cuda" else (3, 40)
    n_vocab = engine.model.config.get_text_config().vocab_size
    prompts = [[rng.randrange(n_vocab) for _ in range(rng.randrange(2, longest))] for _ in range(n_prompts)]
    nothing = [NoDraft() for _ in prompts]
    undrafted = decode(engine, prompts, nothing)
    drafts = [KnownDraft(ids, (1, 3, 11, 40)[i % 4]) for i, ids in enumerate(undrafted)]
    limit = 0.0 if engine.determinism == "bitwise" else DIVERGENCES
    note = f"self-test: {engine.determinism}"
    yield compared(f"{name}: drafted against undrafted", undrafted, decode(engine, prompts, drafts), limit, note)
    unpadded = decode(engine.plain(), prompts, nothing)
    yield compared(f"{name}: unpadded against padded", undrafted, unpadded, DIVERGENCES, "the baseline, another shape")
    if engine.has_graphs:
        eager = load_replay(REPLAY + shape, **given, cuda_graphs="off").engine
        found = decode(eager, prompts, nothing)
        yield compared(f"{name}: captured against eager passes", undrafted, found, limit, note)
    for head in random_heads(engine, seed):
        drafters = [HeadDrafter(DraftContext(cast(Any, None), prompt, head=head)) for prompt in prompts]
        found = decode(engine, prompts, drafters)
        yield compared(f"{name}: {head.name}, random weights", undrafted, found, limit, note)


def random_heads(engine: TorchEngine, seed: int) -> Iterator[DraftHead]:
    """Yield one of each kind that needs no files of the model; each has its states kept until the next."""
    torch.manual_seed(seed)
    yield SelfSpeculation(engine)
    for kind in ("eagle3", "p-eagle"):
        eagle = Eagle3(engine, config_of(engine.model.config.get_text_config(), kind, engine.n_vocab, 4))
        eagle.name = kind
        eagle.install()
        yield eagle
    medusa = Medusa(engine, 3)
    medusa.install()
    yield medusa


def decode(engine: Any, prompts: Sequence[Sequence[int]], drafters: Sequence[Drafter]) -> list[list[int]]:
    """Greedy outputs of 128 tokens (fewer on a CPU), all prompts in shared passes."""
    n_new = 128 if engine.device.type == "cuda" else 10
    with ExitStack() as stack:
        decodings = [
            stack.enter_context(Decoding(engine, list(prompt), drafter, n_new, frozenset()))
            for prompt, drafter in zip(prompts, drafters, strict=True)
        ]
        write_outputs(decodings)
        return [decoding.output_ids for decoding in decodings]


def compared(
    name: str, wanted: Sequence[Sequence[int]], found: Sequence[Sequence[int]], limit: float, note: str
) -> Check:
    """First differences over tokens compared: what follows a difference is another text."""
    firsts, n_compared = [], 0
    for i, (a, b) in enumerate(zip(wanted, found, strict=True)):
        at = next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        n_compared += min(at + 1, len(a))
        if at < len(a):
            firsts.append(f"output {i} at token {at}: {list(b[at : at + 1])} for {a[at]}")
    rate = len(firsts) / max(1, n_compared)
    told = "; ".join([f"{len(firsts)} of {len(wanted)} outputs", note, *firsts[:3]])
    return Check(name, rate <= limit, rate, limit, n_compared, told)

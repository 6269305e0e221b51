"""The first piece of `benchmarks.bench_gpu`: is it right at all?  Kernels against oracles at fresh random inputs, and
drafted decoding against undrafted on a model's own choices, none of them known beforehand.

Each check says what it found, what it allows, and whether that holds; one that can't run here says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from apply_service.decoding.scheduler import Scheduler
from apply_service.decoding.verify import Decoding
from apply_service.drafting.none import NoDraft
from apply_service.engine.replay import load_replay
from apply_service.engine.replay_shapes import PREFIX
from apply_service.engine.torch_local import TorchEngine
from apply_service.engine.weights.choice import WeightsSetting
from apply_service.engine.weights.linear import in_eight_bits, quantise_activations
from apply_service.engine.weights.rows import Format, quantise_rows
from apply_service.errors import ApplyError
from apply_service.protocols import Draft, Drafter
from benchmarks.bench_gpu_attention import check_attention

MATRICES = ((8_192, 10_240), (28_672, 8_192), (3_584, 18_944))
"""Columns and rows of joined queries, keys and values of 70B, its down projection, and gate of 7B."""
TINY_MATRICES = ((96, 64), (256, 320))
ROW_COUNTS = (1, 3, 17, 64, 256, 300)
ROUNDING = {"fp8": 0.05, "int8": 0.015}
"""Largest error of a result's norm against float32: two roundings to 3 bits of fraction, or one to 127 steps."""
ARITHMETIC = 0.01
"""The same against exact sums over the very numbers in 8 bits: rounding to bfloat16, and Hopper's fast accumulation."""
DIVERGENCES = 0.02
"""Of the tokens of a model whose kernels are tolerant: near ties that come out the other way in another pass."""
N_PROMPTS, N_NEW = 16, 128


@dataclass(frozen=True, slots=True)
class Check:
    """`worst` is compared with `limit`; `n` things were looked at.  `is_ok` None: it could not run, `note` says why."""

    name: str
    is_ok: bool | None
    worst: float | None = None
    limit: float | None = None
    n: int = 0
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def checks(device: torch.device, shape: str, *, seed: int) -> Iterator[Check]:
    """All of them; `shape` is decoded with."""
    yield from _guarded("attention", lambda: [Check(**found) for found in check_attention(device, seed=seed)])
    for number_format in ("fp8", "int8"):
        yield from _guarded(f"{number_format} matrices", lambda f=number_format: check_matrices(device, f, seed=seed))
    yield from _guarded("fp8 rows", lambda: [check_rows(device, seed=seed)])
    formats: tuple[WeightsSetting, ...] = ("bf16", "fp8") if device.type == "cuda" else ("auto", "fp8")
    for weights in formats:
        name = f"decoding, {shape} {weights}"
        yield from _guarded(name, lambda w=weights, n=name: check_decoding(n, shape, device, w, seed=seed))


def _guarded(name: str, run: Callable[..., Sequence[Check]]) -> Iterator[Check]:
    """What cannot run here is told; what breaks is a failed check, and the others go on."""
    try:
        yield from run()
    except ApplyError as error:
        yield Check(name, None, note=f"{error.code}: {error.message}")
    except Exception as error:  # a check is there to find them
        yield Check(name, False, note=f"{type(error).__name__}: {str(error)[:300]}")


# -- weights -----------------------------------------------------------------------------------------------------------
@torch.inference_mode()
def check_matrices(device: torch.device, number_format: Format, *, seed: int) -> list[Check]:
    """Linear layers in 8 bits against float32, and against exact sums over the same 8-bit numbers; and whether a row is
    the same in every bit whatever number of rows goes with it, which is told and not demanded."""
    generator = torch.Generator(device).manual_seed(seed)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    rounding, arithmetic, differing, n = 0.0, 0.0, 0, 0
    for n_in, n_out in MATRICES if device.type == "cuda" else TINY_MATRICES:
        linear = torch.nn.Linear(n_in, n_out, bias=False, device=device, dtype=dtype)
        linear.weight.normal_(0, 0.02, generator=generator)
        small = in_eight_bits(linear, number_format)
        x = torch.randn(max(ROW_COUNTS), n_in, device=device, generator=generator).to(dtype)
        alone = small(x[:1])
        for n_rows in ROW_COUNTS:
            found = small(x[:n_rows]).float()
            rounding = max(rounding, _error(found, x[:n_rows].float() @ linear.weight.float().T))
            arithmetic = max(arithmetic, _error(found, _exact(x[:n_rows], small, number_format)))
            differing += not torch.equal(found[:1], alone.float())
            n += 1
    name = f"{number_format} matrices"
    return [
        Check(f"{name} against float32", rounding <= ROUNDING[number_format], rounding, ROUNDING[number_format], n),
        Check(f"{name} against exact sums of the same numbers", arithmetic <= ARITHMETIC, arithmetic, ARITHMETIC, n),
        Check(f"{name}: row counts whose first row has other bits", True, float(differing), None, n, "told only"),
    ]


def _exact(x: torch.Tensor, small: Any, number_format: Format) -> torch.Tensor:
    """Sums in float32 of the very products that the layer adds."""
    weights: torch.Tensor = small.values.float()
    scales: torch.Tensor = small.scales.T
    if number_format == "int8":
        return x.float() @ weights.T * scales
    rows = quantise_rows(x, "fp8")
    return rows.values.float() @ weights.T * rows.scales * scales


def _error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found - wanted).norm() / wanted.norm())


def check_rows(device: torch.device, *, seed: int) -> Check:
    """The kernel that makes fp8 rows of activations against the same in torch, in every bit."""
    generator = torch.Generator(device).manual_seed(seed)
    worst = 0.0
    sizes = ((1, 8_192), (256, 28_672), (37, 3_584), (5, 100)) if device.type == "cuda" else ((7, 300),)
    for n_rows, n_columns in sizes:
        x = torch.randn(n_rows, n_columns, device=device, generator=generator).bfloat16()
        x[0, : n_columns // 2] *= 1e-4
        found, wanted = quantise_activations(x), quantise_rows(x, "fp8")
        worst = max(worst, float((found.values.float() != wanted.values.float()).float().mean()))
        worst = max(worst, float((found.scales != wanted.scales).float().mean()))
    return Check("fp8 rows: share of other bits than torch's", worst == 0, worst, 0.0, len(sizes))


# -- decoding ----------------------------------------------------------------------------------------------------------
class KnownDraft:
    """Drafts `ids`, with every `period`th token wrong."""

    def __init__(self, ids: Sequence[int], period: int) -> None:
        self._ids = list(ids)
        self._period = period

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        first = len(output_ids)
        ids = self._ids[first : first + max(0, limit)]
        return Draft([token ^ ((first + i) % self._period == self._period - 1) for i, token in enumerate(ids)], 0.99)

    def observe(self, n_accepted: int, next_id: int) -> None:
        """Learns nothing."""

    def close(self) -> None:
        """Holds nothing."""


def check_decoding(name: str, shape: str, device: torch.device, weights: WeightsSetting, *, seed: int) -> list[Check]:
    """Greedy outputs of a random model (its own choices): drafted against undrafted, eager against captured, unpadded
    against padded."""
    window = None if device.type == "cuda" else 31  # one bucket: its self-test takes seconds
    engine = load_replay(
        PREFIX + shape, device=device.type, weights=weights, window=window, kv_cache_bytes=2**30
    ).engine
    assert isinstance(engine, TorchEngine)
    prompts = random_prompts(engine, seed)
    undrafted = decode(engine, prompts, [NoDraft() for _ in prompts])
    drafts = [KnownDraft(ids, period) for ids, period in zip(undrafted, _periods(len(prompts)), strict=True)]
    drafted = decode(engine, prompts, drafts)
    unpadded = decode(engine.plain(), prompts, [NoDraft() for _ in prompts])
    limit = 0.0 if engine.determinism == "bitwise" else DIVERGENCES
    note = f"self-test: {engine.determinism}"
    found = [
        _compared(f"{name}: drafted against undrafted", undrafted, drafted, limit, note),
        _compared(f"{name}: unpadded against padded", undrafted, unpadded, DIVERGENCES, "the baseline, another shape"),
    ]
    if getattr(engine, "has_graphs", False):
        eager = load_replay(
            PREFIX + shape,
            device=device.type,
            weights=weights,
            kv_cache_bytes=2**30,
            cuda_graphs="off",
        ).engine
        found.append(
            _compared(
                f"{name}: captured against eager passes",
                undrafted,
                decode(eager, prompts, [NoDraft() for _ in prompts]),
                limit,
                note,
            )
        )
    return found


def random_prompts(engine: TorchEngine, seed: int) -> list[list[int]]:
    """Of odd lengths, some across the blocks and stretches of keys that kernels work in."""
    generator = torch.Generator().manual_seed(seed)
    n_vocab = engine.model.config.get_text_config().vocab_size
    longest = 1_200 if engine.device.type == "cuda" else 40
    lengths = torch.randint(2, longest, (N_PROMPTS if engine.device.type == "cuda" else 3,), generator=generator)
    return [torch.randint(0, n_vocab, (int(n),), generator=generator).tolist() for n in lengths]


def decode(engine: Any, prompts: Sequence[Sequence[int]], drafters: Sequence[Drafter]) -> list[list[int]]:
    """Greedy outputs of `N_NEW` tokens (fewer on a CPU), all prompts in shared passes."""
    n_new = N_NEW if engine.device.type == "cuda" else 10
    decodings = [
        Decoding(engine, list(prompt), drafter, n_new, frozenset())
        for prompt, drafter in zip(prompts, drafters, strict=True)
    ]
    scheduler = Scheduler()
    while active := [decoding for decoding in decodings if decoding.finish_reason is None]:
        for outcome in scheduler.run_pass(active):
            if isinstance(outcome, BaseException):
                raise outcome
    for decoding in decodings:
        decoding.close()
    return [decoding.output_ids for decoding in decodings]


def _periods(n: int) -> list[int]:
    """From always wrong to hardly ever."""
    return [(1, 3, 11, 40)[i % 4] for i in range(n)]


def _compared(
    name: str, wanted: Sequence[Sequence[int]], found: Sequence[Sequence[int]], limit: float, note: str
) -> Check:
    """First differences over tokens compared: what follows a difference is another text."""
    n_same = [_agreed(a, b) for a, b in zip(wanted, found, strict=True)]
    n_differing = sum(n < len(ids) for n, ids in zip(n_same, wanted, strict=True))
    n_compared = sum(n_same) + n_differing
    rate = n_differing / max(1, n_compared)
    return Check(name, rate <= limit, rate, limit, n_compared, f"{n_differing} of {len(wanted)} outputs; {note}")


def _agreed(a: Sequence[int], b: Sequence[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))

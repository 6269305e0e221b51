"""Measures with which row counts (buckets) a row's results are bitwise the same for this model on this device, and how
long such passes take.  It keeps the result for the next start.

A window may start at any row of any bucket, and have any length and any neighbours.  Decoding is lossless bit for bit
if a token has the same logits at all these places.  To check this, the same known tokens go through one pass of every
bucket, in windows of several lengths.  In the smallest buckets, a pass with a single token follows.  A bucket that does
not agree with the largest is left out.  This takes less time than three passes of the largest bucket.  Then the
remaining buckets are timed.  For a large model, this takes the time of two more such passes.

The record of an earlier start is valid only for the same weights, libraries, device and thread count.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, cast

import torch
import transformers
from torch.nn import functional as F  # noqa: N812

from apply_service.engine.attention import Kernels, Places
from apply_service.engine.kv_cache import KVShape
from apply_service.engine.passes import Passes
from apply_service.engine.torch_local import DEFAULT_BUCKETS, KEY_GRAIN, QUERY_GRAIN, TorchEngine
from apply_service.engine.weights import PIECE, fastest, fp8_ways, multiply_in_pieces, n_fused, pack_matrices
from apply_service.errors import EngineFailure
from apply_service.protocols import Part, Prefill, SamplingParams, Session, Window

SEED = 0
N_PROBES = 8
"""The number of tokens whose logits are compared."""
PROMPT_LENGTH = KEY_GRAIN - 6
"""With this length, some windows attend to one block of keys and some to two."""
N_READ = 64
"""The number of prompt tokens that the model reads.  The other keys and values are random, with the same
distribution."""
WINDOW_SIZES = (1, 3, N_PROBES)
"""The sizes of the windows in a pass, as far as its rows suffice.  One more window takes the remaining rows."""
N_SESSIONS = 5
PROBE_SLOTS = N_SESSIONS * 2 * KEY_GRAIN
"""The number of slots that a self-test needs."""
SMALL_BUCKET = 64
"""On a GPU, passes of up to this many rows take the time of one row."""
LONE_BUCKET = 16
"""Buckets up to this size also get a pass with a single token, because libraries switch algorithms most often there.
On a GPU, all buckets get such a pass."""
N_TIMED, TIMED_S = 4, 0.3
"""A pass is timed at most this many times, and is not repeated once its runs together have taken this many seconds."""


@dataclass(frozen=True, slots=True)
class SelfTest:
    """The results of a self-test.

    `buckets`: the usable row counts.  `differing_rows`: by bucket, the share of compared rows with logits that differed
    in any bit.  `flipped_choices`: by bucket, the share of compared rows with another argmax.  `pass_times`: the
    seconds of a pass by bucket.  `plain_s`: the seconds of a pass without drafts (one row, no padding).  `attention`
    and `has_graphs`: how the passes ran.  `notes`: why faster ways did not work.  `piece`: the number of rows that a
    CPU multiplies by a bfloat16 matrix at a time; None means all rows.
    """

    buckets: tuple[int, ...]
    query_grain: int
    differing_rows: Mapping[int, float]
    flipped_choices: Mapping[int, float]
    attention: Literal["sdpa", "triton"] = "sdpa"
    has_graphs: bool = False
    notes: tuple[str, ...] = ()
    piece: int | None = None
    pass_times: Mapping[int, float] = field(default_factory=dict)
    plain_s: float = 0.0

    @property
    def determinism(self) -> Literal["bitwise", "tolerant"]:
        return "tolerant" if any(self.differing_rows[bucket] for bucket in self.buckets) else "bitwise"

    @property
    def divergence(self) -> float:
        """The largest share of flipped choices among the usable buckets."""
        return max(self.flipped_choices[bucket] for bucket in self.buckets)


@torch.inference_mode()
def run_self_test(engine: TorchEngine) -> SelfTest:
    """Compare every bucket of `engine` with its largest one, and time the usable buckets.

    If the largest bucket does not agree with itself, coarser grains of query rows are tried.  `engine.query_grain`
    keeps the last grain that was tried.  Raises EngineFailure if a kernel or graph of this device gives wrong results.
    """
    check_device_parts(engine)
    largest = engine.buckets[-1]
    grains = (QUERY_GRAIN, 4 * QUERY_GRAIN, largest) if engine.attention == "sdpa" else (QUERY_GRAIN,)
    probe = _Probe(engine)
    differing, flipped = dict[int, float](), dict[int, float]()
    try:
        for grain in dict.fromkeys(grains):
            engine.query_grain = grain
            differing[largest], flipped[largest] = probe.compare(largest)
            if not differing[largest]:
                break
        for bucket in engine.buckets[-2::-1]:
            differing[bucket], flipped[bucket] = probe.compare(bucket)
        buckets = usable(differing, small=None if engine.device.type == "cpu" else SMALL_BUCKET)
        times = {bucket: probe.time_pass(engine, bucket) for bucket in buckets}
        plain_s = probe.time_pass(engine.plain(), 1)
    finally:
        probe.close()
    notes = tuple(note for note in (engine.attention_note, engine.graphs_note) if note)
    ways = (engine.attention, engine.has_graphs, notes)
    return SelfTest(buckets, engine.query_grain, differing, flipped, *ways, pass_times=times, plain_s=plain_s)


def usable(differing: Mapping[int, float], *, small: int | None) -> tuple[int, ...]:
    """Return the row counts that agree bitwise with the largest, or only the largest if it does not agree with itself.

    With `small`, all row counts are returned if none of these is at most `small`.  On a GPU, a large pass takes several
    times as long as a small one.  Having only large passes would be worse than choices that may differ in the last bit.
    """
    largest = max(differing)
    equal = tuple(sorted(bucket for bucket, share in differing.items() if share == 0.0))
    buckets = equal if largest in equal else (largest,)
    return buckets if small is None or buckets[0] <= max(small, min(differing)) else tuple(sorted(differing))


class _Probe:
    """Sessions with the keys and values of the same prompt, and the known tokens that follow the prompt."""

    def __init__(self, engine: TorchEngine) -> None:
        self.engine = engine
        generator = torch.Generator().manual_seed(SEED)
        n_vocab = engine.model.config.get_text_config().vocab_size
        self.n_prompt = min(PROMPT_LENGTH, engine.context_limit - N_PROBES - 2)
        n_next = min(max(engine.buckets[-1], N_PROBES), KEY_GRAIN, engine.context_limit - self.n_prompt - 1)
        ids = torch.randint(0, n_vocab, (self.n_prompt + n_next,), generator=generator).tolist()
        self.ids = ids[self.n_prompt :]
        opened = [engine.open([*ids[: self.n_prompt], 0], n_next) for _ in range(N_SESSIONS)]
        self.sessions = cast(list[Session], opened)
        n_read = min(N_READ, self.n_prompt, engine.buckets[-1])
        engine.step([Prefill(self.sessions[0], n_read)])
        slots = [session.slots[: self.n_prompt] for session in self.sessions]
        for layer in (*engine.pool.keys, *engine.pool.values):
            read = layer[:, slots[0].start : slots[0].start + n_read].float()
            size = (len(layer), self.n_prompt, layer.shape[-1])
            drawn = torch.randn(size, generator=generator).to(layer.device)
            drawn = drawn * read.std(dim=1, keepdim=True, correction=0) + read.mean(dim=1, keepdim=True)
            layer[:, slots[0].start : slots[0].stop] = drawn.to(layer.dtype)
        for session, target in zip(self.sessions, slots, strict=True):
            if target != slots[0]:
                engine.pool.copy(slots[0], target)
            session.cleared = self.n_prompt
            session.is_sound = False  # these keys and values belong to no real prompt
        self.oracle = torch.empty(0)
        """Logits of the first tokens [up to N_PROBES, vocab], from the widest window of the largest bucket.  The last
        session holds the keys and values of these tokens."""

    def close(self) -> None:
        for session in self.sessions:
            session.close()

    def compare(self, bucket: int) -> tuple[float, float]:
        """Return the share of rows that differ from the oracle in passes of `bucket` rows, and the share of flipped
        choices.  The pass of the largest bucket makes the oracle."""
        sizes, n_left = list[int](), bucket
        for most in (*WINDOW_SIZES, bucket):
            if size := min(most, n_left, len(self.ids)):
                sizes.append(size)
                n_left -= size
        sizes.sort()
        is_largest = bucket == self.engine.buckets[-1]
        sessions = self.sessions[-len(sizes) :] if is_largest else self.sessions
        plan = [
            (session, 0 if is_largest else self._offset(bucket, size), size)
            for session, size in zip(sessions, sizes, strict=False)
        ]
        rows = self.look(bucket, plan)
        if is_largest:
            self.oracle = rows[-1]
        found = list(rows)
        wanted = [self.oracle[at : at + len(one)] for (_, at, _), one in zip(plan, rows, strict=True)]
        if bucket <= LONE_BUCKET or self.engine.device.type != "cpu":
            offset = self._offset(bucket, 1)
            found += self.look(bucket, [(self.sessions[0], offset, 1)])
            wanted.append(self.oracle[offset : offset + 1])
        given, expected = torch.cat(found), torch.cat(wanted)
        is_other, is_flipped = (given != expected).any(dim=-1), given.argmax(-1) != expected.argmax(-1)
        return float(is_other.float().mean()), float(is_flipped.float().mean())

    def time_pass(self, engine: TorchEngine, n_rows: int) -> float:
        """Return the seconds of a pass of `n_rows` rows, all of one window."""
        session = self.sessions[0]
        session.length = self.n_prompt
        ids = self.ids[: min(n_rows, len(self.ids))]
        window = Window(session, ids[0], ids[1:], SamplingParams())

        def run() -> None:
            logits, _ = engine.logits([window], n_rows, n_head_rows=n_rows)
            logits[-1, -1].item()  # waits for the device

        return fastest(run, least=1, most=N_TIMED, budget_s=TIMED_S)

    def _offset(self, bucket: int, size: int) -> int:
        """Return the index of the first oracle token in a window of this size.  It varies from bucket to bucket."""
        return bucket.bit_length() % max(1, len(self.oracle) - size + 1)

    def look(self, n_rows: int, plan: Sequence[tuple[Session, int, int]]) -> list[torch.Tensor]:
        """Run a pass of `n_rows` rows over windows (session, first token, length).  Returns the logits of each window's
        compared tokens."""
        parts: list[Part] = []
        for session, offset, size in plan:
            if offset:  # copy the tokens before the window from the oracle's session
                known = slice(self.n_prompt, self.n_prompt + offset)
                self.engine.pool.copy(self.sessions[-1].slots[known], session.slots[known])
            session.length = self.n_prompt + offset
            session.cleared = max(session.cleared, session.length)
            ids = self.ids[offset : offset + size]
            parts.append(Window(session, ids[0], ids[1:], SamplingParams()))
        logits, layout = self.engine.logits(parts, n_rows, n_head_rows=n_rows)
        rows = []
        for window, (_, offset, size) in zip(layout.windows, plan, strict=True):
            n_probed = min(size, N_PROBES - offset)
            rows.append(logits[window.first : window.first + n_probed].float().cpu())
        return rows


# -- the kernels and graphs of a device --------------------------------------------------------------------------------
KERNEL_ROWS = 5
KERNEL_POSITIONS = (0, 58, 530)
"""The positions of the first compared row: in an empty cache, after one block of keys, and in the second split."""
KERNEL_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 3e-2, torch.float16: 1e-2}
"""The largest allowed error of the attention kernel, as a share of the largest value."""
REPLAY_TOLERANCE = 2e-2
"""The largest allowed error of a replayed pass, as a share of the largest logit.  A replayed pass runs the same kernels
as a pass step by step, but the libraries may choose other variants of these kernels."""


def check_device_parts(engine: TorchEngine) -> None:
    """Check that no driver, compiler or capture is broken.  Bitwise equality is not checked here.  Raises EngineFailure
    if the attention kernel or a replayed pass is wrong (the error says by how much)."""
    errors = []
    if engine.kernels is not None:
        limit = KERNEL_TOLERANCE[engine.pool.shape.dtype]
        errors.append(("the attention kernel of this device", attention_error(engine.kernels, engine), limit))
    if engine.has_graphs:
        errors.append(("a CUDA graph on this device", replay_error(engine), REPLAY_TOLERANCE))
    for what, error, limit in errors:
        if not error <= limit:
            raise EngineFailure(f"{what} gives wrong results", value=error, limit=limit)


@torch.inference_mode()
def attention_error(kernels: Kernels, engine: TorchEngine) -> float:
    """Return the largest difference between the kernel and plain attention in float32, as a share of the largest value.
    Keys and queries are random and have the model's shapes."""
    shape, tile = engine.pool.shape, engine.tile
    generator = torch.Generator(shape.device).manual_seed(SEED)
    n_slots = max(KERNEL_POSITIONS) + KERNEL_ROWS

    def draw(*size: int) -> torch.Tensor:
        return torch.randn(size, generator=generator, device=shape.device).to(shape.dtype)

    keys, values = (draw(shape.n_kv_heads, n_slots, shape.head_dim) for _ in range(2))
    worst = 0.0
    for position in KERNEL_POSITIONS:
        query = draw(shape.n_kv_heads * tile.group, KERNEL_ROWS, shape.head_dim)
        positions = torch.arange(position, position + KERNEL_ROWS, device=shape.device)
        tiles = torch.tensor(tile.cut(0, KERNEL_ROWS, 0), device=shape.device)
        places = Places(positions, positions, tiles, tile.n_splits(position + KERNEL_ROWS))
        scale = shape.head_dim**-0.5
        found = kernels.attend_slots(query, keys, values, places, tile, scale=scale)
        seen = torch.arange(n_slots, device=shape.device)[None] <= positions[:, None]
        k, v = (one.float().repeat_interleave(tile.group, 0) for one in (keys, values))
        wanted = F.scaled_dot_product_attention(query.float(), k, v, attn_mask=seen, scale=scale).transpose(0, 1)
        worst = max(worst, float((found.float() - wanted).abs().max() / wanted.abs().max()))
    return worst


def replay_error(engine: TorchEngine) -> float:
    """Return the largest difference between the logits of a replayed pass and of the same pass step by step, as a share
    of the largest logit.  The replayed pass was captured for another sequence."""
    generator = torch.Generator().manual_seed(SEED)
    n_vocab = engine.model.config.get_text_config().vocab_size
    graphed, eager = engine.passes, Passes(engine.device)
    error = 0.0
    for ids in torch.randint(0, n_vocab, (2, 24), generator=generator).tolist():
        session, found = engine.open(ids[:20], 8), []
        assert session is not None
        with session:
            engine.step([Prefill(session, session.n_pending)])
            window = Window(session, ids[20], ids[21:], SamplingParams())
            for engine.passes in (graphed, eager):
                logits, layout = engine.logits([window], max(engine.buckets[0], window.n_rows))
                found.append(logits[: len(layout.head_rows)].float().clone())
            engine.passes = graphed
        error = float((found[0] - found[1]).abs().max() / found[1].abs().max())
    return error


# -- the record of an earlier start ------------------------------------------------------------------------------------
VERSION = 8
"""The version of the self-test.  Records of other versions are ignored."""
CUDA_BUCKETS = (32, 64, 128, 192, 256)
"""The buckets on CUDA.  Smaller buckets would take no less time."""
LARGE_BUCKET = 512
"""One more bucket on CUDA for models of up to `SMALL_MODEL` weights, because the overhead of a pass matters most
there."""
SMALL_MODEL = 3e9

log = logging.getLogger(__name__)


def read_self_test(path: Path) -> SelfTest | None:
    """Return the record in a file; None if it can't be read."""
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for name in ("differing_rows", "flipped_choices", "pass_times"):
            values[name] = {int(bucket): float(value) for bucket, value in values[name].items()}
        return SelfTest(**values | {name: tuple(values[name]) for name in ("buckets", "notes")})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def keep_self_test(path: Path, found: SelfTest) -> None:
    """Write a record into a file, whole or not at all.  If the folder can't be written to, nothing is kept."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            json.dump(asdict(found), file)
        os.replace(file.name, path)


def fingerprint(model: Any, buckets: Sequence[int], wanted: str = "") -> str:
    """Return a digest of everything that can change the self-test: kernels, threads, shapes, number format, the
    `wanted` options of the engine, and a sample of every weight."""
    device = next(model.parameters()).device
    cpu = triton = ""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        cpu = "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))
    with contextlib.suppress(PackageNotFoundError):
        triton = version("triton")
    parts = [
        *(VERSION, torch.__version__, torch.__config__.show(), torch.get_num_threads(), transformers.__version__),
        *(triton, platform.machine(), cpu or platform.processor()),
        torch.cuda.get_device_name(device) if device.type == "cuda" else torch.backends.cpu.get_cpu_capability(),
        *(model.config.to_json_string(), tuple(buckets), wanted),
    ]
    digest = blake2b(repr(parts).encode(), digest_size=16)
    for name, weight in model.named_parameters():
        sample = weight.detach().flatten()[:: max(1, weight.numel() // 64)].double().cpu()
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode() + sample.numpy().tobytes())
    return digest.hexdigest()


def find_self_test(
    model: Any, name: str, buckets: Sequence[int], records: Path | None, options: Mapping[str, Any]
) -> SelfTest:
    """Pack the matrices of `model`, and return its self-test with these options of the engine.

    The result comes from the folder `records` if it has one, or from a new test.  Matrices are multiplied in pieces
    only if more row counts agree that way.  A log line tells how passes run.  Raises any Exception that a model causes
    which does not suit the engine.
    """
    key = fingerprint(model, buckets, repr(sorted(options.items())))  # packed weights can't be sampled
    pack_matrices(model)
    record = None if records is None else records / f"{key}.json"
    known = None if record is None else read_self_test(record)
    found = find_options(model, name, buckets, options) if known is None else known
    if known is None and len(found.buckets) < len(buckets) and multiply_in_pieces(model, PIECE):
        in_pieces = replace(find_options(model, name, buckets, options), piece=PIECE)
        found = max(found, in_pieces, key=lambda one: len(one.buckets))
    multiply_in_pieces(model, found.piece)
    if record is not None and known is None:
        keep_self_test(record, found)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        # The tested engine is in a cycle of references, so only the collector frees its slots, which hold a whole
        # context.
        gc.collect()
        torch.cuda.empty_cache()
    after = ", ".join(size for size, way in fp8_ways(model).items() if way == "after")
    log.info(
        "%s: attention %s, CUDA graphs %s%s; %d norms in one kernel each%s; %s, divergence rate %.4f",
        *(name, found.attention, "on" if found.has_graphs else "off"),
        f" ({'; '.join(found.notes)})" if found.notes else "",
        *(n_fused(model), f"; fp8 products of {after} scaled afterwards" if after else ""),
        *(found.determinism, found.divergence),
    )
    return found


def find_options(model: Any, name: str, buckets: Sequence[int], options: Mapping[str, Any]) -> SelfTest:
    """Try several ways to run passes, from the one in `options` to the plainest.  Return the self-test of the first way
    that works; its `notes` tell why the others did not.

    Only options with the value `auto` are replaced.  Raises the Exception of the last way if none works.
    """
    ways = [dict(options)]
    if torch.cuda.is_available() and options.get("cuda_graphs", "auto") == "auto":
        ways.append({**options, "cuda_graphs": "off"})
        if options.get("attention", "auto") == "auto":
            ways.append({**options, "cuda_graphs": "off", "attention": "sdpa"})
    parameter, notes = next(model.parameters()), list[str]()
    shape = KVShape.of(model.config.get_text_config(), parameter.dtype, parameter.device)
    engine_of = partial(
        TorchEngine, model, name=name, buckets=buckets, kv_cache_bytes=PROBE_SLOTS * shape.bytes_per_slot
    )
    for way in ways:
        try:
            found = run_self_test(engine_of(**way))
        except Exception as error:  # a broken driver or compiler can raise anything
            if way is ways[-1]:
                raise
            tried = f"attention {way.get('attention', 'auto')}, graphs {way.get('cuda_graphs', 'auto')}"
            notes.append(f"{tried}: {type(error).__name__}: {str(error)[:500]}")
            log.info("%s does not run with %s", name, tried, exc_info=True)
            continue
        return replace(found, notes=(*notes, *found.notes))
    raise AssertionError("there is always a way")


def buckets_on(model: Any) -> tuple[int, ...]:
    """Return the row counts of passes on the model's device."""
    if next(model.parameters()).device.type == "cpu":
        return DEFAULT_BUCKETS
    n_weights = sum(weight.numel() for weight in model.parameters())
    return (*CUDA_BUCKETS, LARGE_BUCKET) if n_weights <= SMALL_MODEL else CUDA_BUCKETS

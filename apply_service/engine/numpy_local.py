"""Runs the embedded model with NumPy alone, so that a plain install needs no torch.

Every product is made in tiles of a few rows, and attention reads keys in blocks of `KEY_BLOCK`.  So the library always
multiplies the same shapes, and a row's results are bitwise the same whatever else is in its pass.  Then drafts, other
sequences and the prefix cache can't change a choice.  `find_determinism` checks on this machine whether rows are indeed
the same.

Arrays have features first and rows last [n, n_rows].  So a tile is a few columns of a product, and OpenBLAS computes
all these columns alike.  If a tile were rows of the product, tiles of more than eight rows would give different results
on AVX2.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt

from apply_service.engine.kv_cache import KVShape, PrefixCache, SlotEngine, round_up, settle
from apply_service.engine.layout import Layout, Segment, WindowRows, pack
from apply_service.errors import EngineFailure, ModelNotLoadable
from apply_service.protocols import Part, Prefill, SamplingParams, Verification, Window

Floats = npt.NDArray[np.float32]

TILES = (16, 8, 4)
"""The sizes of a tile, in rows.  The engine takes the first size with which rows stay bitwise the same.  A single row
costs a whole tile, so there are no larger sizes (docs/log.md)."""
KEY_BLOCK = 256
BUCKETS = (16, 32, 64, 128, 256)
"""The row counts that a pass may have."""
TIMED = (16, 64)
"""The row counts that are timed.  The times of the other row counts lie on the line through these two (docs/log.md)."""

GOLDEN, MIX_1, MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""The constants of SplitMix64 (Steele, Lea, Flood 2014).  `engine.sampling` uses these constants too, so a seed gives
the same sample on both engines."""


# -- threads -----------------------------------------------------------------------------------------------------------
@cache
def thread_setter() -> Callable[[int], int] | None:
    """Return the OpenBLAS function that sets the number of threads and returns the previous number; None if NumPy uses
    another library."""
    library = ctypes.CDLL(importlib.import_module("numpy._core._multiarray_umath").__file__)
    setter: Callable[[int], int] | None = getattr(library, "openblas_set_num_threads_local", None)
    return setter


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute products in one thread.

    The products are too small for several threads, and waiting threads take processor time from others (docs/log.md).
    Also, the number of threads changes the results bitwise.
    """
    setter = thread_setter()
    n_before = 1 if setter is None else setter(1)
    try:
        yield
    finally:
        if setter is not None:
            setter(n_before)


class Layer(NamedTuple):
    """The weights of one layer: matrices [n_out, n_in] float32, biases and norms [n_out]."""

    input_norm: Floats
    q: Floats
    q_bias: Floats
    kv: Floats
    kv_bias: Floats
    o: Floats
    o_bias: Floats
    mlp_norm: Floats
    gate_up: Floats
    down: Floats

    @classmethod
    def of(cls, tensors: Mapping[str, Floats], index: int) -> Self:
        def get(*names: str) -> Floats:
            return np.concatenate([tensors[f"model.layers.{index}.{name}"] for name in names])

        return cls(
            get("input_layernorm.weight"),
            get("self_attn.q_proj.weight"),
            get("self_attn.q_proj.bias"),
            get("self_attn.k_proj.weight", "self_attn.v_proj.weight"),
            get("self_attn.k_proj.bias", "self_attn.v_proj.bias"),
            get("self_attn.o_proj.weight"),
            get("self_attn.o_proj.bias"),
            get("post_attention_layernorm.weight"),
            get("mlp.gate_proj.weight", "mlp.up_proj.weight"),
            get("mlp.down_proj.weight"),
        )


class NumpyEngine(SlotEngine):
    """Verifies windows with the model in `directory`.

    The model is a Llama with biases in attention and one KV head for each query head.  Its embedding is also its head.
    Raises ModelNotLoadable if the folder holds no such model.
    """

    def __init__(
        self,
        directory: Path,
        *,
        name: str,
        max_draft: int | None = None,
        kv_cache_bytes: int = 2**30,
        prefix_cache_bytes: int = 0,
    ) -> None:
        self.name = name
        try:
            config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
            tensors = read_tensors(directory / "model.safetensors")
            context_limit = int(config["max_position_embeddings"])
            self._n_heads, self._head_dim = int(config["num_attention_heads"]), int(config["head_dim"])
            self._epsilon = np.float32(config["rms_norm_eps"])
            self._layers = [Layer.of(tensors, i) for i in range(config["num_hidden_layers"])]
            self._embedding, self._norm = tensors["model.embed_tokens.weight"], tensors["model.norm.weight"]
            base = float(config["rope_parameters"]["rope_theta"])
        except (OSError, ValueError, KeyError) as error:
            message, remedy = f"the embedded model can't be read: {error!r}", "install the package again"
            raise ModelNotLoadable(message, value=str(directory), remedy=remedy) from error
        powers = np.arange(0, self._head_dim, 2, dtype=np.float32) / np.float32(self._head_dim)
        self._frequencies = (1.0 / np.float32(base) ** powers).astype(np.float32)
        super().__init__(
            KVShape(len(self._layers), self._n_heads, self._head_dim, np.dtype(np.float32), None),
            context_limit=context_limit,
            pass_times=dict.fromkeys(BUCKETS, 1.0) if max_draft is None else {max_draft + 1: 1.0},
            key_grain=KEY_BLOCK,
            kv_cache_bytes=kv_cache_bytes,
            prefix_cache_bytes=prefix_cache_bytes,
        )
        for self.tile in TILES:
            self.determinism = find_determinism(self)
            if self.determinism == "bitwise":
                break
        if max_draft is None:
            self.pass_times = time_passes(self)

    @property
    def n_vocab(self) -> int:
        return len(self._embedding)

    def plain(self) -> NumpyEngine:
        """Return the engine that decodes fastest without drafts.  It multiplies single rows, so its results may differ
        bitwise.

        It shares the slots of this engine, and keeps no prompts.
        """
        one = copy(self)
        one.tile = 1
        one.prefix_cache = PrefixCache(self.pool, grain=self.prefill_grain, max_slots=0)
        return one

    def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]:
        logits, layout = self.logits(parts)
        choices, logprobs = choose(logits, layout.windows)
        return settle(parts, layout.verified(parts, choices.tolist(), logprobs.tolist()))

    @one_thread()
    def logits(self, parts: Sequence[Part]) -> tuple[Floats, Layout]:
        """Run one forward.  Returns the logits [n, vocab] of the rows that choose a token, and the layout of the pass.
        Sessions keep their lengths.  Raises EngineFailure if `layout.pack` does."""
        n_rows = round_up(sum(part.n_rows for part in parts), self.tile)
        layout = pack(parts, n_rows, n_vocab=self.n_vocab, n_keys=self._n_keys, query_grain=self.tile)
        self._clear_keys(parts)
        angles = self._frequencies[:, None] * layout.positions.astype(np.float32)
        turn = np.cos(angles), np.sin(angles)
        hidden: Floats = np.ascontiguousarray(self._embedding[layout.ids].T)
        head = layout.head_rows
        padded_head = np.concatenate([head, np.zeros(-len(head) % self.tile, np.int64)])
        for i, layer in enumerate(self._layers):
            is_last = i == len(self._layers) - 1  # after the last attention, only the rows that choose are needed
            hidden = self._attend(i, layer, hidden, turn, layout, padded_head if is_last else None)
            gate, up = np.split(self._product(layer.gate_up, self._normed(hidden, layer.mlp_norm)), 2)
            up *= gate
            up /= 1 + np.exp(-gate)
            hidden += self._product(layer.down, up)
        logits = self._product(self._embedding, self._normed(hidden, self._norm))
        return np.ascontiguousarray(logits[:, : len(head)].T), layout

    def _product(self, weight: Floats, x: Floats) -> Floats:
        """Return `weight` [n_out, n_in] times `x` [n_in, n_rows], computed tile by tile."""
        out = np.empty((len(weight), x.shape[1]), np.float32)
        np.matmul(weight, self._tiles(x), out=self._tiles(out))
        return out

    def _tiles(self, x: Floats) -> Floats:
        """Return the tiles [n_tiles, n, tile] of `x` [n, n_rows], without a copy."""
        return x.reshape(len(x), -1, self.tile).swapaxes(0, 1)

    def _normed(self, hidden: Floats, weight: Floats) -> Floats:
        scale = np.sqrt((hidden * hidden).sum(0) / np.float32(len(hidden)) + self._epsilon)
        return cast(Floats, weight[:, None] * (hidden / scale))

    def _attend(
        self,
        index: int,
        layer: Layer,
        hidden: Floats,
        turn: tuple[Floats, Floats],
        layout: Layout,
        wanted: npt.NDArray[np.int64] | None,
    ) -> Floats:
        """Return the `wanted` rows of `hidden` [d, n_rows] after attention; None means all rows.  The keys and values
        of all rows are stored."""
        normed = self._normed(hidden, layer.input_norm)
        size = (self._n_heads, self._head_dim, -1)
        keys, values = np.split(self._product(layer.kv, normed) + layer.kv_bias[:, None], 2)
        keys, values = _turned(keys.reshape(size), *turn), values.reshape(size)
        every = np.arange(hidden.shape[1])
        if wanted is not None:  # `take` gives arrays in the usual memory order; another order gives other bits
            hidden, normed, *turned = (one.take(wanted, 1) for one in (hidden, normed, *turn))
            turn = turned[0], turned[1]
            every = wanted
        query = _turned((self._product(layer.q, normed) + layer.q_bias[:, None]).reshape(size), *turn)
        query *= np.float32(self._head_dim**-0.5)
        out = np.zeros_like(query)
        for segment in layout.segments:
            rows = slice(segment.first_row, segment.first_row + segment.n_rows)
            start = segment.first_slot + segment.position
            self.pool.keys[index][:, start : start + segment.n_rows] = keys[..., rows].swapaxes(1, 2)
            self.pool.values[index][:, start : start + segment.n_rows] = values[..., rows].swapaxes(1, 2)
            mine = rows if wanted is None else np.flatnonzero((wanted >= rows.start) & (wanted < rows.stop))
            out[..., mine] = self._attended(index, query[..., mine], layout.positions[every[mine]], segment)
        return hidden + self._product(layer.o, out.reshape(len(hidden), -1)) + layer.o_bias[:, None]

    def _attended(self, index: int, query: Floats, positions: npt.NDArray[np.int64], segment: Segment) -> Floats:
        """Return the attention of rows of one segment, in the shape [n_heads, d, n] of `query`."""
        slots = slice(segment.first_slot, segment.first_slot + segment.n_keys)
        n, n_heads, d = len(positions), *query.shape[:2]
        keys, values = (
            layers[index][:, slots].reshape(n_heads, -1, 1, KEY_BLOCK, d).swapaxes(0, 1)
            for layers in (self.pool.keys, self.pool.values)
        )
        padded = np.zeros((n_heads, d, round_up(n, self.tile)), np.float32)
        padded[..., :n] = query
        tiles = padded.reshape(n_heads, d, -1, self.tile).swapaxes(1, 2)
        weights = keys @ tiles  # [n_blocks, n_heads, n_tiles, KEY_BLOCK, tile]
        last = np.pad(positions, (0, padded.shape[-1] - n)).reshape(-1, 1, self.tile)
        for i in range(segment.position // KEY_BLOCK, len(weights)):
            unseen = np.arange(i * KEY_BLOCK, (i + 1) * KEY_BLOCK)[:, None] > last
            np.copyto(weights[i], np.float32(-np.inf), where=unseen)
        weights -= _over_keys(np.maximum, weights)
        np.exp(weights, out=weights)
        out = (values.swapaxes(-1, -2) @ weights).sum(0) / _over_keys(np.add, weights)
        found: Floats = out.swapaxes(1, 2).reshape(n_heads, d, -1)
        return found[..., :n]


def _over_keys(combine: np.ufunc, x: Floats) -> Floats:
    """Combine `x` [n_blocks, n_heads, n_tiles, KEY_BLOCK, tile] over blocks and keys.  Returns [n_heads, n_tiles, 1,
    tile].  Keys are combined pair by pair, because that keeps the processor's lanes full."""
    found: Floats = combine.reduce(x, axis=0)
    while (half := found.shape[-2] // 2) > 0:
        found = combine(found[..., :half, :], found[..., half:, :])
    return found


def _turned(x: Floats, cos: Floats, sin: Floats) -> Floats:
    """Return `x` [n_heads, d, n_rows] rotated by its positions (Su et al. 2021).  As in Llama, the two halves of d form
    the pairs."""
    first, second = np.split(x, 2, axis=1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=1)


# -- the choice --------------------------------------------------------------------------------------------------------
def choose(logits: Floats, windows: Sequence[WindowRows]) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return the token chosen in each row of `logits` [n, vocab], and its log probability at temperature 1 without a
    mask.  Ties go to the lowest id.  The rule is the same as in `engine.sampling`."""
    choices = np.empty(len(logits), np.int64)
    for window in windows:
        rows, sampling = slice(window.first, window.first + window.n_rows), window.sampling
        scores = logits[rows]
        if sampling.temperature > 0:
            noise = gumbel_noise(sampling.seed, window.positions, scores.shape[-1])
            scores = scores / np.float32(sampling.temperature) + noise
        choices[rows] = scores.argmax(-1)
        for row, ids in window.masks():
            if not len(ids) or ids[0] < 0 or ids[-1] >= scores.shape[-1]:
                raise EngineFailure(
                    "internal fault: the set of allowed tokens is empty, or not of this model", limit=scores.shape[-1]
                )
            choices[row] = ids[scores[row - window.first, ids].argmax()]
    highest = logits.max(-1, keepdims=True)
    totals = np.log(np.exp(logits - highest).sum(-1))
    return choices, logits[np.arange(len(logits)), choices] - highest[:, 0] - totals


def gumbel_noise(seed: int, positions: npt.NDArray[np.int64], n_vocab: int) -> Floats:
    """Return standard Gumbel noise [n_rows, n_vocab], a pure function of (seed modulo 2**64, position, token id)."""
    start, golden = np.uint64(seed % 2**64), np.uint64(GOLDEN)
    key = _mix(_mix(positions.astype(np.uint64) * golden + start) + start)
    bits = _mix(key[:, None] + np.arange(n_vocab, dtype=np.uint64) * golden)
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return cast(Floats, -np.log(-np.log(uniform))).astype(np.float32)


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the output of SplitMix64's finaliser."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(MIX_1)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(MIX_2)
    return x ^ (x >> np.uint64(31))


# -- loading -----------------------------------------------------------------------------------------------------------
def read_tensors(path: Path) -> dict[str, Floats]:
    """Return the tensors of a safetensors file as float32.  The file has bfloat16 or float32; matrices are [n_out,
    n_in].  Raises OSError, ValueError or KeyError if the file can't be read."""
    data = path.read_bytes()
    n_header = int.from_bytes(data[:8], "little")
    header: dict[str, Any] = json.loads(data[8 : 8 + n_header])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        start, stop = (8 + n_header + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "BF16":  # the upper half of a float32
            wide = np.frombuffer(data[start:stop], "<u2").astype(np.uint32) << np.uint32(16)
            values = wide.view(np.float32)
        else:
            values = np.frombuffer(data[start:stop], {"F32": "<f4"}[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def find_determinism(engine: NumpyEngine) -> Literal["bitwise", "tolerant"]:
    """Find whether a token's logits are bitwise the same alone and at any place of a window.  The tokens lie on both
    sides of the edge between two blocks of keys."""
    tile = engine.tile
    ids = [(7 * i + 3) % 251 for i in range(3 * tile + 1)]
    session = engine.open([0] * (KEY_BLOCK - 7), len(ids) + 7)
    assert session is not None, "a new engine has room"
    with session:
        session.is_sound = False  # its first keys and values are zeros, so the cache must not keep them
        wanted: Floats = np.empty(0, np.float32)
        for at, n in ((0, len(ids)), (1, 2), (3, tile + 3), (10, 1)):
            session.length = KEY_BLOCK - 8 + at
            logits, _ = engine.logits([Window(session, ids[at], ids[at + 1 : at + n], SamplingParams())])
            wanted = wanted if len(wanted) else logits
            if not np.array_equal(logits, wanted[at : at + n]):
                return "tolerant"
    return "bitwise"


def time_passes(engine: NumpyEngine) -> dict[int, float]:
    """Return the seconds of a pass over one block of keys, for each row count.  Two row counts are timed, twice each.

    The times are processor time, because other work on the machine hardly changes it.
    """
    session = engine.open([0] * (KEY_BLOCK + 1), 0)
    assert session is not None, "a new engine has room"
    with session:
        session.is_sound = False
        best = dict.fromkeys(TIMED, float("inf"))
        for n_rows in TIMED * 2:
            started = time.thread_time()
            engine.logits([Prefill(session, n_rows)])
            best[n_rows] = min(best[n_rows], time.thread_time() - started)
    (few, shorter), (many, longer) = best.items()
    per_row = max(0.0, longer - shorter) / (many - few)
    return {n_rows: shorter + per_row * (n_rows - few) for n_rows in BUCKETS}

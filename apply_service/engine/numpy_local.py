"""The embedded model on NumPy alone: what a plain install runs, without torch.

Every product is made in tiles of `TILE` rows, and attention reads keys in blocks of `KEY_BLOCK`.  So the library always
multiplies the same shapes, and a row has the same bits whatever else is in its pass: drafts, other sequences and the
prefix cache can't change a choice.  `find_determinism` looks whether that is true here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt

from apply_service.engine.kv_cache import KVShape, SlotEngine, round_up
from apply_service.engine.layout import Layout, Segment, WindowRows, pack
from apply_service.errors import EngineFailure, ModelNotLoadable
from apply_service.protocols import Part, SamplingParams, Verification, Window

Floats = npt.NDArray[np.float32]

TILE = 4
"""Rows of a product.  With more, some kernels of OpenBLAS treat the last rows of a tile differently (docs/log.md)."""
KEY_BLOCK = 256
VOCAB_BLOCK = 512
"""Columns of the head that are multiplied at a time: OpenBLAS is fastest for small products."""
PASS_TIMES = {4: 1.0, 8: 1.25, 16: 1.6, 32: 2.3, 64: 3.7, 128: 8.3, 256: 15.5}
"""Measured: docs/log.md."""

GOLDEN, MIX_1, MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""The constants of SplitMix64 (Steele, Lea, Flood 2014).  `engine.sampling` has them too, so that a seed gives the same
sample on both engines."""


class Layer(NamedTuple):
    """The weights of one layer: matrices [n_in, n_out] float32, biases and norms [n_out]."""

    input_norm: Floats
    q: Floats
    q_bias: Floats
    k: Floats
    k_bias: Floats
    v: Floats
    v_bias: Floats
    o: Floats
    o_bias: Floats
    mlp_norm: Floats
    gate: Floats
    up: Floats
    down: Floats

    @classmethod
    def of(cls, tensors: Mapping[str, Floats], index: int) -> Self:
        def get(name: str) -> Floats:
            return tensors[f"model.layers.{index}.{name}"]

        attention = [get(f"self_attn.{name}_proj.{kind}") for name in "qkvo" for kind in ("weight", "bias")]
        mlp = [get(f"mlp.{name}_proj.weight") for name in ("gate", "up", "down")]
        return cls._make([get("input_layernorm.weight"), *attention, get("post_attention_layernorm.weight"), *mlp])


class NumpyEngine(SlotEngine):
    """Verifies windows with the model in `directory`: Llama with biases in attention, as many KV heads as heads, and
    its embedding as head.  Raises ModelNotLoadable: the folder holds another model, or none."""

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
        self._head = np.ascontiguousarray(self._embedding.T)
        powers = np.arange(0, self._head_dim, 2, dtype=np.float32) / np.float32(self._head_dim)
        self._frequencies = (1.0 / np.float32(base) ** powers).astype(np.float32)
        super().__init__(
            KVShape(len(self._layers), self._n_heads, self._head_dim, np.dtype(np.float32), None),
            context_limit=context_limit,
            pass_times=PASS_TIMES if max_draft is None else {max_draft + 1: 1.0},
            key_grain=KEY_BLOCK,
            kv_cache_bytes=kv_cache_bytes,
            prefix_cache_bytes=prefix_cache_bytes,
        )
        self.determinism = find_determinism(self)

    @property
    def n_vocab(self) -> int:
        return len(self._embedding)

    def plain(self) -> NumpyEngine:
        """The fastest undrafted run of the same model: this one, whose smallest pass has one tile."""
        return self

    def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]:
        logits, layout = self.logits(parts)
        choices, logprobs = choose(logits, layout.windows)
        found = []
        for first, n_rows, *_ in layout.windows:
            n_accepted = 0
            while n_accepted < n_rows - 1 and choices[first + n_accepted] == layout.ids[first + n_accepted + 1]:
                n_accepted += 1
            rows = slice(first, first + n_accepted + 1)
            found.append(Verification(choices[rows].tolist(), logprobs[rows].tolist()))
        return self._settle(parts, found)

    def logits(self, parts: Sequence[Part]) -> tuple[Floats, Layout]:
        """One forward: the logits of the windows' rows [n, vocab], and the layout of the pass.  No session's length
        changes.  Raises EngineFailure: see `layout.pack`."""
        n_rows = round_up(sum(part.n_rows for part in parts), TILE)
        layout = pack(parts, n_rows, n_vocab=self.n_vocab, n_keys=self._n_keys, query_grain=TILE)
        self._clear_keys(parts)
        angles = layout.positions.astype(np.float32)[:, None] * self._frequencies
        turn = np.cos(angles)[:, None], np.sin(angles)[:, None]
        hidden: Floats = self._embedding[layout.ids].reshape(-1, TILE, self._embedding.shape[1])
        for i, layer in enumerate(self._layers):
            is_last = i == len(self._layers) - 1  # after it only the windows' rows are needed
            n_out = round_up(layout.n_window_rows, TILE) if is_last else n_rows
            hidden = self._attend(i, layer, hidden, turn, layout, n_out)
            normed = self._normed(hidden, layer.mlp_norm)
            gate = normed @ layer.gate
            gate /= 1 + np.exp(-gate)
            gate *= normed @ layer.up
            hidden += gate @ layer.down
        hidden = self._normed(hidden, self._norm)
        logits = np.empty((*hidden.shape[:2], self.n_vocab), np.float32)
        for at in range(0, self.n_vocab, VOCAB_BLOCK):
            np.matmul(hidden, self._head[:, at : at + VOCAB_BLOCK], out=logits[..., at : at + VOCAB_BLOCK])
        return logits.reshape(-1, self.n_vocab)[: layout.n_window_rows], layout

    def _normed(self, hidden: Floats, weight: Floats) -> Floats:
        scale = np.sqrt((hidden * hidden).mean(-1, keepdims=True) + self._epsilon)
        return cast(Floats, weight * (hidden / scale))

    def _attend(
        self, index: int, layer: Layer, hidden: Floats, turn: tuple[Floats, Floats], layout: Layout, n_out: int
    ) -> Floats:
        """`hidden` [n_tiles, TILE, d] after attention: its first `n_out` rows.  All rows' keys and values are kept."""
        normed = self._normed(hidden, layer.input_norm)
        size = (-1, self._n_heads, self._head_dim)
        query = _turned((normed @ layer.q + layer.q_bias).reshape(size), *turn)
        key = _turned((normed @ layer.k + layer.k_bias).reshape(size), *turn)
        value = (normed @ layer.v + layer.v_bias).reshape(size)
        out = np.zeros((n_out, *query.shape[1:]), np.float32)
        for segment in layout.segments:
            rows = slice(segment.first_row, segment.first_row + segment.n_rows)
            start = segment.first_slot + segment.position
            self.pool.keys[index][:, start : start + segment.n_rows] = key[rows].swapaxes(0, 1)
            self.pool.values[index][:, start : start + segment.n_rows] = value[rows].swapaxes(0, 1)
            if segment.first_row + segment.n_rows <= n_out:
                out[rows] = self._attended(index, query[rows], segment)
        hidden = hidden[: n_out // TILE]
        return hidden + (out.reshape(hidden.shape) @ layer.o + layer.o_bias)

    def _attended(self, index: int, query: Floats, segment: Segment) -> Floats:
        """What the rows of one segment read: `query` [n_rows, n_heads, d] -> the same shape."""
        slots = slice(segment.first_slot, segment.first_slot + segment.n_keys)
        keys, values = (layers[index][:, None, slots] for layers in (self.pool.keys, self.pool.values))
        tiles = np.zeros((segment.n_padded, *query.shape[1:]), np.float32)
        tiles[: segment.n_rows] = query * np.float32(self._head_dim**-0.5)
        tiles = tiles.reshape(-1, TILE, *query.shape[1:]).transpose(2, 0, 1, 3)  # [n_heads, n_tiles, TILE, d]
        positions = segment.position + np.arange(segment.n_padded).reshape(-1, TILE, 1)
        blocks = [slice(at, at + KEY_BLOCK) for at in range(0, segment.n_keys, KEY_BLOCK)]
        weights = []
        for block in blocks:
            scores = tiles @ keys[:, :, block].swapaxes(-1, -2)
            if block.stop > segment.position:
                scores[:, np.arange(block.start, block.stop) > positions] = -np.inf
            weights.append(scores)
        highest = np.max([scores.max(-1, keepdims=True) for scores in weights], axis=0)
        out: Floats = np.zeros(1, np.float32)
        total = out
        for block, scores in zip(blocks, weights, strict=True):
            scores -= highest
            np.exp(scores, out=scores)
            total = total + scores.sum(-1, keepdims=True)
            out = out + scores @ values[:, :, block]
        found: Floats = (out / total).transpose(1, 2, 0, 3).reshape(-1, *query.shape[1:])
        return found[: segment.n_rows]


def _turned(x: Floats, cos: Floats, sin: Floats) -> Floats:
    """Rotary positions (Su et al. 2021), in halves as Llama has them."""
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


# -- the choice --------------------------------------------------------------------------------------------------------
def choose(logits: Floats, windows: Sequence[WindowRows]) -> tuple[npt.NDArray[np.int64], Floats]:
    """The token chosen in each row of `logits` [n, vocab], the lowest of equals, and the log of its probability at
    temperature 1 without a mask.  The same rule as `engine.sampling`."""
    choices = np.empty(len(logits), np.int64)
    for first, n_rows, position, sampling, allowed in windows:
        scores = logits[first : first + n_rows]
        if sampling.temperature > 0:
            noise = gumbel_noise(sampling.seed, np.arange(position, position + n_rows), scores.shape[-1])
            scores = scores / np.float32(sampling.temperature) + noise
        choices[first : first + n_rows] = scores.argmax(-1)
        for i, ids in zip(range(n_rows), allowed or (), strict=False):
            if ids is not None:
                if not len(ids) or ids[0] < 0 or ids[-1] >= scores.shape[-1]:
                    raise EngineFailure(
                        "internal fault: the set of allowed tokens is empty, or not of this model",
                        limit=scores.shape[-1],
                    )
                choices[first + i] = ids[scores[i, ids].argmax()]
    highest = logits.max(-1, keepdims=True)
    totals = np.log(np.exp(logits - highest).sum(-1))
    return choices, logits[np.arange(len(logits)), choices] - highest[:, 0] - totals


def gumbel_noise(seed: int, positions: npt.NDArray[np.int64], n_vocab: int) -> Floats:
    """Standard Gumbel noise [n_rows, n_vocab], a pure function of (seed modulo 2**64, position, token id)."""
    start, golden = np.uint64(seed % 2**64), np.uint64(GOLDEN)
    key = _mix(_mix(positions.astype(np.uint64) * golden + start) + start)
    bits = _mix(key[:, None] + np.arange(n_vocab, dtype=np.uint64) * golden)
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return cast(Floats, -np.log(-np.log(uniform))).astype(np.float32)


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finaliser."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(MIX_1)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(MIX_2)
    return x ^ (x >> np.uint64(31))


# -- loading -----------------------------------------------------------------------------------------------------------
def read_tensors(path: Path) -> dict[str, Floats]:
    """The tensors of a safetensors file, in bfloat16 or float32, as float32; matrices are [n_in, n_out].  Raises
    OSError, ValueError or KeyError: it can't be read."""
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
        values = values.reshape(entry["shape"])
        is_matrix = values.ndim == 2 and "embed" not in name
        tensors[name] = np.ascontiguousarray(values.T) if is_matrix else values
    return tensors


def find_determinism(engine: NumpyEngine) -> Literal["bitwise", "tolerant"]:
    """Whether a token's logits have the same bits alone and anywhere in a window, on both sides of a block of keys."""
    ids = [(7 * i + 3) % 251 for i in range(3 * TILE + 1)]
    session = engine.open([0] * (KEY_BLOCK - 6), len(ids) + 6)
    assert session is not None, "a new engine has room"
    with session:
        session.is_sound = False  # its first keys and values are zeros, which no prompt has
        wanted: Floats = np.empty(0, np.float32)
        for at, n in ((0, len(ids)), (1, 2), (3, TILE + 3), (10, 1)):
            session.length = KEY_BLOCK - 8 + at
            logits, _ = engine.logits([Window(session, ids[at], ids[at + 1 : at + n], SamplingParams())])
            wanted = wanted if len(wanted) else logits
            if not np.array_equal(logits, wanted[at : at + n]):
                return "tolerant"
    return "bitwise"

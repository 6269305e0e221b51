"""Manages the slots of an engine, gives them to sessions, and keeps prompts in them as a prefix cache.

A slot has room for the keys and values of one token in all layers.  A session gets one range of slots for its whole
life, so attention needs no table of slots.  Rewinding a session only changes its length: slots beyond it are masked.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from apply_service.errors import ContextLimitExceeded, EngineFailure
from apply_service.protocols import Part, Session, Verification, Window

if TYPE_CHECKING:
    import torch

ALIGNMENT_BYTES = 64
PREFILL_GRAIN = 64
"""Prompts are read and kept in whole chunks of this many tokens, but of at most half the rows of the largest pass."""


@dataclass(frozen=True, slots=True)
class KVShape:
    """The sizes of the keys and values of one token.  If `device` is None, NumPy holds the keys and values."""

    n_layers: int
    n_kv_heads: int
    head_dim: int
    dtype: Any
    device: torch.device | None

    @classmethod
    def of(cls, config: Any, dtype: torch.dtype, device: torch.device) -> KVShape:
        """Return the shape for a Hugging Face text config."""
        n_heads: int = config.num_attention_heads
        n_kv_heads = getattr(config, "num_key_value_heads", None) or n_heads
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // n_heads
        return cls(config.num_hidden_layers, n_kv_heads, head_dim, dtype, device)

    @property
    def bytes_per_slot(self) -> int:
        """The bytes that one token's keys and values take in all layers."""
        return 2 * self.n_layers * self.n_kv_heads * self.head_dim * int(self.dtype.itemsize)


class SlotPool:
    """The arrays `keys[layer]` and `values[layer]` [n_kv_heads, n_slots, head_dim], and a list of the free ranges of
    slots."""

    def __init__(self, shape: KVShape, n_slots: int) -> None:
        self.shape = shape
        self.n_slots = n_slots
        size = (shape.n_kv_heads, n_slots, shape.head_dim)
        self.keys = [_zeros(size, shape) for _ in range(shape.n_layers)]
        self.values = [_zeros(size, shape) for _ in range(shape.n_layers)]
        self.states: torch.Tensor | None = None
        """Hidden states of the tokens [n_slots + 1, width] if a draft head needs them.  The last row is for padding."""
        self._free = [(0, n_slots)]
        self.make_room: Callable[[int], bool] = lambda _n_slots: False
        """`take` calls this with a number of slots if no free range is that long.  It returns whether there is such a
        range afterwards."""

    def keep_states(self, width: int) -> None:
        """Allocate hidden states of `width` numbers for each slot."""
        self.states = _zeros((self.n_slots + 1, width), self.shape)

    def store_states(self, slots: torch.Tensor, states: torch.Tensor) -> None:
        """Write `states` [n_rows, width] into `slots` [n_rows].  Slot -1 is the row for padding.  A CUDA graph can
        capture this."""
        assert self.states is not None
        self.states.index_copy_(0, slots.remainder(self.n_slots + 1), states.to(self.states.dtype))

    @property
    def n_free(self) -> int:
        return sum(stop - start for start, stop in self._free)

    def take(self, n_slots: int) -> range | None:
        """Take the first free range of `n_slots` slots; None if even `make_room` frees no such range."""
        slots = self.find(n_slots)
        if slots is None and self.make_room(n_slots):
            slots = self.find(n_slots)
        if slots is not None:
            rest = ((slots.stop if start == slots.start else start, stop) for start, stop in self._free)
            self._free = [(start, stop) for start, stop in rest if start < stop]
        return slots

    def find(self, n_slots: int, also_free: Iterable[range] = ()) -> range | None:
        """Return the first range of `n_slots` slots that is free, with `also_free` counted as free.  Takes nothing."""
        free = _joined(sorted([*self._free, *((slots.start, slots.stop) for slots in also_free)]))
        return next((range(start, start + n_slots) for start, stop in free if stop - start >= n_slots), None)

    def give_back(self, slots: range) -> None:
        """Free a range that `take` returned, or a part of it.  Raises EngineFailure if some of its slots are already
        free or do not exist.  In that case nothing is changed."""
        if not slots:
            return
        bounds = [slots.start, slots.stop]
        if slots.start < 0 or slots.stop > self.n_slots:
            raise EngineFailure(
                f"internal fault: the slots {slots.start}..{slots.stop} of the KV cache do not exist", value=bounds
            )
        if any(slots.start < stop and start < slots.stop for start, stop in self._free):
            raise EngineFailure(
                f"internal fault: the slots {slots.start}..{slots.stop} of the KV cache were freed twice", value=bounds
            )
        insort(self._free, (slots.start, slots.stop))
        self._free = _joined(self._free)

    def clear(self, slots: range) -> None:
        """Set a range to zero.  A broken request may have left a NaN there.  Masking is not enough, because a weight of
        0 times NaN is NaN."""
        for layer in (*self.keys, *self.values):
            layer[:, slots.start : slots.stop] = 0

    def copy(self, source: range, target: range) -> None:
        """Copy keys, values and states from `source` to `target`, which has the same length."""
        for layer in (*self.keys, *self.values):
            layer[:, target.start : target.stop] = layer[:, source.start : source.stop]
        if self.states is not None:
            self.states[target.start : target.stop] = self.states[source.start : source.stop]


def _joined(free: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, stop in free:
        if out and out[-1][1] == start:
            out[-1] = (out[-1][0], stop)
        else:
            out.append((start, stop))
    return out


def _zeros(size: tuple[int, ...], shape: KVShape) -> Any:
    """Return aligned zeros.  On the CPU, the system provides each page of memory when it is first touched."""
    if shape.device is None:
        return np.zeros(size, shape.dtype)
    import torch

    if shape.device.type != "cpu":
        return torch.zeros(size, dtype=shape.dtype, device=shape.device)
    n_bytes = int(np.prod(size)) * shape.dtype.itemsize
    raw = torch.from_numpy(np.zeros(n_bytes + ALIGNMENT_BYTES, np.uint8))
    skip = -raw.data_ptr() % ALIGNMENT_BYTES
    return raw[skip : skip + n_bytes].view(shape.dtype).view(size)


# -- prefix cache ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, eq=False)
class CachedPrompt:
    """The slots of a prompt's first `len(digests)` chunks.  `digests[i]` is a digest of the owner and chunks 0 to i."""

    slots: range
    digests: tuple[bytes, ...]


class PrefixCache:
    """Keeps the keys and values of prompts for later prompts that begin with the same tokens.

    An owner (the caller's API key) gets only prompts of its own, so that timing does not show what others have sent.
    Prompts stay in the slots of ended sessions, cut to whole chunks of `grain` tokens.  Together they hold at most
    `max_slots` slots; with 0, nothing is kept.  The least recently used prompt is dropped first, both to keep this
    limit and to make room when the pool is full.
    """

    def __init__(self, pool: SlotPool, *, grain: int, max_slots: int) -> None:
        self._pool = pool
        self._grain = grain
        self._max_chunks = max_slots // grain
        self._by_digest: dict[bytes, list[CachedPrompt]] = {}
        self._prompts: OrderedDict[int, CachedPrompt] = OrderedDict()
        if self._max_chunks:
            pool.make_room = self.make_room

    @property
    def ranges(self) -> list[range]:
        """The slots of each prompt, the least recently used first."""
        return [prompt.slots for prompt in self._prompts.values()]

    @property
    def n_slots(self) -> int:
        """The number of slots that prompts hold."""
        return sum(map(len, self.ranges))

    def restore(self, owner: str, prompt_ids: Sequence[int], slots: range) -> int:
        """Copy the longest kept beginning of the prompt to `slots`, and return its length.  It never includes the last
        token of the prompt."""
        best, n_chunks = None, 0
        for digest in self._digests(owner, prompt_ids[:-1]):
            if digest not in self._by_digest:
                break
            best, n_chunks = self._by_digest[digest][-1], n_chunks + 1
        if best is None:
            return 0
        self._prompts.move_to_end(id(best))
        n_tokens = n_chunks * self._grain
        self._pool.copy(best.slots[:n_tokens], slots[:n_tokens])
        return n_tokens

    def keep(self, owner: str, prompt_ids: Sequence[int], slots: range) -> None:
        """Keep the `slots` of an ended session that hold whole chunks of `prompt_ids`, as far as the limit allows.
        Gives back the other slots, or all slots if these chunks are already kept."""
        digests = tuple(self._digests(owner, prompt_ids))[: self._max_chunks]
        known = self._by_digest.get(digests[-1], []) if digests else []
        if known:
            self._prompts.move_to_end(id(known[-1]))
        if known or not digests:
            self._pool.give_back(slots)
            return
        n_used = len(digests) * self._grain
        self._pool.give_back(slots[n_used:])
        for digest in digests:  # drop prompts that are a beginning of this one
            for covered in [one for one in self._by_digest.get(digest, ()) if one.digests[-1] == digest]:
                self._drop(covered)
        prompt = CachedPrompt(slots[:n_used], digests)
        self._prompts[id(prompt)] = prompt
        for digest in digests:
            self._by_digest.setdefault(digest, []).append(prompt)
        while self.n_slots > self._max_chunks * self._grain:
            self._drop(next(iter(self._prompts.values())))

    def make_room(self, n_slots: int) -> bool:
        """Free prompts so that the pool has a free range of `n_slots` slots.  Returns whether it has one.

        Starting with the least recently used prompt, it finds the fewest prompts whose removal would open such a range.
        Of these, it frees the prompts that lie in the range.
        """
        prompts, ranges = list(self._prompts.values()), self.ranges
        n_freed = bisect_left(
            range(len(prompts) + 1), True, key=lambda n: self._pool.find(n_slots, ranges[:n]) is not None
        )
        opened = self._pool.find(n_slots, ranges[:n_freed])
        if opened is None:
            return False
        for prompt in prompts[:n_freed]:
            if prompt.slots.start < opened.stop and opened.start < prompt.slots.stop:
                self._drop(prompt)
        return True

    def _drop(self, prompt: CachedPrompt) -> None:
        del self._prompts[id(prompt)]
        for digest in prompt.digests:
            holders = self._by_digest[digest]
            holders.remove(prompt)
            if not holders:
                del self._by_digest[digest]
        self._pool.give_back(prompt.slots)

    def _digests(self, owner: str, ids: Sequence[int]) -> Iterator[bytes]:
        """Yield one digest for each whole chunk: a digest of the owner and of all tokens up to the end of that
        chunk."""
        running = blake2b(key=blake2b(owner.encode()).digest(), digest_size=16)
        array = np.asarray(ids, dtype=np.int64)
        for end in range(self._grain, len(array) + 1, self._grain):
            running.update(array[end - self._grain : end].tobytes())
            yield running.digest()


# -- sessions ----------------------------------------------------------------------------------------------------------
class SlotEngine:
    """Base class of the engines that keep keys and values in slots.  It opens sessions and releases their slots."""

    determinism: Literal["bitwise", "tolerant"]
    attends_in_blocks = True
    """Whether attention reads keys in multiples of `key_grain`.  If not, it reads all slots of a session."""

    def __init__(
        self,
        shape: KVShape,
        *,
        context_limit: int,
        pass_times: Mapping[int, float],
        key_grain: int,
        kv_cache_bytes: int,
        prefix_cache_bytes: int,
        pool: SlotPool | None = None,
    ) -> None:
        """Make the pool and the prefix cache.  `pass_times`: the relative time of a pass by its number of rows.
        `key_grain`: a session has a multiple of this many slots.  `pool`: the slots of another engine, to be shared."""
        self.context_limit = context_limit
        self.pass_times = pass_times
        self.max_draft = max(pass_times) - 1
        self.prefill_grain = max(1, min(PREFILL_GRAIN, max(pass_times) // 2))
        self._key_grain = key_grain
        n_slots = max(kv_cache_bytes // shape.bytes_per_slot, context_limit)
        self.pool = pool or SlotPool(shape, round_up(n_slots, key_grain))
        max_kept = prefix_cache_bytes // shape.bytes_per_slot
        self.prefix_cache = PrefixCache(self.pool, grain=self.prefill_grain, max_slots=max_kept)

    def open(self, prompt_ids: Sequence[int], max_new_tokens: int, *, owner: str = "") -> Session | None:
        refuse_over_limit(len(prompt_ids), max_new_tokens, min(self.context_limit, self.pool.n_slots))
        slots = self.pool.take(round_up(len(prompt_ids) + max_new_tokens, self._key_grain))
        if slots is None:
            return None
        if not self.attends_in_blocks and self.determinism == "bitwise":
            owner = f"{len(slots)} {owner}"  # results are bitwise equal only between sessions of the same size
        n_cached = self.prefix_cache.restore(owner, prompt_ids, slots)
        return Session(prompt_ids, slots, owner=owner, n_cached=n_cached, release=self._release)

    def _release(self, session: Session) -> None:
        n_known = min(session.length, len(session.prompt_ids) - 1) if session.is_sound else 0
        self.prefix_cache.keep(session.owner, session.prompt_ids[:n_known], session.slots)

    def _n_keys(self, session: Session, n_filled: int) -> int:
        """Return the number of slots that attention reads when `n_filled` slots of the session are written."""
        return round_up(n_filled, self._key_grain) if self.attends_in_blocks else len(session.slots)

    def _clear_keys(self, parts: Sequence[Part]) -> None:
        """Clear the slots that attention is about to read if they may hold data of an earlier session."""
        for part in parts:
            session = part.session
            end = self._n_keys(session, session.length + part.n_rows)
            if end > session.cleared:
                self.pool.clear(session.slots[session.cleared : end])
                session.cleared = end

    def check_integrity(self) -> None:
        """Check that every slot is either free or in the prefix cache, while no session is open.  Raises EngineFailure
        if a slot is neither, or both."""
        n_held = self.pool.n_slots - self.pool.n_free
        n_kept, ranges = self.prefix_cache.n_slots, self.prefix_cache.ranges
        if n_held != n_kept or self.pool.find(self.pool.n_slots, ranges) is None:
            raise EngineFailure(
                f"internal fault: {n_held} slots of the KV cache are in use, but {n_kept} should be",
                value=n_held,
                limit=n_kept,
            )


def settle(parts: Sequence[Part], found: Iterable[Verification]) -> list[Verification | None]:
    """Advance the sessions of a pass, and return an answer for each part: the next one from `found` for a window, None
    for a chunk of a prompt.  Raises EngineFailure if a probability is not a number; in that case no session has
    advanced."""
    rest = iter(found)
    answers = [next(rest) if isinstance(part, Window) else None for part in parts]
    for part, answer in zip(parts, answers, strict=True):
        if answer is not None and any(map(math.isnan, answer.logprobs or ())):
            part.session.is_sound = False
            raise EngineFailure(
                "internal fault: the model computed a probability that is not a number", value=part.session.length
            )
    for part, answer in zip(parts, answers, strict=True):
        part.session.length += part.n_rows if answer is None else part.session.n_pending + len(answer.choices)
    return answers


def round_up(n: int, grain: int) -> int:
    """Return the smallest multiple of `grain` that is at least `n`."""
    return -(-n // grain) * grain


def refuse_over_limit(n_prompt: int, max_new_tokens: int, limit: int, remedy: str | None = None) -> None:
    """Raise ContextLimitExceeded if prompt and new tokens exceed `limit`.  `remedy` is given if something other than
    the model sets the limit."""
    if n_prompt + max_new_tokens > limit:
        raise ContextLimitExceeded(
            f"{n_prompt} prompt tokens and up to {max_new_tokens} new ones exceed the context limit"
            + ("" if remedy else " of the model"),
            value=n_prompt + max_new_tokens,
            limit=limit,
            remedy=remedy or "send a smaller file, or use a model with a longer context",
        )

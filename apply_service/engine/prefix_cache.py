"""Keys and values of prompts already read, for the next prompt that begins the same way: editing a file again prefills
only what is new.

Kept apart by owner (the caller's API key), so that nobody learns from timing what another has sent.  Entries are the
slots of ended sessions, cut to whole chunks of the prompt; the least recently used goes first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from apply_service.engine.kv_cache import SlotPool


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Slots that hold a prompt's first `len(digests)` chunks; `digests[i]` stands for chunks 0..i and the owner."""

    slots: range
    digests: tuple[bytes, ...]


class PrefixCache:
    """Prompts by what they begin with.  `max_slots` bounds what all entries hold together; 0 keeps nothing.  Makes room
    where the pool is full, whoever asks."""

    def __init__(self, pool: SlotPool, *, grain: int, max_slots: int) -> None:
        self._pool = pool
        self._grain = grain
        self._max_chunks = max_slots // grain
        self._by_digest: dict[bytes, list[Entry]] = {}
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        if self._max_chunks:
            pool.when_full(self.make_room)

    @property
    def n_slots(self) -> int:
        """Slots that entries hold."""
        return sum(len(entry.slots) for entry in self._entries.values())

    @property
    def ranges(self) -> list[range]:
        """The slots of every entry, the least recently used first."""
        return [entry.slots for entry in self._entries.values()]

    def restore(self, owner: str, prompt_ids: Sequence[int], slots: range) -> int:
        """Copy the longest known beginning of the prompt, but for its last token, into `slots`; how many tokens."""
        best, n_chunks = None, 0
        for digest in self._digests(owner, prompt_ids[:-1]):
            if digest not in self._by_digest:
                break
            best, n_chunks = self._by_digest[digest][-1], n_chunks + 1
        if best is None:
            return 0
        self._entries.move_to_end(id(best))
        n_tokens = n_chunks * self._grain
        self._pool.copy(best.slots[:n_tokens], slots[:n_tokens])
        return n_tokens

    def keep(self, owner: str, prompt_ids: Sequence[int], slots: range) -> None:
        """Take over the `slots` of an ended session that hold `prompt_ids`, as many whole chunks of it as may be kept;
        gives back the rest, and all of it where these chunks are known already."""
        digests = tuple(self._digests(owner, prompt_ids))[: self._max_chunks]
        known = self._by_digest.get(digests[-1], []) if digests else []
        if known:
            self._entries.move_to_end(id(known[-1]))
        if known or not digests:
            self._pool.give_back(slots)
            return
        n_used = len(digests) * self._grain
        self._pool.give_back(slots[n_used:])
        self._drop_covered(digests)
        self._add(Entry(slots[:n_used], digests))
        while self.n_slots > self._max_chunks * self._grain:
            self._drop(next(iter(self._entries.values())))

    def make_room(self, n_slots: int) -> bool:
        """Free entries until the pool has a range of that length: the fewest of the least recently used would open one,
        those of them that lie in it are freed.  Frees none, and says so, where all of them would not do."""
        entries = list(self._entries.values())
        ranges = [entry.slots for entry in entries]
        n_freed = bisect_left(
            range(len(entries) + 1), True, key=lambda n: self._pool.find(n_slots, ranges[:n]) is not None
        )
        opened = self._pool.find(n_slots, ranges[:n_freed])
        if opened is None:
            return False
        for entry in entries[:n_freed]:
            if entry.slots.start < opened.stop and opened.start < entry.slots.stop:
                self._drop(entry)
        return True

    def _add(self, entry: Entry) -> None:
        self._entries[id(entry)] = entry
        for digest in entry.digests:
            self._by_digest.setdefault(digest, []).append(entry)

    def _drop_covered(self, digests: Sequence[bytes]) -> None:
        """Drop the entries all of whose chunks are among `digests`."""
        for digest in digests:
            for entry in list(self._by_digest.get(digest, ())):
                if entry.digests[-1] == digest:
                    self._drop(entry)

    def _drop(self, entry: Entry) -> None:
        del self._entries[id(entry)]
        for digest in entry.digests:
            holders = self._by_digest[digest]
            holders.remove(entry)
            if not holders:
                del self._by_digest[digest]
        self._pool.give_back(entry.slots)

    def _digests(self, owner: str, ids: Sequence[int]) -> Iterator[bytes]:
        """One for every whole chunk: a digest of the owner and all tokens up to its end."""
        running = blake2b(key=blake2b(owner.encode()).digest(), digest_size=16)
        array = np.asarray(ids, dtype=np.int64)
        for end in range(self._grain, len(array) + 1, self._grain):
            running.update(array[end - self._grain : end].tobytes())
            yield running.digest()

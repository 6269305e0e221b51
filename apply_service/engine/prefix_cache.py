"""Keys and values of prompts already read, for the next prompt that begins the same way: editing a file again prefills
only what is new.

Kept apart by owner (the caller's API key), so that nobody learns from timing what another has sent.  Entries are the
slots of ended sessions, cut to whole chunks of the prompt; the least recently used goes first.
"""

from __future__ import annotations

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
    """Prompts by what they begin with.  `max_slots` bounds what all entries hold together; 0 keeps nothing."""

    def __init__(self, pool: SlotPool, *, grain: int, max_slots: int) -> None:
        self._pool = pool
        self._grain = grain
        self._max_slots = max_slots
        self._by_digest: dict[bytes, Entry] = {}
        self._entries: OrderedDict[int, Entry] = OrderedDict()

    @property
    def n_slots(self) -> int:
        """Slots that entries hold."""
        return sum(len(entry.slots) for entry in self._entries.values())

    def restore(self, owner: str, prompt_ids: Sequence[int], slots: range) -> int:
        """Copy the longest known beginning of the prompt, but for its last token, into `slots`; how many tokens."""
        best, n_chunks = None, 0
        for i, digest in enumerate(self._digests(owner, prompt_ids[:-1])):
            if digest not in self._by_digest:
                break
            best, n_chunks = self._by_digest[digest], i + 1
        if best is None:
            return 0
        self._entries.move_to_end(id(best))
        n_tokens = n_chunks * self._grain
        self._pool.copy(best.slots[:n_tokens], slots[:n_tokens])
        return n_tokens

    def keep(self, owner: str, prompt_ids: Sequence[int], slots: range) -> None:
        """Take over the `slots` of an ended session that hold `prompt_ids`, whole chunks of it; gives back the rest,
        and all of it where the prompt is known already."""
        digests = tuple(self._digests(owner, prompt_ids))
        n_used = len(digests) * self._grain
        if not digests or n_used > self._max_slots or digests[-1] in self._by_digest:
            self._pool.give_back(slots)
            return
        self._pool.give_back(slots[n_used:])
        entry = Entry(slots[:n_used], digests)
        self._entries[id(entry)] = entry
        for digest in digests:
            before = self._by_digest.get(digest)
            self._by_digest[digest] = entry
            if before is not None and before.digests[-1] == digest:
                self._drop(before)
        while self.n_slots > self._max_slots:
            self.evict()

    def evict(self) -> bool:
        """Free the least recently used entry; False where there is none."""
        if not self._entries:
            return False
        self._drop(next(iter(self._entries.values())))
        return True

    def _drop(self, entry: Entry) -> None:
        del self._entries[id(entry)]
        for digest in entry.digests:
            if self._by_digest.get(digest) is entry:
                del self._by_digest[digest]
        self._pool.give_back(entry.slots)

    def _digests(self, owner: str, ids: Sequence[int]) -> Iterator[bytes]:
        """One for every whole chunk: a digest of the owner and all tokens up to its end."""
        running = blake2b(owner.encode(), digest_size=16)
        array = np.asarray(ids, dtype=np.int64)
        for end in range(self._grain, len(array) + 1, self._grain):
            running.update(array[end - self._grain : end].tobytes())
            yield running.digest()

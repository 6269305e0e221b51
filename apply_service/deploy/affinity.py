"""Which engine is asked about a file: the one whose prefix cache is likely to hold it, unless that one is overloaded.

Only numbers and texts here; `file_router` applies it to Ray's replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from apply_service.types import ApplyRequest

PREFIX_CHARS = 256
"""The beginning of the original that counts: about what the first chunk of a prompt (64 tokens) holds of it, so that a
version of the file that begins otherwise would find nothing in the cache anyway."""


def file_key(request: ApplyRequest) -> str:
    """The same for all edits of a file whose prompts can share keys and values: by owner and model, as the prefix cache
    is, by path and by the beginning of the text."""
    digest = blake2b(digest_size=16)
    for part in (request.owner, request.model or "", request.path or "", request.original[:PREFIX_CHARS]):
        digest.update(blake2b(part.encode("utf-8", "surrogatepass"), digest_size=16).digest())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Overflow:
    """When a replica has so much to do that a file is sent to another one: above `depth` requests, and above `ratio`
    times its share of all of them.

    The bound on the share is that of consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam, 2016).
    The defaults come from a simulation (docs/log.md): with windows beyond the knee, edits that share an engine slow
    each other down, and waiting costs more than reading a file once more.
    """

    depth: int = 2
    ratio: float = 1.25

    def __post_init__(self) -> None:
        if self.depth < 1 or self.ratio < 1:
            raise ValueError(f"depth {self.depth} and ratio {self.ratio} must be 1 or more")

    def order(self, loads: Sequence[int | None]) -> list[int]:
        """Indices of the replicas, given in order of preference with the requests that each one has (None: not known,
        taken for none), in the order in which they are to be tried: those within bounds as preferred, then the others,
        the least loaded first."""
        known = [load or 0 for load in loads]
        bound = max(self.depth, self.ratio * (sum(known) + 1) / len(known)) if known else 0
        within = [i for i, load in enumerate(known) if load < bound]
        over = sorted((i for i, load in enumerate(known) if load >= bound), key=lambda i: known[i])
        return within + over

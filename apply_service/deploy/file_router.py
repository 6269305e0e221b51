"""Ray Serve's consistent-hash router, with overflow by load: a favourite replica is passed over while it has much more
to do than the others, not only once it takes nothing more.

Runs wherever a handle of the engines is used, in each ingress.  The key is the handle's `session_id`.
"""

from __future__ import annotations

from typing import Any

from ray.serve.experimental.consistent_hash_router import ConsistentHashRouter

from apply_service.deploy.forwarding import Overflow

FALLBACKS = 1024
"""Replicas after the favourite that are considered: all of them."""


class FileRouter(ConsistentHashRouter):  # type: ignore[misc]
    """`request_router_kwargs`: `overflow_depth`, `overflow_ratio` (see `Overflow`), and those of its base."""

    def initialize_state(self, **kwargs: Any) -> None:
        """Raises ValueError where a number is out of range."""
        names = ("depth", "ratio")
        own = {name: kwargs.pop(f"overflow_{name}") for name in names if f"overflow_{name}" in kwargs}
        self._overflow = Overflow(**own)
        super().initialize_state(**{"num_fallback_replicas": FALLBACKS, **kwargs})

    async def choose_replicas(self, candidate_replicas: list[Any], pending_request: Any = None) -> list[list[Any]]:
        """Ranks of one replica each, in the order in which they are to be tried."""
        ranks: list[list[Any]] = await super().choose_replicas(candidate_replicas, pending_request)
        if len(ranks) < 2:
            return ranks
        loads = [self.replica_queue_len_cache.get(rank[0].replica_id) for rank in ranks]
        return [ranks[i] for i in self._overflow.order(loads)]

"""No draft: with a padded engine the oracle of the lossless law, with `TorchEngine.plain` the baseline of every
speed-up."""

from __future__ import annotations

from collections.abc import Sequence

from apply_service.protocols import EMPTY_DRAFT, Draft, DraftContext


class NoDraft:
    """Takes a context as every drafter does, looks at nothing, learns nothing and holds nothing."""

    def __init__(self, context: DraftContext | None = None) -> None: ...

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:  # noqa: ARG002
        return EMPTY_DRAFT

    def observe(self, n_accepted: int, next_id: int) -> None: ...

    def close(self) -> None: ...

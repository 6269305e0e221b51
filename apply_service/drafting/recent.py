"""What a target has written lately: the same edit asked again, or a like one, brings much of it again.

Kept by caller (the API key) and file, so that nobody's drafts, and so nobody's timing, tell what others have sent.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

OUTPUTS_PER_FILE = 3
MAX_TOKENS = 2**19
"""Of all outputs together: 4 MiB."""


class RecentOutputs:
    """The last outputs for each file of each caller.  The files least recently written are dropped first."""

    def __init__(self, max_tokens: int = MAX_TOKENS) -> None:
        self._max_tokens = max_tokens
        self._outputs: OrderedDict[tuple[str, str], tuple[Sequence[int], ...]] = OrderedDict()
        self.n_tokens = 0

    def of(self, owner: str, path: str | None) -> tuple[Sequence[int], ...]:
        """Return the outputs for a file, the oldest first.  Files without a name count as one."""
        return self._outputs.get((owner, path or ""), ())

    def keep(self, owner: str, path: str | None, output_ids: Sequence[int]) -> None:
        """Add an output; one that is there already becomes the last."""
        key, ids = (owner, path or ""), tuple(output_ids)
        before = self._outputs.pop(key, ())
        kept = (*(one for one in before if one != ids), ids)[-OUTPUTS_PER_FILE:]
        self._outputs[key] = kept
        self.n_tokens += sum(map(len, kept)) - sum(map(len, before))
        while self.n_tokens > self._max_tokens:
            _, dropped = self._outputs.popitem(last=False)
            self.n_tokens -= sum(map(len, dropped))

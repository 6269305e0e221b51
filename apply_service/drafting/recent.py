"""Keeps what a target has written lately, because the same edit or a similar one repeats much of that text.

The outputs are kept apart by caller (the API key) and file.  So neither drafts nor their timing show a caller what
others have sent.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

OUTPUTS_PER_FILE = 3
MAX_TOKENS = 2**19
"""All outputs together have at most this many tokens, which take 4 MiB."""


class RecentOutputs:
    """The last outputs for each file of each caller.  The file written least recently is dropped first."""

    def __init__(self, max_tokens: int = MAX_TOKENS) -> None:
        self._max_tokens = max_tokens
        self._outputs: OrderedDict[tuple[str, str], tuple[Sequence[int], ...]] = OrderedDict()
        self.n_tokens = 0

    def of(self, owner: str, path: str | None) -> tuple[Sequence[int], ...]:
        """Return the outputs for a file, the oldest first.  All files without a name count as one file."""
        return self._outputs.get((owner, path or ""), ())

    def keep(self, owner: str, path: str | None, output_ids: Sequence[int]) -> None:
        """Add an output as the last one.  If it is already there, it moves to the end."""
        key, ids = (owner, path or ""), tuple(output_ids)
        before = self._outputs.pop(key, ())
        kept = (*(one for one in before if one != ids), ids)[-OUTPUTS_PER_FILE:]
        self._outputs[key] = kept
        self.n_tokens += sum(map(len, kept)) - sum(map(len, before))
        while self.n_tokens > self._max_tokens:
            _, dropped = self._outputs.popitem(last=False)
            self.n_tokens -= sum(map(len, dropped))

"""Defines proposals.  A proposal is one way to read a lazy snippet, written out as a finished merge.

Makers yield proposals; the ranking and the checks take them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from apply_service.merge.reading import ReadSnippet
from apply_service.types import LineOp, Merge, Way


@dataclass(frozen=True)
class Proposal:
    """One way to read a lazy snippet, as a finished merge."""

    ops: Merge
    snippet: ReadSnippet
    """The snippet as it was read for this merge."""
    texts: tuple[str, ...]
    """The update's lines as this merge writes them."""
    ways: tuple[Way, ...]
    """How the proposal was made: one way at first; later all the ways that lead to the same text."""
    reasons: tuple[str, ...] = ()
    """The maker's reasons to doubt the proposal."""
    features: Mapping[str, float] = field(default_factory=dict)
    """At first only the features that the maker knows; later all features."""
    told: frozenset[int] = frozenset()
    """The update lines of comments that the merge carries out."""
    risks: Mapping[str, str] = field(default_factory=dict)
    """Risks by name (`rank.risks`), each in words.  A risk makes the merge less sure than its features say."""
    limit: float = 1.0
    """The highest probability that the proposal may get."""

    @property
    def text(self) -> str:
        """The merged text."""
        return self.ops.text

    @property
    def way(self) -> Way:
        """The first way that led to the proposal."""
        return self.ways[0]


def texts_of(ops: Sequence[LineOp], update: Sequence[str]) -> tuple[str, ...]:
    """Return the update's lines as a merge writes them.  The merge may have changed their indentation."""
    texts = list(update)
    for op in ops:
        if op.kind == "take" and op.update_line is not None:
            texts[op.update_line] = op.text
    return tuple(texts)

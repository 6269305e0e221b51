"""A proposal: one way to read a lazy snippet, as a finished merge.

Every maker of readings gives proposals, and everything that judges readings takes them.
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
    """How it was made: one way, until all that lead to its text are gathered."""
    reasons: tuple[str, ...] = ()
    """What its maker doubts."""
    features: Mapping[str, float] = field(default_factory=dict)
    """Those that only its maker can tell; all of them, once it is weighed."""
    told: frozenset[int] = frozenset()
    """The update lines of comments that it carries out."""
    risks: Mapping[str, str] = field(default_factory=dict)
    """What makes it less sure than its features say: the name of the risk (`rank.risks`) and the risk in words."""
    limit: float = 1.0
    """The most that its probability may be."""

    @property
    def text(self) -> str:
        """The merged text."""
        return self.ops.text

    @property
    def way(self) -> Way:
        """The first way to it."""
        return self.ways[0]


def texts_of(ops: Sequence[LineOp], update: Sequence[str]) -> tuple[str, ...]:
    """Give the update's lines as a merge writes them: some are moved to another indentation."""
    texts = list(update)
    for op in ops:
        if op.kind == "take" and op.update_line is not None:
            texts[op.update_line] = op.text
    return tuple(texts)

"""Lazy snippets: parts of the new file with markers ("... existing code ...") for what stays.

The format that takes whatever no other format is sure of.  The work is done by `merge`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, groupby

from apply_service.edits.merge import merge
from apply_service.errors import EmptyUpdate, TooLarge
from apply_service.types import LineOp, Prediction

MAX_CHARACTERS = 32_000_000


class LazySnippet:
    """The `EditFormat` of lazy snippets."""

    name = "lazy_snippet"

    def detect(self, update: str) -> bool:  # noqa: ARG002
        """Never sure: it takes what is left."""
        return False

    def predict(
        self,
        original: str,
        update: str,
        *,
        language: str | None,
        path: str | None,
        instruction: str = "",  # noqa: ARG002
    ) -> Prediction:
        """The predicted merge.

        Raises:
            EmptyUpdate: the snippet has no visible character.
            TooLarge: the texts are too large to align.
        """
        if not update.strip():
            raise EmptyUpdate("the snippet is empty", remedy="send the lines that change, with markers for the rest")
        if len(original) + len(update) > MAX_CHARACTERS:
            raise TooLarge(
                "original and snippet are too large to merge",
                value=len(original) + len(update),
                limit=MAX_CHARACTERS,
                remedy="send a smaller file",
            )
        prediction = merge(original, update, language=language, path=path)
        return replace(prediction, ops=drops_first(prediction.ops))


def drops_first(ops: Sequence[LineOp]) -> tuple[LineOp, ...]:
    """The same merge with the drops before the takes in every run of both, as the contract of `LineOp` has it."""
    runs = groupby(ops, key=lambda op: op.kind in ("drop", "take"))
    return tuple(chain.from_iterable(sorted(run, key=_place) if is_change else run for is_change, run in runs))


def _place(op: LineOp) -> bool:
    return op.kind == "take"

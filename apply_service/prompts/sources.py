"""Draft sources for formats whose output is the plain file between two tags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Literal

import numpy as np
import numpy.typing as npt

from apply_service.prompts.tokenizer import ContentTokenizer
from apply_service.protocols import DraftSource, DraftSources, EditJob
from apply_service.types import LineOp

Chars = npt.NDArray[np.int64]


def text_sources(job: EditJob, tokenizer: ContentTokenizer, *, before: str, after: str, end_id: int) -> DraftSources:
    """Each source as `before + text + after + end token`."""

    def source(name: Literal["predicted", "original", "update"], text: str) -> DraftSource:
        wrapped = before + text + after
        ids, starts = tokenizer.encode(wrapped)
        return DraftSource(name, wrapped, np.array([*ids, end_id], np.int64), np.append(starts, len(wrapped)))

    update = "\n".join(job.prediction.update_lines)
    predicted = source("predicted", job.prediction.text)
    original, snippet = source("original", job.original), source("update", update)
    to_original, to_update = _char_maps(job.prediction.ops, job.prediction.update_lines)
    places = np.clip(predicted.starts - len(before), 0, len(to_original) - 1)
    return DraftSources(
        predicted=predicted,
        original=original,
        update=snippet,
        predicted_to_original=_token_places(to_original[places] + len(before), predicted, original),
        predicted_to_update=_token_places(to_update[places] + len(before), predicted, snippet),
        encode=_encode_ids(tokenizer),
        decode=tokenizer.decode,
    )


def _encode_ids(tokenizer: ContentTokenizer) -> Callable[[str], list[int]]:
    return lambda text: tokenizer.encode(text).ids


def _token_places(chars: Chars, predicted: DraftSource, other: DraftSource) -> Chars:
    """Token indices in `other` for characters of it; the first token (the tag's) maps to the first."""
    places = np.searchsorted(other.starts[:-1], chars)
    places[predicted.starts == 0] = 0
    return np.minimum(places, len(other.ids))


def _char_maps(ops: Sequence[LineOp], update_lines: Sequence[str]) -> tuple[Chars, Chars]:
    """For every character of the predicted merge [n_chars + 1]: the character at which the original and the update
    stand."""
    original_starts = list(accumulate((len(op.text) + 1 for op in ops if op.original_line is not None), initial=0))
    update_starts = list(accumulate((len(line) + 1 for line in update_lines), initial=0))
    to_original: list[Chars] = []
    to_update: list[Chars] = []
    original_at = update_at = 0
    for op in ops:
        size = len(op.text) + 1
        span = np.arange(size, dtype=np.int64)
        in_original, in_update = op.original_line is not None, op.update_line is not None
        if in_original:
            original_at = original_starts[op.original_line or 0]
        if in_update:
            update_at = update_starts[op.update_line or 0]
        if op.kind != "drop":
            to_original.append(original_at + (span if in_original else 0 * span))
            to_update.append(update_at + (span if in_update else 0 * span))
        original_at += size if in_original else 0
        update_at += len(update_lines[op.update_line or 0]) + 1 if in_update else 0
    return np.concatenate(to_original), np.concatenate(to_update)

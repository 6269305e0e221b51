"""From merged lines to an answer: original bytes put back, origin of every line, minimal edits, hashes.

Stands at the end of a request's path, after decoding and before the checks' verdicts are attached.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from itertools import groupby

from apply_service.edits.diff import LINE, TextHunk
from apply_service.edits.fidelity import ops_from_texts
from apply_service.types import Hunk, LineOp, Origin, Prediction, Span


def attribute_ops(original: str, merged: str, prediction: Prediction) -> tuple[LineOp, ...]:
    """The line operations that lead from `original` to `merged`: the prediction's own where it said the same text, else
    the smallest set, with added lines credited to the update where it has them."""
    if merged == prediction.text:
        return prediction.ops
    lines_of_update: dict[str, int] = {}
    for i, line in enumerate(prediction.update_lines):
        lines_of_update.setdefault(line.strip(), i)
    return tuple(
        op._replace(update_line=lines_of_update.get(op.text.strip())) if op.kind == "take" and op.text.strip() else op
        for op in ops_from_texts(original, merged)
    )


def origin_spans(ops: Sequence[LineOp], *, is_from_model: bool) -> tuple[Span, ...]:
    """Runs of merged lines with the same origin.  Added lines that no update line explains are the model's, where one
    ran."""
    written = [_origin(op, is_from_model) for op in ops if op.kind != "drop"]
    spans, start = [], 0
    for origin, run in groupby(written):
        end = start + len(list(run))
        spans.append(Span(start, end, origin))
        start = end
    return tuple(spans)


def _origin(op: LineOp, is_from_model: bool) -> Origin:
    if op.original_line is not None:
        return "original"
    return "update" if op.update_line is not None or not is_from_model else "model"


def confident_hunks(
    hunks: Sequence[TextHunk],
    merged: str,
    line_logprobs: Mapping[int, float] | None,
    confidence_at: Callable[[float], float] = math.exp,
) -> tuple[Hunk, ...]:
    """The hunks with their confidence; `line_logprobs` has the least one at a decision of each line of the merged text
    (LF lines), None where no target decided; `confidence_at` makes a confidence of the least in a hunk."""
    at = _decided_lines(merged) if line_logprobs else []
    found, n_edits = [], 0
    for (a0, a1, b0, b1), edits in hunks:
        least = _least(line_logprobs, at[b0], at[b1] + (b1 == len(at) - 1)) if line_logprobs else None
        confidence = None if least is None else confidence_at(least)
        found.append(Hunk(a0, a1, b0, b1, n_edits, n_edits + len(edits), confidence))
        n_edits += len(edits)
    return tuple(found)


def _least(line_logprobs: Mapping[int, float], first: int, last: int) -> float | None:
    return min((line_logprobs[line] for line in range(first, last + 1) if line in line_logprobs), default=None)


def _decided_lines(merged: str) -> list[int]:
    """For every line as editors count, and the end: the line as the service counts, where a lone `\\r` ends none."""
    has_breaks = "\n" in merged
    lines = [0]
    for line in LINE.findall(merged):
        lines.append(lines[-1] + (line.endswith("\n") or not has_breaks))
    return lines


def hash_bytes(data: bytes) -> str:
    return sha256(data).hexdigest()

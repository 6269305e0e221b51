"""Encodes and decodes the edit that a request sends to vLLM in `vllm_xargs`.

The message holds the original, the update as the merger reads it, and the predicted merge as runs of operations over
the two.  The worker makes draft sources from the message, with the same code as an engine in this process.  A wrong
message can make drafts bad, but never the output wrong.  A malformed message is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from apply_service.errors import InvalidField
from apply_service.protocols import EditJob
from apply_service.types import Certainty, LineKind, LineOp, Prediction

ORIGINAL, UPDATE, OPS, FORMAT = "apply_original", "apply_update", "apply_ops", "apply_format"
KEYS = frozenset({ORIGINAL, UPDATE, OPS, FORMAT})
KINDS: tuple[LineKind, ...] = ("keep", "both", "drop", "take")
RUN_FIELDS = 3
"""A run consists of a kind, the number of operations of that kind, and their first line of the update (`NO_LINE` if
none).  It names no lines of the original, because a merge goes through these in order."""
NO_LINE = -1

Argument = str | list[str] | list[int]


class SentEdit(NamedTuple):
    """An edit that a request sent, and the format of the request's prompt (None means the model's own)."""

    job: EditJob
    format_name: str | None


def encode_edit(job: EditJob, format_name: str | None = None) -> dict[str, Argument]:
    """Return the job's edit as values of `vllm_xargs`.  `format_name`: the format of the prompt, if that is not the
    model's own."""
    runs: list[list[int]] = []
    for op in job.prediction.ops:
        kind, line = KINDS.index(op.kind), NO_LINE if op.update_line is None else op.update_line
        if runs:
            last_kind, n_lines, first = runs[-1]
            if kind == last_kind and line == (NO_LINE if first == NO_LINE else first + n_lines):
                runs[-1][1] += 1
                continue
        runs.append([kind, 1, line])
    message: dict[str, Argument] = {
        ORIGINAL: job.original,
        UPDATE: list(job.prediction.update_lines),
        OPS: [number for run in runs for number in run],
    }
    return message if format_name is None else message | {FORMAT: format_name}


def decode_edit(arguments: Mapping[str, Any] | None) -> SentEdit | None:
    """Return the edit in the arguments of a request; None if they hold no edit.  Raises InvalidField if an argument is
    malformed, or the operations are not a merge of the texts."""
    if not arguments or not KEYS & arguments.keys():
        return None
    original, update, numbers, format_name = (arguments.get(key) for key in (ORIGINAL, UPDATE, OPS, FORMAT))
    if not isinstance(original, str):
        raise _malformed(ORIGINAL, "a text")
    if not isinstance(update, list) or not all(isinstance(line, str) for line in update):
        raise _malformed(UPDATE, "a list of lines")
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers) or len(numbers) % RUN_FIELDS:
        raise _malformed(OPS, "three whole numbers a run")
    if format_name is not None and not isinstance(format_name, str):
        raise _malformed(FORMAT, "the name of a prompt format")
    ops = _read_ops(original.split("\n"), update, numbers)
    prediction = Prediction(tuple(ops), tuple(update), Certainty.GUESS)
    return SentEdit(EditJob(original, "\n".join(update), "", None, None, prediction), format_name)


def _read_runs(numbers: Sequence[int], most: int) -> list[Sequence[int]]:
    """Return the runs in `numbers` (see `RUN_FIELDS`).  Raises InvalidField if a kind is unknown, or there are more
    than `most` operations."""
    runs = [numbers[at : at + RUN_FIELDS] for at in range(0, len(numbers), RUN_FIELDS)]
    if any(not 0 <= kind < len(KINDS) or n_lines < 1 for kind, n_lines, _ in runs):
        raise _malformed(OPS, "kinds from 0 to 3, one line or more")
    # This is checked before anything is allocated, because a run may claim any length.
    if sum(n_lines for _, n_lines, _ in runs) > most:
        raise _malformed(OPS, "as many operations as there are lines, at most")
    return runs


def _read_ops(lines: Sequence[str], update: Sequence[str], numbers: Sequence[int]) -> list[LineOp]:
    """Return the operations that the numbers encode.  Raises InvalidField if the operations are not a merge of the
    lines."""
    runs = _read_runs(numbers, len(lines) + len(update))
    ops: list[LineOp] = []
    n_passed = 0
    for number, n_lines, first in runs:
        kind = KINDS[number]
        has_update, has_original = kind in ("both", "take"), kind != "take"
        is_known = 0 <= first <= len(update) - n_lines if has_update else first == NO_LINE
        if not is_known or (has_original and n_passed + n_lines > len(lines)):
            raise _malformed(OPS, "lines of the original and the update")
        for at in range(n_lines):
            line, update_line = n_passed + at if has_original else None, first + at if has_update else None
            text = update[first + at] if line is None else lines[line]
            ops.append(LineOp(kind, line, update_line, text))
        n_passed += n_lines if has_original else 0
    if n_passed != len(lines):
        raise _malformed(OPS, "every line of the original once")
    return ops


def _malformed(key: str, limit: str) -> InvalidField:
    """Return the error, without the value, because the value is the user's code."""
    return InvalidField(
        f"`vllm_xargs.{key}` is malformed",
        value=key,
        limit=limit,
        remedy="make it with apply_service.engine.vllm.message.encode_edit",
    )

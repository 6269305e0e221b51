"""What a request tells vLLM of its edit, in `vllm_xargs`: the original, the update as the merger reads it, and the
predicted merge as runs of operations over the two.

The other end makes draft sources of it by the same code as an engine in this process.  A message can make drafts bad,
never the output wrong; what is not well formed is refused whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from apply_service.errors import InvalidField
from apply_service.protocols import EditJob
from apply_service.types import Certainty, LineKind, LineOp, Prediction

ORIGINAL, UPDATE, OPS, FORMAT = "apply_original", "apply_update", "apply_ops", "apply_format"
KEYS = frozenset({ORIGINAL, UPDATE, OPS, FORMAT})
KINDS: tuple[LineKind, ...] = ("keep", "both", "drop", "take")
RUN_FIELDS = 3
NO_LINE = -1

Argument = str | list[str] | list[int]


class Run(NamedTuple):
    """`n_lines` operations of one kind in a row, on the lines of the update from `update_line` on (NO_LINE: none).  The
    original's lines need no number: a merge goes through them in order."""

    kind: int
    n_lines: int
    update_line: int


class Edit(NamedTuple):
    """An edit that was told, and the prompt format that it was asked in (None: the model's own)."""

    job: EditJob
    format_name: str | None


def encode_edit(job: EditJob, format_name: str | None = None) -> dict[str, Argument]:
    """The job's edit as values of `vllm_xargs`; `format_name` where it is asked in another than the model's own
    format."""
    message: dict[str, Argument] = {
        ORIGINAL: job.original,
        UPDATE: list(job.prediction.update_lines),
        OPS: [number for run in _runs(job.prediction.ops) for number in run],
    }
    return message if format_name is None else message | {FORMAT: format_name}


def _runs(ops: Sequence[LineOp]) -> Iterator[Run]:
    run: Run | None = None
    for op in ops:
        line = NO_LINE if op.update_line is None else op.update_line
        if run is not None and _continues(run, KINDS.index(op.kind), line):
            run = run._replace(n_lines=run.n_lines + 1)
            continue
        if run is not None:
            yield run
        run = Run(KINDS.index(op.kind), 1, line)
    if run is not None:
        yield run


def _continues(run: Run, kind: int, line: int) -> bool:
    return kind == run.kind and line == (NO_LINE if run.update_line == NO_LINE else run.update_line + run.n_lines)


def decode_edit(arguments: Mapping[str, Any] | None) -> Edit | None:
    """The edit that the arguments of a request tell; None where they tell of none.

    Raises:
        InvalidField: they tell of one that is no merge of these texts.
    """
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
    runs = [Run(*numbers[at : at + RUN_FIELDS]) for at in range(0, len(numbers), RUN_FIELDS)]
    prediction = Prediction(_ops(runs, original.split("\n"), update), tuple(update), Certainty.GUESS)
    return Edit(EditJob(original, "\n".join(update), "", None, None, prediction), format_name)


def _ops(runs: Sequence[Run], original: Sequence[str], update: Sequence[str]) -> tuple[LineOp, ...]:
    if any(not 0 <= run.kind < len(KINDS) or run.n_lines < 1 for run in runs):
        raise _malformed(OPS, "kinds from 0 to 3, one line or more")
    # Before anything is made of it: a run may claim any length.
    if sum(run.n_lines for run in runs) > len(original) + len(update):
        raise _malformed(OPS, "as many operations as there are lines, at most")
    ops: list[LineOp] = []
    n_passed = 0
    for run in runs:
        kind, has_update = KINDS[run.kind], KINDS[run.kind] in ("both", "take")
        first = run.update_line
        in_range = 0 <= first <= len(update) - run.n_lines if has_update else first == NO_LINE
        if not in_range or (kind != "take" and n_passed + run.n_lines > len(original)):
            raise _malformed(OPS, "lines of the original and the update")
        for at in range(run.n_lines):
            line = None if kind == "take" else n_passed + at
            update_line = first + at if has_update else None
            text = update[first + at] if line is None else original[line]
            ops.append(LineOp(kind, line, update_line, text))
        n_passed += 0 if kind == "take" else run.n_lines
    if n_passed != len(original):
        raise _malformed(OPS, "every line of the original once")
    return tuple(ops)


def _malformed(key: str, limit: str) -> InvalidField:
    """The value is not quoted: it is the user's code."""
    return InvalidField(f"`vllm_xargs.{key}` is malformed", value=key, limit=limit, remedy="send it as made here")

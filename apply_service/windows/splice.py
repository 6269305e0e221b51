"""Put what the windows became back between the lines that no window holds."""

from __future__ import annotations

from collections.abc import Sequence

from apply_service.types import LineOp, Prediction
from apply_service.windows.regions import Region


def splice(prediction: Prediction, regions: Sequence[Region], merged: Sequence[str]) -> tuple[str, list[int]]:
    """The merged file, and the line of it at which each window's text begins.

    `merged[i]` replaces the operations of `regions[i]`; outside, the prediction keeps the original's lines.
    """
    lines: list[str] = []
    starts: list[int] = []
    done = 0
    for region, text in zip(regions, merged, strict=True):
        lines += _kept(prediction.ops[done : region.start])
        starts.append(len(lines))
        lines += _window_lines(prediction.ops[region.start : region.stop], text)
        done = region.stop
    lines += _kept(prediction.ops[done:])
    return "\n".join(lines), starts


def _kept(ops: Sequence[LineOp]) -> list[str]:
    return [op.text for op in ops if op.kind != "drop"]


def _window_lines(ops: Sequence[LineOp], text: str) -> list[str]:
    """The lines of a window's text; none where it deletes all of its lines, as an empty text would be one."""
    if text == "" and all(op.kind == "drop" for op in ops):
        return []
    return text.split("\n")

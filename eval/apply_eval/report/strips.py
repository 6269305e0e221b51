"""Heat strips: an output from its first token to its last, coloured by where each pass's tokens came from.

Full colour where a pass accepted all it drafted, paler the less it did; a tick stands at every rejection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from apply_eval.report.svg import Canvas
from apply_service.types import PassCount

ORIGINS = ("predicted", "original", "update", "output", "prompt", "other")
TARGET = "target"
STRIP_WIDTH, STRIP_HEIGHT = 600, 10
OVERVIEW_HEIGHT, MIN_ROW, MAX_ROW = 420, 6, 16
MAX_ROWS = 90


class Stretch(NamedTuple):
    """Tokens from one origin with one level of acceptance (1 to 4), and whether they end in a rejection."""

    n_tokens: int
    origin: str
    level: int
    is_rejected: bool


def stretches(counts: Sequence[PassCount]) -> list[Stretch]:
    """The output in order; what a pass accepted, then the token that the target added."""
    found: list[Stretch] = []
    for count in counts:
        origin = count.source if count.source in ORIGINS else "other"
        is_rejected = count.n_accepted < count.n_drafted
        if count.n_accepted:
            level = max(1, round(4 * count.n_accepted / count.n_drafted))
            _join(found, Stretch(count.n_accepted, origin, level, is_rejected))
        n_own = count.n_new - count.n_accepted
        if n_own > 0:
            _join(found, Stretch(n_own, TARGET, 4, is_rejected and not count.n_accepted))
    return found


def _join(found: list[Stretch], more: Stretch) -> None:
    """Neighbours that look alike are drawn as one."""
    last = found[-1] if found else None
    if (
        last is not None
        and (last.origin, last.level, last.is_rejected) == (more.origin, more.level, False)
        and not more.is_rejected
    ):
        found[-1] = last._replace(n_tokens=last.n_tokens + more.n_tokens)
    else:
        found.append(more)


def strip(counts: Sequence[PassCount], *, label: str) -> str:
    """One output as one strip."""
    canvas = Canvas(STRIP_WIDTH, STRIP_HEIGHT, label=label)
    canvas.root.set("preserveAspectRatio", "none")
    _draw(canvas, stretches(counts), 0.0, STRIP_HEIGHT)
    return canvas.render()


def overview(outputs: Sequence[tuple[str, Sequence[PassCount]]], *, label: str) -> str:
    """Many outputs, one thin row each, all stretched to the same width; evenly thinned out where they are many."""
    step = max(1.0, len(outputs) / MAX_ROWS)
    chosen = [outputs[int(i * step)] for i in range(min(len(outputs), MAX_ROWS))]
    row = min(MAX_ROW, max(MIN_ROW, OVERVIEW_HEIGHT // max(1, len(chosen))))
    canvas = Canvas(STRIP_WIDTH, max(1, len(chosen)) * row, label=label)
    for i, (_, counts) in enumerate(chosen):
        _draw(canvas, stretches(counts), i * row, row - 1)
    return canvas.render()


def _draw(canvas: Canvas, found: Sequence[Stretch], top: float, height: float) -> None:
    total = sum(part.n_tokens for part in found) or 1
    at = 0
    for part in found:
        x, width = at / total * canvas.width, part.n_tokens / total * canvas.width
        canvas.add("rect", x=x, y=top, width=width, height=height, class_=f"o-{part.origin} l{part.level}")
        at += part.n_tokens
        if part.is_rejected:
            canvas.add("rect", x=at / total * canvas.width - 1, y=top, width=1.5, height=height, class_="reject")

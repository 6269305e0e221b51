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
STRIP_CELLS, OVERVIEW_CELLS = 300, 150
"""An output of more stretches than that is drawn in so many equal cells, each in the colour that prevails in it."""
OVERVIEW_HEIGHT, MIN_ROW, MAX_ROW = 420, 6, 16
MAX_ROWS = 80


class Stretch(NamedTuple):
    """Tokens from one origin with one level of acceptance (1 to 4), and whether they end in a rejection."""

    n_tokens: float
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


def cells(found: Sequence[Stretch], n_cells: int) -> list[Stretch]:
    """The same output in at most `n_cells` stretches: where there are more, equal cells of what prevails in each; a
    rejection within a cell stays one."""
    if len(found) <= n_cells:
        return list(found)
    size = sum(part.n_tokens for part in found) / n_cells
    joined: list[Stretch] = []
    at, queue = 0.0, list(reversed(found))
    for number in range(1, n_cells + 1):
        inside: list[tuple[float, Stretch]] = []
        while queue and at < size * number - 1e-9:
            part = queue[-1]
            n_taken = min(part.n_tokens, size * number - at)
            inside.append((n_taken, part))
            at += n_taken
            queue[-1] = part._replace(n_tokens=part.n_tokens - n_taken)
            if queue[-1].n_tokens <= 1e-9:
                queue.pop()
        if inside:
            main = max(inside, key=lambda item: item[0])[1]
            is_rejected = any(part.is_rejected for _, part in inside)
            _join(joined, Stretch(sum(n for n, _ in inside), main.origin, main.level, is_rejected))
    return joined


def strip(counts: Sequence[PassCount], *, label: str) -> str:
    """One output as one strip."""
    canvas = Canvas(STRIP_WIDTH, STRIP_HEIGHT, label=label)
    canvas.root.set("preserveAspectRatio", "none")
    _draw(canvas, [(cells(stretches(counts), STRIP_CELLS), 0.0)], STRIP_HEIGHT)
    return canvas.render()


def overview(outputs: Sequence[Sequence[PassCount]], *, label: str) -> str:
    """Many outputs, one thin row each, all stretched to the same width; evenly thinned out where they are many."""
    step = max(1.0, len(outputs) / MAX_ROWS)
    chosen = [outputs[int(i * step)] for i in range(min(len(outputs), MAX_ROWS))]
    row = min(MAX_ROW, max(MIN_ROW, OVERVIEW_HEIGHT // max(1, len(chosen))))
    canvas = Canvas(STRIP_WIDTH, max(1, len(chosen)) * row, label=label)
    drawn = [(cells(stretches(counts), OVERVIEW_CELLS), float(i * row)) for i, counts in enumerate(chosen)]
    _draw(canvas, drawn, row - 1)
    return canvas.render()


def _draw(canvas: Canvas, rows: Sequence[tuple[Sequence[Stretch], float]], height: float) -> None:
    """One path a colour: thousands of rectangles would make the page slow.  Rejections on top."""
    paths: dict[str, list[str]] = {}
    for found, top in rows:
        scale = canvas.width / (sum(part.n_tokens for part in found) or 1)
        at = 0.0
        for part in found:
            box = _box(at * scale, top, part.n_tokens * scale, height)
            paths.setdefault(f"o-{part.origin} l{part.level}", []).append(box)
            at += part.n_tokens
            if part.is_rejected:
                paths.setdefault("reject", []).append(_box(at * scale - 1, top, 1.5, height))
    for class_ in sorted(paths, key=lambda name: name == "reject"):
        canvas.add("path", d="".join(paths[class_]), class_=class_)


def _box(x: float, y: float, width: float, height: float) -> str:
    return f"M{x:.1f} {y:g}h{width:.1f}v{height:g}h-{width:.1f}z"

"""The kinds of plot, drawn at phone width so that they read anywhere: data in, SVG out."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from apply_eval.report.numbers import rate, seconds, share
from apply_eval.report.scales import Linear, Log, round_up
from apply_eval.report.svg import Canvas

WIDTH = 420
LEFT, RIGHT, TOP, BOTTOM = 46, 18, 10, 34
LABELS, MAX_LABELS, CHARACTER = 132, 190, 6.7
"""Room for labels on the left: at least, at most, and for each character."""
ROW = 26
MAX_POINTS = 2500
N_BINS = 8
N_SERIES = 10
"""Colours in the style sheet; more contestants share them."""

Show = Callable[[float], str]


class Bar(NamedTuple):
    """One bar; `series` picks the colour."""

    label: str
    series: int
    value: float | None
    interval: Sequence[float] | None


class Dot(NamedTuple):
    """One series in a group of a dot plot."""

    series: int
    value: float
    interval: Sequence[float] | None


def colour(series: int) -> str:
    return f"s{series % N_SERIES}"


def label_room(labels: Iterable[str]) -> float:
    """Width of the column that holds the labels."""
    return min(MAX_LABELS, max(LABELS, 12 + CHARACTER * max(map(len, labels), default=0)))


def bars(rows: Sequence[Bar], *, show: Show, label: str, mark: float | None = None) -> str:
    """Horizontal bars from zero with their intervals as whiskers; `mark`: a line to compare with."""
    ends = [max(bar.value or 0.0, *(bar.interval or (0.0,))) for bar in rows]
    canvas = Canvas(WIDTH, len(rows) * ROW + 26, label=label)
    left = label_room(bar.label for bar in rows)
    across = Linear(0.0, round_up(max(ends, default=1.0)), left, WIDTH - 62)
    bottom = len(rows) * ROW + 4
    _x_grid(canvas, across, across.ticks(4), 2, bottom, rate)
    for i, bar in enumerate(rows):
        y = i * ROW + 4
        canvas.text(left - 8, y + 15, bar.label, anchor="end")
        if bar.value is None:
            canvas.text(left + 4, y + 15, "not measured", class_="muted")
            continue
        tip = f"{bar.label}: {show(bar.value)}"
        canvas.add(
            "rect", x=left, y=y + 3, width=max(1.0, across(bar.value) - left), height=ROW - 10, rx=2,
            class_=f"fill {colour(bar.series)}", title=tip,
        )  # fmt: skip
        edge = across(bar.value)
        if bar.interval is not None:
            edge = max(edge, across(bar.interval[1]))
            _whisker(canvas, across(bar.interval[0]), across(bar.interval[1]), y + ROW / 2 - 2)
        canvas.text(edge + 5, y + 15, show(bar.value), class_="value")
    if mark is not None:
        canvas.line(across(mark), 2, across(mark), bottom, "mark")
    return canvas.render()


def dots(groups: Mapping[str, Sequence[Dot]], *, label: str) -> str:
    """Shares by group: a dot with its interval for each series, 0 to 100%."""
    heights = {group: max(22, 8 + 12 * len(found)) for group, found in groups.items()}
    bottom = sum(heights.values()) + 4
    canvas = Canvas(WIDTH, bottom + 22, label=label)
    left = label_room(groups)
    across = Linear(0.0, 1.0, left, WIDTH - 22)
    _x_grid(canvas, across, [0.0, 0.25, 0.5, 0.75, 1.0], 2, bottom, lambda value: f"{value:.0%}")
    top = 4.0
    for group, found in groups.items():
        height = heights[group]
        canvas.text(left - 8, top + height / 2 + 4, group, anchor="end")
        for i, dot in enumerate(found):
            y = top + height / 2 + (i - (len(found) - 1) / 2) * 12
            if dot.interval is not None:
                _whisker(
                    canvas, across(dot.interval[0]), across(dot.interval[1]), y, class_=f"stroke {colour(dot.series)}"
                )
            canvas.add(
                "circle", cx=across(dot.value), cy=y, r=4, class_=f"fill {colour(dot.series)}",
                title=f"{group}: {share(dot.value)}",
            )  # fmt: skip
        top += height
    return canvas.render()


def scatter(series: Mapping[int, Sequence[tuple[float, float]]], *, label: str, x_title: str) -> str:
    """Points on two logarithmic axes (y in seconds), with a line through the medians of eight slices of x."""
    points = [point for found in series.values() for point in found]
    canvas = Canvas(WIDTH, 300, label=label)
    if not points:
        canvas.text(WIDTH / 2, 150, "nothing to show", anchor="middle", class_="muted")
        return canvas.render()
    xs, ys = [x for x, _ in points], [y for _, y in points]
    across = Log(min(xs) * 0.95, max(xs) * 1.05, LEFT + 8, WIDTH - RIGHT)
    up = Log(min(ys) * 0.9, max(ys) * 1.1, 300 - BOTTOM, TOP)
    _x_grid(canvas, across, across.ticks(), TOP, 300 - BOTTOM, rate)
    _y_grid(canvas, up, up.ticks(), WIDTH - RIGHT, seconds)
    canvas.text((LEFT + WIDTH) / 2, 296, x_title, anchor="middle", class_="muted")
    every = max(1, len(points) // MAX_POINTS)
    for number, found in series.items():
        for x, y in sorted(found)[::every]:
            canvas.add("circle", cx=across(x), cy=up(y), r=2.6, class_=f"dot {colour(number)}")
    for number, found in series.items():
        line = [(across(x), up(y)) for x, y in slice_medians(found)]
        _polyline(canvas, line, f"curve {colour(number)}")
    return canvas.render()


def slice_medians(points: Sequence[tuple[float, float]], n_slices: int = N_BINS) -> list[tuple[float, float]]:
    """Medians of x and y over `n_slices` slices of about equally many points, by rising x."""
    found = sorted(points)
    n_slices = max(1, min(n_slices, len(found) // 3))
    edges = [round(i * len(found) / n_slices) for i in range(n_slices + 1)]
    slices = [found[a:b] for a, b in pairwise(edges) if b > a]
    return [(statistics.median(x for x, _ in part), statistics.median(y for _, y in part)) for part in slices]


def lines(series: Mapping[int, Sequence[tuple[float, float]]], *, label: str, x_title: str, y_title: str) -> str:
    """Curves over a logarithmic x, y from zero."""
    points = [point for found in series.values() for point in found]
    xs = [x for x, _ in points]
    canvas = Canvas(WIDTH, 260, label=label)
    across = Log(min(xs) * 0.9, max(xs) * 1.1, LEFT + 14, WIDTH - RIGHT)
    up = Linear(0.0, round_up(max(y for _, y in points)), 260 - BOTTOM, TOP + 12)
    _x_grid(canvas, across, sorted(set(xs)), TOP + 12, 260 - BOTTOM, rate)
    _y_grid(canvas, up, up.ticks(), WIDTH - RIGHT, rate)
    canvas.text((LEFT + WIDTH) / 2, 256, x_title, anchor="middle", class_="muted")
    canvas.text(4, 12, y_title, class_="muted")
    for number, found in series.items():
        drawn = [(across(x), up(y)) for x, y in sorted(found)]
        _polyline(canvas, drawn, f"curve {colour(number)}")
        for x, y in drawn:
            canvas.add("circle", cx=x, cy=y, r=3.5, class_=f"fill {colour(number)}")
    return canvas.render()


def reliability_plot(series: Mapping[int, Sequence[Sequence[float]]], *, label: str) -> str:
    """Confidence against exact match, bin by bin ((low, high, n, confidence, exact)); the diagonal is perfect."""
    canvas = Canvas(WIDTH, 260, label=label)
    across = Linear(0.0, 1.0, LEFT + 6, WIDTH - RIGHT)
    up = Linear(0.0, 1.0, 260 - BOTTOM, TOP)
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0]
    _x_grid(canvas, across, ticks, TOP, 260 - BOTTOM, lambda value: f"{value:.0%}")
    _y_grid(canvas, up, ticks, WIDTH - RIGHT, lambda value: f"{value:.0%}")
    canvas.line(across(0), up(0), across(1), up(1), "mark")
    canvas.text((LEFT + WIDTH) / 2, 256, "confidence", anchor="middle", class_="muted")
    for number, bins in series.items():
        for _, _, n, confidence, exact in bins:
            tip = f"{n:.0f} answers: confidence {confidence:.2f}, exact {exact:.2f}"
            canvas.add(
                "circle", cx=across(confidence), cy=up(exact), r=min(14.0, 3 + float(n) ** 0.5 / 1.5),
                class_=f"dot {colour(number)}", title=tip,
            )  # fmt: skip
    return canvas.render()


def risk_plot(series: Mapping[int, Sequence[Sequence[float]]], *, label: str) -> str:
    """The share wrong of what is applied against coverage, point by point of `metrics.risk.RiskPoint`."""
    canvas = Canvas(WIDTH, 260, label=label)
    worst = max(wrong for points in series.values() for *_, wrong in points)
    across = Linear(0.0, 1.0, LEFT + 6, WIDTH - RIGHT)
    up = Linear(0.0, min(1.0, max(0.05, round_up(worst))), 260 - BOTTOM, TOP)
    _x_grid(canvas, across, [0.0, 0.25, 0.5, 0.75, 1.0], TOP, 260 - BOTTOM, lambda value: f"{value:.0%}")
    _y_grid(canvas, up, up.ticks(), WIDTH - RIGHT, lambda value: f"{value:.1%}")
    canvas.text((LEFT + WIDTH) / 2, 256, "share of samples applied", anchor="middle", class_="muted")
    for number, points in series.items():
        _polyline(canvas, [(across(p[3]), up(p[4])) for p in points], f"curve {colour(number)}")
        for threshold, n_applied, n_wrong, coverage, wrong in points:
            tip = f"from {threshold:.3f} on: {n_wrong:.0f} of {n_applied:.0f} wrong"
            canvas.add("circle", cx=across(coverage), cy=up(wrong), r=2.5, class_=f"fill {colour(number)}", title=tip)
    return canvas.render()


# -- parts -------------------------------------------------------------------------------------------------------------
def _x_grid(
    canvas: Canvas, across: Linear | Log, ticks: Sequence[float], top: float, bottom: float, show: Show
) -> None:
    for tick in ticks:
        canvas.line(across(tick), top, across(tick), bottom, "grid")
        canvas.text(across(tick), bottom + 14, show(tick), anchor="middle", class_="tick")


def _y_grid(canvas: Canvas, up: Linear | Log, ticks: Sequence[float], right: float, show: Show) -> None:
    for tick in ticks:
        canvas.line(LEFT + 6, up(tick), right, up(tick), "grid")
        canvas.text(LEFT + 2, up(tick) + 4, show(tick), anchor="end", class_="tick")


def _whisker(canvas: Canvas, x1: float, x2: float, y: float, *, class_: str = "whisker") -> None:
    canvas.line(x1, y, x2, y, class_)
    for x in (x1, x2):
        canvas.line(x, y - 3, x, y + 3, class_)


def _polyline(canvas: Canvas, points: Sequence[tuple[float, float]], class_: str) -> None:
    if len(points) > 1:
        canvas.add("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=class_)

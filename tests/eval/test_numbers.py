"""Plots: what is drawn stands where the numbers say."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from apply_eval.numbers import count, rate, seconds, share, times, with_interval
from apply_eval.report.charts import LABELS, Bar, Dot, bars, dots, lines, scatter, slice_medians
from apply_eval.report.scales import Linear, Log, round_up


def found(svg: str, tag: str, class_: str) -> list[ElementTree.Element]:
    return [e for e in ElementTree.fromstring(svg).iter(tag) if class_ in (e.get("class") or "").split()]


def number(element: ElementTree.Element, name: str) -> float:
    return float(element.get(name, ""))


def test_bars_are_as_long_as_their_values() -> None:
    svg = bars([Bar("a", 0, 2.0, None), Bar("b", 1, 4.0, (3.0, 5.0))], show=times, label="x", mark=1.0)
    one, two = found(svg, "rect", "fill")
    assert number(two, "width") == pytest.approx(2 * number(one, "width"), rel=0.01)
    whisker = found(svg, "line", "whisker")[0]
    ends = (number(whisker, "x1") - LABELS, number(whisker, "x2") - LABELS)
    assert ends[1] / ends[0] == pytest.approx(5 / 3, rel=0.01)
    mark = found(svg, "line", "mark")[0]
    assert number(mark, "x1") - LABELS == pytest.approx(number(one, "width") / 2, rel=0.02)


def test_an_unmeasured_bar_is_not_a_short_one() -> None:
    svg = bars([Bar("a", 0, None, None), Bar("b", 1, 1.0, None)], show=times, label="x")
    assert len(found(svg, "rect", "fill")) == 1
    assert "not measured" in svg


def test_dots() -> None:
    svg = dots({"go": [Dot(0, 0.5, (0.25, 0.75)), Dot(1, 1.0, None)], "rust": [Dot(0, 0.0, None)]}, label="x")
    half, full, none = (number(dot, "cx") for dot in found(svg, "circle", "fill"))
    assert half == pytest.approx((full + none) / 2)


def test_scatter_and_lines() -> None:
    points = [(float(10 * i), float(i)) for i in range(1, 30)]
    svg = scatter({0: points, 1: [(5.0, 2.0)]}, label="x", x_title="lines")
    dots_found = found(svg, "circle", "dot")
    assert len(dots_found) == 30
    assert len(found(svg, "polyline", "curve")) == 1, "one point makes no line"
    assert "nothing to show" in scatter({}, label="x", x_title="lines")
    svg = lines({0: [(1.0, 10.0), (8.0, 50.0)]}, label="x", x_title="a", y_title="b")
    low, high = found(svg, "circle", "fill")
    assert number(low, "cx") < number(high, "cx")
    assert number(low, "cy") > number(high, "cy")


def test_slice_medians() -> None:
    points = [(float(i), float(i * i)) for i in range(12)]
    assert slice_medians(points, 2) == [(2.5, (4 + 9) / 2), (8.5, (64 + 81) / 2)]
    assert slice_medians([(1.0, 2.0)]) == [(1.0, 2.0)]


def test_scales() -> None:
    assert Linear(0, 10, 100, 200)(5) == 150
    assert Linear(0, 1, 0, 1).ticks(5) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert Linear(0, 15, 0, 1).ticks(4) == [0.0, 5.0, 10.0, 15.0]
    assert Log(1, 100, 0, 2)(10) == pytest.approx(1)
    assert Log(1, 100, 0, 2).ticks() == [1, 2, 5, 10, 20, 50, 100]
    assert Log(1, 1e6, 0, 1).ticks() == [1, 10, 100, 1000, 10_000, 100_000, 1_000_000]
    assert (round_up(0), round_up(1.2), round_up(7), round_up(470)) == (1, 1.5, 8, 500)


def test_numbers_as_people_read_them() -> None:
    assert (share(0.9441), share(None)) == ("94.4%", "–")
    assert (rate(4618.2), rate(8.123), rate(None)) == ("4,618", "8.12", "–")
    assert (seconds(0.0123), seconds(1.234), seconds(13.1), seconds(1234)) == ("12 ms", "1.23 s", "13.1 s", "1,234 s")
    assert (times(9.417), times(19.23)) == ("9.42×", "19.2×")
    assert (count(0.0), count(0.16), count(685.2)) == ("0", "0.16", "685")
    assert with_interval(share, 0.5, (0.4, 0.6)) == "50.0% (40.0%–60.0%)"
    assert with_interval(share, None, None) == "–"

"""Heat strips: every token is drawn, in order, in its colour."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from apply_eval.report import MAX_ROWS, STRIP_WIDTH, Stretch, cells, overview, stretches
from apply_service.types import PassCount

COUNTS = (
    PassCount(100, 99, 99, "predicted"),
    PassCount(41, 200, 40, "predicted"),
    PassCount(1, 60, 0, "update"),
    PassCount(3, 0, 0, ""),
    PassCount(20, 20, 20, "elsewhere"),
)


def test_stretches_follow_the_output() -> None:
    assert stretches(COUNTS) == [
        Stretch(99, "predicted", 4, False),
        Stretch(1, "target", 4, False),
        Stretch(40, "predicted", 1, True),
        Stretch(1, "target", 4, False),
        Stretch(1, "target", 4, True),
        Stretch(3, "target", 4, False),
        Stretch(20, "other", 4, False),
    ]
    assert sum(part.n_tokens for part in stretches(COUNTS)) == sum(count.n_new for count in COUNTS)


def test_neighbours_that_look_alike_are_one() -> None:
    assert stretches([PassCount(5, 5, 5, "original")] * 3) == [Stretch(15, "original", 4, False)]


def boxes(svg: str, class_: str = "") -> list[tuple[float, float, float]]:
    """(x, y, width) of every box whose class starts so."""
    drawing = ElementTree.fromstring(svg)
    found = "".join(path.get("d", "") for path in drawing if (path.get("class") or "").startswith(class_))
    return [(float(x), float(y), float(w)) for x, y, w in re.findall(r"M([\d.-]+) ([\d.]+)h([\d.]+)v", found)]


def test_a_strip_fills_its_width() -> None:
    svg = overview([COUNTS], label="x")
    coloured = sorted(boxes(svg, "o-"))
    assert coloured[0][0] == 0.0
    assert sum(width for _, _, width in coloured) == pytest.approx(STRIP_WIDTH, abs=1)
    predicted = sum(width for _, _, width in boxes(svg, "o-predicted"))
    assert predicted == pytest.approx(STRIP_WIDTH * (99 + 40) / 165, abs=1)


def test_every_rejection_has_its_tick() -> None:
    assert len(boxes(overview([COUNTS], label="x"), "reject")) == 2


def test_outputs_of_many_passes_are_drawn_in_cells() -> None:
    many = [PassCount(8, 9, 7, "original"), PassCount(1, 0, 0, ""), PassCount(3, 3, 3, "update")] * 400
    exact = stretches(many)
    drawn = cells(exact, 100)
    assert len(exact) > 1000
    assert len(drawn) <= 100
    assert sum(part.n_tokens for part in drawn) == pytest.approx(sum(part.n_tokens for part in exact))
    assert {part.origin for part in drawn} == {"original"}, "what prevails"
    assert all(part.is_rejected for part in drawn)
    assert cells(exact, 10_000) == exact


def test_many_outputs_are_thinned_out_evenly() -> None:
    outputs = [[PassCount(1 + i % 5, 0, 0, "")] for i in range(1000)]
    assert len({y for _, y, _ in boxes(overview(outputs, label="x"))}) == MAX_ROWS


def test_nothing_to_draw() -> None:
    assert ElementTree.fromstring(overview([], label="x")).tag == "svg"
    assert stretches([]) == []

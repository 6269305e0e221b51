"""Heat strips: every token is drawn, in order, in its colour."""

from __future__ import annotations

from xml.etree import ElementTree

from apply_eval.report.strips import MAX_ROWS, STRIP_WIDTH, Stretch, overview, stretches, strip
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


def test_a_strip_fills_its_width() -> None:
    rects = [r for r in ElementTree.fromstring(strip(COUNTS, label="x")) if r.get("class") != "reject"]
    assert float(rects[0].get("x", "")) == 0.0
    assert sum(float(rect.get("width", "")) for rect in rects) > STRIP_WIDTH - 0.1
    assert rects[0].get("class") == "o-predicted l4"


def test_every_rejection_has_its_tick() -> None:
    ticks = [r for r in ElementTree.fromstring(strip(COUNTS, label="x")) if r.get("class") == "reject"]
    assert len(ticks) == 2


def test_many_outputs_are_thinned_out_evenly() -> None:
    outputs = [(str(i), [PassCount(1 + i % 5, 0, 0, "")]) for i in range(1000)]
    drawing = ElementTree.fromstring(overview(outputs, label="x"))
    assert len({rect.get("y") for rect in drawing}) == MAX_ROWS


def test_nothing_to_draw() -> None:
    assert ElementTree.fromstring(overview([], label="x")).tag == "svg"
    assert stretches([]) == []

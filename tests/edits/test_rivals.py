"""Whether another reading is as good: weights counted by hand, and pairs of snippets that differ in what decides."""

from __future__ import annotations

import pytest

from apply_service.edits.rivals import BESIDE, HELD_MARGIN, STAY_COST, Rivals
from apply_service.edits.stretches import Block, Stretch
from tests.edits.merges import assert_merged, edited


def has_rival(
    lines: str,
    block: str,
    chosen: tuple[int, int],
    *,
    opens: bool = False,
    closes: bool = False,
    floor: int = 0,
    shown: frozenset[int] = frozenset(),
    handicap: float = 0.0,
) -> bool:
    """Lines and block with spaces between the lines."""
    laid = Block(tuple(block.split()), opens, closes)
    return Rivals(lines.split()).has_rival(laid, Stretch(*chosen), floor=floor, shown=shown, handicap=handicap)


# -- what a reading costs --------------------------------------------------------------------------------------------
TWO_CALLS = "open first_line_here close mid open other_line_here close"
NEW_CALL = "open quite_a_new_line close"


def test_a_stretch_that_asks_as_much_is_a_rival() -> None:
    """One line goes and one comes, here as there."""
    assert has_rival(TWO_CALLS, NEW_CALL, (0, 3))


@pytest.mark.parametrize(("n_more", "wanted"), [(1, True), (2, False)])
def test_a_stretch_that_asks_for_more_than_the_margin(n_more: int, wanted: bool) -> None:
    assert (n_more <= HELD_MARGIN) is wanted
    lines = edited(TWO_CALLS, "other_line_here", " ".join(f"other_line_here_{k}" for k in range(n_more + 1)))
    assert has_rival(lines, NEW_CALL, (0, 3)) is wanted


def test_a_handicap_is_added_to_every_rival() -> None:
    assert not has_rival(TWO_CALLS, NEW_CALL, (0, 3), handicap=HELD_MARGIN + 0.1)


def test_what_lies_above_the_block_before_is_no_rival() -> None:
    assert has_rival(TWO_CALLS, NEW_CALL, (4, 7))
    assert not has_rival(TWO_CALLS, NEW_CALL, (4, 7), floor=1)


@pytest.mark.parametrize(("line", "wanted"), [("weigh_the_whole_box", True), ("*", False)])
def test_a_line_that_moved_is_spared_if_it_says_something(line: str, wanted: bool) -> None:
    """In the first `open` it moves below `one` and `two`, in the last it is new."""
    lines = f"open {line} one two close mid open one two close"
    block = f"open one two {line} close"
    assert has_rival(lines, block, (6, 10), shown=frozenset({1}), handicap=0.8) is wanted


def test_a_new_end_whose_like_stays_elsewhere_costs_more() -> None:
    """Below the last `open`, `close` would be new although it stands further up."""
    block = "open one_new_line close"
    assert STAY_COST > HELD_MARGIN - 1
    assert not has_rival("open close mid open", block, (0, 2))
    assert has_rival("open shut mid open", "open one_new_line bolt", (0, 1))


# -- echoes ----------------------------------------------------------------------------------------------------------
RUN = """\
def run(box):
    check(box)
    width = measure(box)
    log(box)
    save(box)
    check(box)
    depth = probe_bottom(box)
    close(box)
    return box
"""


def shows(line: str) -> str:
    return f"# ...\n    check(box)\n    width = measure(box)\n    {line}\n    save(box)\n# ...\n"


def test_a_new_line_that_stands_hidden_beside_the_block() -> None:
    line = "depth = probe_bottom(box)"
    assert_merged(RUN, shows(line), edited(RUN, "log(box)", line))


@pytest.mark.parametrize(("line", "wanted"), [("other_line_was_here", True), ("quite_a_new_thing", False)])
def test_a_new_line_much_like_a_hidden_one(line: str, wanted: bool) -> None:
    """The handicap makes both readings as dear; being alike decides."""
    assert has_rival(TWO_CALLS, f"open {line} close", (0, 3), handicap=2.0) is wanted


def test_a_new_line_like_no_hidden_one() -> None:
    line = "colour = paint(box)"
    assert_merged(RUN, shows(line), edited(RUN, "log(box)", line))


def test_a_hidden_line_far_away() -> None:
    line = "depth = probe_bottom(box)"
    between = "".join(f"    step_number({n})\n" for n in range(4 + BESIDE))
    original = edited(RUN, "    check(box)\n    depth", f"{between}    check(box)\n    depth")
    assert_merged(original, shows(line), edited(original, "log(box)", line))


def test_a_line_that_another_block_shows_is_not_hidden() -> None:
    line = "depth = probe_bottom(box)"
    update = f"{shows(line)}    depth = probe_bottom(box)\n    close(box)\n# ...\n"
    assert_merged(RUN, update, edited(RUN, "log(box)", line))


# -- moved lines -----------------------------------------------------------------------------------------------------
def test_a_line_shown_further_up_may_have_moved_or_be_doubled() -> None:
    update = "def run(box):\n    log(box)\n    check(box)\n    width = measure(box)\n# ...\n"
    original = RUN.split("    check(box)\n    depth")[0]
    wanted = edited(original, "    check(box)\n", "    log(box)\n    check(box)\n")
    assert_merged(original, update, wanted)


@pytest.mark.parametrize(
    ("update", "new"),
    [
        pytest.param("    open(box)\n    check(box)\n    width = measure(box)\n", "", id="a line that stands nowhere"),
        pytest.param(
            "    log(box)\n    check(box)\n    width = measure(box)\n    save(box)\n", "", id="its old place is shown"
        ),
    ],
)
def test_a_line_that_is_new_or_whose_old_place_is_shown_is_clear(update: str, new: str) -> None:
    original = RUN.split("    check(box)\n    depth")[0]
    rest = original.split("    save(box)\n")[1] if "save" in update else "    log(box)\n    save(box)\n"
    assert_merged(original, f"def run(box):\n{update}# ...\n", f"def run(box):\n{update}{rest}{new}")


# -- the file's edges ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("opens", "first", "wanted"),
    [
        pytest.param(True, "title_of_the_page", True, id="no marker above"),
        pytest.param(False, "title_of_the_page", False, id="a marker above"),
        pytest.param(True, "{", False, id="a line that says nothing"),
    ],
)
def test_a_snippet_that_begins_as_the_file_and_was_laid_elsewhere(opens: bool, first: str, wanted: bool) -> None:
    assert has_rival(f"{first} b c {first} d e", f"{first} x d", (3, 5), opens=opens) is wanted


@pytest.mark.parametrize(("closes", "wanted"), [(True, True), (False, False)])
def test_a_snippet_that_ends_as_the_file_and_was_laid_elsewhere(closes: bool, wanted: bool) -> None:
    assert has_rival("a end_of_the_page c d end_of_the_page", "a x end_of_the_page", (0, 2), closes=closes) is wanted

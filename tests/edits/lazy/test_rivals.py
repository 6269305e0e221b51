"""Whether another place for a block is as good: costs counted by hand, and snippets that differ in what decides."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from apply_service.edits.lazy.questions import (
    BESIDE,
    HELD_MARGIN,
    MAX_STEPS,
    STAY_COST,
    WORD,
    LaidBlock,
    Rivals,
    Stretch,
)
from tests.edits.merges import assert_merged, edited


def laid_block(text: str | Sequence[str], *, opens: bool = False, closes: bool = False) -> LaidBlock:
    """A block of these lines, given with spaces between them; where it was laid is told apart."""
    lines = tuple(text.split()) if isinstance(text, str) else tuple(text)
    return LaidBlock(0, (), lines, (), 0, 1, opens, closes)


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
    laid = laid_block(block, opens=opens, closes=closes)
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


def found(
    lines: str, laid: LaidBlock, around: Stretch, floor: int = 0, limit: float = 3.0
) -> set[tuple[int, int, int]]:
    """(least cost, start, stop) of every stretch found."""
    rivals = Rivals(lines.split())
    return {(cost, *stretch) for cost, stretch in rivals.find(laid, around, floor, limit)}


def slow_lcs(one: list[str], other: list[str]) -> int:
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, left in enumerate(one):
        for j, right in enumerate(other):
            table[i + 1][j + 1] = table[i][j] + 1 if left == right else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@pytest.mark.parametrize("n_block", [3, 40, WORD + 20])
def test_the_least_cost_is_that_of_the_plain_algorithm(n_block: int) -> None:
    """What goes and what is new, less what merely moved."""
    print(f"seed {n_block}")
    rng = random.Random(n_block)
    texts = [rng.choice(["a", " a", "b", "c", "d", "e"]) for _ in range(n_block)]
    before, between = ([rng.choice(["a", "b", " b", "c", "d", "e"]) for _ in range(n)] for n in (20, 8))
    lines = [*before, texts[0], *between, texts[-1]]
    costs = Rivals(lines).find(laid_block(texts), Stretch(0, 1), 0, 10.0 + n_block)
    held = [(cost, lines[a:b]) for cost, (a, b) in costs if lines[b - 1] == texts[-1] and lines[a] == texts[0]]
    assert held
    for cost, stretch in held:
        moved = Counter(map(str.strip, texts)) & Counter(map(str.strip, stretch))
        assert cost == len(texts) + len(stretch) - slow_lcs(texts, stretch) - moved.total()


# -- ends ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("laid", "stretch", "wanted"),
    [
        pytest.param(laid_block("b x d"), Stretch(1, 4), (False, False), id="equal lines hold both ends"),
        pytest.param(laid_block("x c d"), Stretch(1, 4), (True, False), id="the first line is new"),
        pytest.param(laid_block("b c x"), Stretch(1, 4), (False, True), id="the last line is new"),
        pytest.param(
            laid_block("x b y", opens=True, closes=True), Stretch(0, 5), (False, False), id="the file holds both"
        ),
        pytest.param(
            laid_block("x b y", opens=True, closes=True), Stretch(1, 4), (True, True), id="the file ends elsewhere"
        ),
    ],
)
def test_an_end_is_free_where_neither_a_line_nor_the_file_holds_it(
    laid: LaidBlock, stretch: Stretch, wanted: tuple[bool, bool]
) -> None:
    assert Rivals(["a", "b", "c", "d", "e"]).frees(laid, stretch) == wanted


# -- finding ---------------------------------------------------------------------------------------------------------
def test_a_stretch_between_two_equal_lines_is_found_with_its_cost() -> None:
    """`one` and `mid` would go and `new` come."""
    lines = "open one close mid open two close"
    assert found(lines, laid_block("open new close"), Stretch(4, 7)) == {(2, 0, 3)}


def test_what_costs_more_than_the_limit_is_not_found() -> None:
    lines = "open one close mid open two close"
    assert found(lines, laid_block("open new close"), Stretch(4, 7), limit=1.0) == set()


def test_nothing_is_found_above_the_floor() -> None:
    lines = "open one close mid open two close"
    assert found(lines, laid_block("open new close"), Stretch(4, 7), floor=1) == set()


def test_a_last_line_that_stands_nowhere_beyond_may_be_new() -> None:
    """Right below `open`, or below `one`, which then goes."""
    assert found("open one two open", laid_block("open new"), Stretch(3, 4), limit=2.0) == {(1, 0, 1), (2, 0, 2)}


def test_a_last_line_that_stands_further_down_is_not_new_before_it() -> None:
    assert found("open one new open", laid_block("open new"), Stretch(3, 4), limit=0.5) == set()
    assert found("open one new open", laid_block("open new"), Stretch(3, 4), limit=1.0) == {(1, 0, 3)}


def test_a_sign_without_a_word_may_be_new_although_it_stands_further_down() -> None:
    assert found("open one * open", laid_block("open *"), Stretch(3, 4), limit=1.0) == {(1, 0, 1), (1, 0, 3)}


def test_a_first_line_that_stands_nowhere_above_may_be_new() -> None:
    assert (1, 0, 1) in found("close one two close", laid_block("new close"), Stretch(3, 4), limit=1.0)
    assert found("new one two close mid close", laid_block("new close"), Stretch(5, 6), limit=1.0) == set()


@pytest.mark.parametrize(("opens", "wanted"), [(True, {(3, 0, 1)}), (False, set())])
def test_the_files_start_holds_a_block_without_a_marker_above(opens: bool, wanted: set[tuple[int, int, int]]) -> None:
    """The file's first line would go, two new ones come; nothing else holds the block."""
    assert found("first mid last", laid_block("mine new", opens=opens), Stretch(2, 3)) == wanted


@pytest.mark.parametrize(("closes", "wanted"), [(True, {(3, 2, 3)}), (False, set())])
def test_the_files_end_holds_a_block_without_a_marker_below(closes: bool, wanted: set[tuple[int, int, int]]) -> None:
    assert found("first mid last", laid_block("mine new", closes=closes), Stretch(0, 1)) == wanted


def test_a_line_that_only_moved_costs_one() -> None:
    """`one` moves below `two`: it goes above and is new below, and counts once."""
    lines = "open one two close mid open six close"
    assert (1, 0, 4) in found(lines, laid_block("open two one close"), Stretch(5, 8))


def test_the_work_is_bounded_in_a_file_of_equal_lines() -> None:
    """The nearest places are looked at, the farthest not."""
    n_lines = 4 * MAX_STEPS
    rivals = Rivals(["a", "b"] * (n_lines // 2))
    starts = {s.start for _, s in rivals.find(laid_block("a b"), Stretch(100, 102), 0, 1.0)}
    assert {98, 102} <= starts
    assert max(starts) < n_lines // 2

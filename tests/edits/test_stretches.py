"""Stretches that hold a block at both ends, and the least that each may cost: counted by hand."""

from __future__ import annotations

import random

import pytest

from apply_service.edits.stretches import MAX_STEPS, WORD, Block, Common, Stretch, Stretches


def block(text: str, *, opens: bool = False, closes: bool = False) -> Block:
    return Block(tuple(text.split()), opens, closes)


def found(lines: str, laid: Block, around: Stretch, *, floor: int = 0, limit: float = 3.0) -> set[tuple[int, int, int]]:
    """(least cost, start, stop) of every stretch found."""
    stretches = Stretches(lines.split())
    return {(cost, *stretch) for cost, stretch in stretches.find(laid, around, floor, limit)}


# -- what two runs of lines have in common ---------------------------------------------------------------------------
def agreements(block: list[str], lines: list[str]) -> list[tuple[int, int]]:
    common = Common(block)
    return list(zip(common.lengths(lines), common.counts([line.strip() for line in lines]), strict=True))


def test_agreements_of_each_beginning() -> None:
    """(Longest common subsequence, lines that both have in any order)."""
    assert agreements(["a", "b", "c"], ["x", "b", "a", "c"]) == [(0, 0), (1, 1), (1, 2), (2, 3)]


def test_an_equal_line_is_counted_once_for_each_that_the_block_has() -> None:
    assert agreements(["a", "b", "a"], ["a", "a", "a"]) == [(1, 1), (2, 2), (2, 2)]


def test_indentation_parts_what_stays_but_not_what_both_have() -> None:
    assert agreements(["  a"], ["a"]) == [(0, 1)]


def slow_lcs(one: list[str], other: list[str]) -> int:
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, left in enumerate(one):
        for j, right in enumerate(other):
            table[i + 1][j + 1] = table[i][j] + 1 if left == right else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@pytest.mark.parametrize("n_lines", [3, 40, WORD + 20])
def test_agreements_are_those_of_the_plain_algorithm(n_lines: int) -> None:
    print(f"seed {n_lines}")
    rng = random.Random(n_lines)
    one, other = ([rng.choice("abcdefg") for _ in range(n)] for n in (n_lines, 12))
    wanted = [slow_lcs(one, other[: k + 1]) for k in range(len(other))]
    assert [common for common, _ in agreements(one, other)] == wanted


# -- ends ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("laid", "stretch", "wanted"),
    [
        pytest.param(block("b x d"), Stretch(1, 4), (False, False), id="equal lines hold both ends"),
        pytest.param(block("x c d"), Stretch(1, 4), (True, False), id="the first line is new"),
        pytest.param(block("b c x"), Stretch(1, 4), (False, True), id="the last line is new"),
        pytest.param(block("x b y", opens=True, closes=True), Stretch(0, 5), (False, False), id="the file holds both"),
        pytest.param(
            block("x b y", opens=True, closes=True), Stretch(1, 4), (True, True), id="the file ends elsewhere"
        ),
    ],
)
def test_an_end_is_free_where_neither_a_line_nor_the_file_holds_it(
    laid: Block, stretch: Stretch, wanted: tuple[bool, bool]
) -> None:
    assert Stretches(["a", "b", "c", "d", "e"]).frees(laid, stretch) == wanted


# -- finding ---------------------------------------------------------------------------------------------------------
def test_a_stretch_between_two_equal_lines_is_found_with_its_cost() -> None:
    """`one` and `mid` would go and `new` come."""
    lines = "open one close mid open two close"
    assert found(lines, block("open new close"), Stretch(4, 7)) == {(2, 0, 3)}


def test_what_costs_more_than_the_limit_is_not_found() -> None:
    lines = "open one close mid open two close"
    assert found(lines, block("open new close"), Stretch(4, 7), limit=1.0) == set()


def test_nothing_is_found_above_the_floor() -> None:
    lines = "open one close mid open two close"
    assert found(lines, block("open new close"), Stretch(4, 7), floor=1) == set()


def test_a_last_line_that_stands_nowhere_beyond_may_be_new() -> None:
    """Right below `open`, or below `one`, which then goes."""
    assert found("open one two open", block("open new"), Stretch(3, 4), limit=2.0) == {(1, 0, 1), (2, 0, 2)}


def test_a_last_line_that_stands_further_down_is_not_new_before_it() -> None:
    assert found("open one new open", block("open new"), Stretch(3, 4), limit=0.5) == set()
    assert found("open one new open", block("open new"), Stretch(3, 4), limit=1.0) == {(1, 0, 3)}


def test_a_sign_without_a_word_may_be_new_although_it_stands_further_down() -> None:
    assert found("open one * open", block("open *"), Stretch(3, 4), limit=1.0) == {(1, 0, 1), (1, 0, 3)}


def test_a_first_line_that_stands_nowhere_above_may_be_new() -> None:
    assert (1, 0, 1) in found("close one two close", block("new close"), Stretch(3, 4), limit=1.0)
    assert found("new one two close mid close", block("new close"), Stretch(5, 6), limit=1.0) == set()


@pytest.mark.parametrize(("opens", "wanted"), [(True, {(3, 0, 1)}), (False, set())])
def test_the_files_start_holds_a_block_without_a_marker_above(opens: bool, wanted: set[tuple[int, int, int]]) -> None:
    """The file's first line would go, two new ones come; nothing else holds the block."""
    assert found("first mid last", block("mine new", opens=opens), Stretch(2, 3)) == wanted


@pytest.mark.parametrize(("closes", "wanted"), [(True, {(3, 2, 3)}), (False, set())])
def test_the_files_end_holds_a_block_without_a_marker_below(closes: bool, wanted: set[tuple[int, int, int]]) -> None:
    assert found("first mid last", block("mine new", closes=closes), Stretch(0, 1)) == wanted


def test_a_line_that_only_moved_costs_one() -> None:
    """`one` moves below `two`: it goes above and is new below, and counts once."""
    lines = "open one two close mid open six close"
    assert (1, 0, 4) in found(lines, block("open two one close"), Stretch(5, 8))


def test_the_work_is_bounded_in_a_file_of_equal_lines() -> None:
    """The nearest places are looked at, the farthest not."""
    n_lines = 4 * MAX_STEPS
    stretches = Stretches(["a", "b"] * (n_lines // 2))
    starts = {s.start for _, s in stretches.find(block("a b"), Stretch(100, 102), 0, 1.0)}
    assert {98, 102} <= starts
    assert max(starts) < n_lines // 2

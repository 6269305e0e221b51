"""Drafts where the target indents lines otherwise than the predicted merge does."""

from __future__ import annotations

import numpy as np
import pytest

from apply_service.drafting.copy import IndentShift, MergedEdit, Source
from apply_service.protocols import DraftSource
from tests.drafting.simulation import job, passes, passes_in, tokenizers

BLOCK = ["if ready:", "    for item in items:", "        handle(item)", "        count += 1", "    report()", "done()"]
VOCABULARIES = pytest.mark.parametrize("vocabulary", ["before", "after", None])
OTHERS = "".join(f"value_{i} = compute({i}, mode='fast')\n" for i in range(40))


def indented(lines: list[str], prefix: str, *, tabs: bool = False) -> str:
    shifted = [line.replace("    ", "\t") if tabs else line for line in lines]
    return "".join(f"{prefix}{line}\n" for line in shifted)


def rejections(wrong: str, right: str, vocabulary: str | None = None) -> int:
    """For a predicted merge that holds `wrong` where the target writes `right`, in the middle of a file."""
    others = OTHERS.replace("value", "other")
    edit = job(OTHERS + others, wrong, OTHERS + wrong + others)
    if vocabulary is None:
        return passes(MergedEdit, edit, OTHERS + right + others).rejections
    return passes_in(tokenizers()[vocabulary], MergedEdit, edit, OTHERS + right + others).rejections


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (indented(BLOCK, ""), indented(BLOCK, "    ")),
        (indented(BLOCK, "        "), indented(BLOCK, "  ")),
        (indented(BLOCK, "  "), indented(BLOCK, "", tabs=True)),
        (indented(BLOCK, "\t", tabs=True), indented(BLOCK, "    ")),
    ],
    ids=["deeper", "shallower", "spaces to tabs", "tabs to spaces"],
)
@pytest.mark.parametrize(("vocabulary", "most"), [("before", 3), ("after", 3), (None, 5)])
def test_a_block_at_another_depth_costs_passes_for_its_first_lines_only(
    wrong: str, right: str, vocabulary: str | None, most: int
) -> None:
    assert rejections(wrong, right, vocabulary) <= most


@VOCABULARIES
def test_without_a_block_of_other_depth_nothing_is_shifted(vocabulary: str | None) -> None:
    right = indented(BLOCK, "    ")
    assert rejections(right, right, vocabulary) == 0


@pytest.mark.parametrize(("vocabulary", "most"), [("before", 2), ("after", 2), (None, 4)])
def test_a_blank_line_more_or_less_costs_a_rejection_or_two(vocabulary: str | None, most: int) -> None:
    """Byte by byte, every blank looks like another indentation."""
    block = indented(BLOCK, "    ")
    assert rejections(block, "\n" + block, vocabulary) <= most
    assert rejections("\n\n" + block, "\n" + block, vocabulary) <= most


class TestShift:
    def shift(self, *pairs: tuple[str, str], source_step: int = 4, file_step: int = 4) -> IndentShift:
        shift = IndentShift()
        for source, written in pairs:
            shift.learn(source, written, source_step=source_step, file_step=file_step)
        return shift

    def test_one_pair_moves_every_depth_by_as_much(self) -> None:
        shift = self.shift(("  ", " " * 6))
        assert [len(shift.apply(" " * n)) for n in (0, 2, 4, 10)] == [4, 6, 8, 14]

    def test_a_shift_to_the_left_ends_at_the_margin(self) -> None:
        assert self.shift((" " * 8, " " * 4)).apply("  ") == ""

    def test_tabs_become_as_many_spaces_as_the_pair_says(self) -> None:
        assert self.shift(("\t\t", " " * 8)).apply("\t\t\t") == " " * 12

    def test_steps_that_fit_scale(self) -> None:
        assert self.shift((" " * 4, " " * 2), source_step=4, file_step=2).apply(" " * 12) == " " * 6

    def test_two_pairs_give_the_slope(self) -> None:
        assert self.shift(("    ", "  "), (" " * 8, " " * 4)).apply(" " * 16) == " " * 8

    def test_what_was_seen_is_repeated(self) -> None:
        assert self.shift(("    ", "\t"), ("  ", "   ")).apply("    ") == "\t"


def test_the_step_of_a_text_is_its_least() -> None:
    for text, step in (("a\n    b\n      c\n\n\n    d\n", 2), ("a\nb\n", 4)):
        nothing = np.zeros(0, np.int64)
        assert Source("update", DraftSource("update", text, nothing, nothing)).step == step

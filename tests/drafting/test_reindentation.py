"""Drafts where the target indents lines otherwise than the predicted merge does."""

from __future__ import annotations

import pytest

from apply_service.drafting.copy import MergedEdit, indented_anew
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


@pytest.mark.parametrize(
    ("known", "written", "wanted"),
    [
        ("  ", " " * 6, {"": " " * 4, "  ": " " * 6, " " * 10: " " * 14}),
        (" " * 8, " " * 4, {"  ": "", " " * 12: " " * 8}),
        ("\t\t", " " * 8, {"\t\t\t": " " * 12}),
        ("    ", "\t", {" " * 8: "\t\t"}),
        ("\t", "", {"\t\t": "\t"}),
    ],
    ids=["deeper", "not beyond the margin", "tabs to spaces", "spaces to tabs", "tabs stay tabs"],
)
def test_lines_are_moved_by_as_much_or_scaled(known: str, written: str, wanted: dict[str, str]) -> None:
    found = {blanks: indented_anew(blanks + "a  b", known, written) for blanks in wanted}
    assert found == {blanks: to + "a  b" for blanks, to in wanted.items()}

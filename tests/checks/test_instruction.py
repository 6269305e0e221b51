"""What an instruction orders and the result visibly lacks."""

from __future__ import annotations

import pytest

from apply_service.checks.relation import unmet_order

BEFORE = "import old_helper\n\nclass Cart:\n    def add(self, item):\n        return old_helper(item)\n"
AFTER = BEFORE.replace("return", "yield")


@pytest.mark.parametrize(
    ("instruction", "told"),
    [
        ("Remove `old_helper`", "to remove `old_helper`, which the result still has"),
        ("remove old_helper", "to remove `old_helper`, which the result still has"),
        ("I am deleting the unused old_helper() now", None),
        ("I am deleting the unused old_helper().", "to remove `old_helper`, which the result still has"),
        ("Yield items; drop `old_helper` from the imports", "to remove `old_helper`, which the result still has"),
        ("Renaming `add` to `append`", "to rename `add`, which the result still has"),
        ("I'll add `Cart.clear` and its test", "to add `Cart.clear`, which the result does not have"),
        ('Add "clear()" below it.', "to add `clear`, which the result does not have"),
    ],
)
def test_an_order_is_held_against_the_result(instruction: str, told: str | None) -> None:
    assert unmet_order(instruction, BEFORE, AFTER) == told


@pytest.mark.parametrize(
    "instruction",
    [
        "",
        "I yield the item in place of returning it.",
        "Remove the helper",  # says no name
        "Remove old_helper fallback",  # the name says which fallback
        "Remove `new_helper`",  # the file never had it
        "Do not remove `old_helper`",
        "This keeps `old_helper`, and adds logging to `Cart`",
        "Add support for MixedCase names",
        "Add `Cart.add`",  # stands there as `add`
        "Add `Cart`",
    ],
)
def test_what_can_t_be_held_against_a_text_is_no_finding(instruction: str) -> None:
    assert unmet_order(instruction, BEFORE, AFTER) is None


def test_an_order_that_was_carried_out_is_no_finding() -> None:
    after = BEFORE.replace("old_helper", "new_helper").replace("add", "append")
    for instruction in ("Remove `old_helper`", "Rename `old_helper` to `new_helper`", "rename `add` to `append`"):
        assert unmet_order(instruction, BEFORE, after) is None
    assert unmet_order("Rename `old_helper` to `helper`", BEFORE, after) == (
        "to rename `old_helper` to `helper`, which the result does not have"
    )


def test_a_name_that_goes_in_one_place_of_several_is_no_finding() -> None:
    assert unmet_order("Remove `old_helper` from add", BEFORE, BEFORE.replace("import old_helper\n", "")) is None

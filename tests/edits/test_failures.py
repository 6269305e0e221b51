"""What a failed edit tells: which part, where it differs, where it may belong, and the next call."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from apply_service.errors import ApplyError, NeedsMoreContext
from apply_service.formats.quotes import MAX_QUOTED, quote_changes
from tests.edits.call_forms import FILE, NEW, OLD, STRIPPED
from tests.edits.test_call_forms import apply

MISQUOTED = "def load(path):\n    with open(file_path) as file:\n" + OLD
MADE = "def load(path):\n    with open(file_path) as file:\n" + NEW


def block(old: str, new: str) -> str:
    return f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"


def patch(old: str, new: str) -> str:
    shown = old.split("\n")[:-1]
    rows = [*(f" {line}" for line in shown), f"-{OLD}", f"+{NEW}"]
    return "\n".join(["*** Begin Patch", "*** Update File: a.py", "@@", *rows, "*** End Patch", ""])


def call(old: str, new: str) -> str:
    return json.dumps({"old_string": old, "new_string": new})


def failed(update: str, original: str = FILE) -> ApplyError:
    with pytest.raises(NeedsMoreContext) as error:
        apply(update, original)
    return error.value


@pytest.mark.parametrize("write", [block, patch, call])
def test_a_misquoted_line_is_named_with_the_next_call(write: object) -> None:
    assert callable(write)
    error = failed(write(MISQUOTED, MADE))
    (failure,) = error.failures
    assert error.source_sha256 == sha256(FILE.encode()).hexdigest()
    assert failure["quoted"] == "    with open(file_path) as file:"
    assert failure["found"] == "    with open(path) as file:"
    assert failure["line"] == 5
    assert failure["candidates"][0]["first"] == 4  # type: ignore[index]
    following = failure["next"]
    assert isinstance(following, str)
    result = apply(following)
    assert result.merged_code == STRIPPED
    assert result.reasons == ()


def test_the_words_of_the_file_stay_where_the_edit_changes_others() -> None:
    original = "def send(path, text: str, retries: int = 3) -> None:\n    pass\n"
    old, new = "def send(path, text, retries = 3):\n    pass", "def send(path, text, retries = 5):\n    pass"
    (failure,) = failed(call(old, new), original).failures
    assert isinstance(failure["next"], str)
    assert apply(failure["next"], original).merged_code == original.replace("3", "5")


def test_two_places_are_candidates_without_a_next_call() -> None:
    (failure,) = failed(call("as file:", "as f:")).failures
    assert [place["first"] for place in failure["candidates"]] == [5, 10]  # type: ignore[attr-defined]
    assert failure["next"] is None


def test_lines_like_nothing_have_no_candidates() -> None:
    (failure,) = failed(block("qqqq = zzzz(1234)\nwwww = 7", "x = 1")).failures
    assert failure == {
        **dict.fromkeys(("quoted", "found", "line", "next")), "part": "block 1", "candidates": []
    }  # fmt: skip


def test_a_change_inside_what_the_quote_leaves_out_has_no_next_call() -> None:
    original = "a_first_line()\nb_second_line()\nc_third_line()\nd_fourth_line()\n"
    old = "a_first_line()\nc_third_line()\nd_fourth_lin()"
    (failure,) = failed(block(old, old.replace("a_first_line()", "a_first_line()\nnew_line()")), original).failures
    assert failure["next"] is None


@pytest.mark.parametrize("write", [block, call])
def test_an_edit_that_the_file_has_is_said_to_be_applied(write: object) -> None:
    assert callable(write)
    result = apply(write(f"    with open(path) as file:\n{OLD}", f"    with open(path) as file:\n{NEW}"), STRIPPED)
    assert result.merged_code == STRIPPED
    assert result.already_applied
    assert any("already" in verdict.message for verdict in result.verdicts)


def test_an_edit_that_changes_something_is_not() -> None:
    assert not apply(call(OLD, NEW)).already_applied
    assert apply(STRIPPED, STRIPPED).already_applied


def test_quotes_grow_until_they_stand_once() -> None:
    lines = ["a", "b", "a", "b", "c"]
    (quote,) = quote_changes(lines, ["a", "b", "a", "x", "c"]) or []
    assert "\n".join(lines).count("\n".join(quote.old)) == 1
    assert quote.new[quote.old.index("b", 1) if quote.old[0] == "b" else quote.old.index("b")] == "x"


def test_a_file_that_repeats_itself_can_not_be_quoted() -> None:
    lines = ["same"] * (3 * MAX_QUOTED)
    middle = len(lines) // 2
    assert quote_changes(lines, [*lines[:middle], "new", *lines[middle + 1 :]]) is None

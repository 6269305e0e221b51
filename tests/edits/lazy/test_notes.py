"""Lines that a snippet's reading leaves out although they may be meant for the file: each pair differs in that."""

from __future__ import annotations

import pytest

from tests.edits.merges import assert_merged

RUN = "def run():\n    prepare()\n    begin()\n    return 2\n\n\ndef stop():\n    pass\n"
STEPS = "steps:\n  # keep the rest of the steps in order\n  - build\n  - check\n  - deploy\n"
PAGE = "# Title\n\n~~~sh\nmake\n~~~\n\nDone.\n"


# -- notes -----------------------------------------------------------------------------------------------------------
def test_a_marker_that_stands_in_the_file() -> None:
    original = "def first():\n    # ... existing code ...\n    return 1\n\n\n" + RUN
    update = "# ...\ndef run():\n    # ... existing code ...\n    begin()\n    leave()\n    return 2\n# ...\n"
    wanted = original.replace("begin()\n", "begin()\n    leave()\n")
    assert_merged(original, update, wanted)


def test_a_marker_in_other_words_than_the_files() -> None:
    original = "def first():\n    # ... existing code ...\n    return 1\n\n\n" + RUN
    update = "# ...\ndef run():\n    # ... unchanged ...\n    begin()\n    leave()\n    return 2\n# ...\n"
    assert_merged(original, update, original.replace("begin()\n", "begin()\n    leave()\n"))


def test_a_hint_inside_a_block_may_be_a_comment() -> None:
    update = "def run():\n    prepare()\n    # add after prepare\n    check()\n    begin()\n# ...\n"
    assert_merged(RUN, update, RUN.replace("prepare()\n", "prepare()\n    check()\n"))


def test_a_comment_that_asks_for_nothing_is_no_hint() -> None:
    update = "def run():\n    prepare()\n    # checks after prepare\n    check()\n    begin()\n# ...\n"
    assert_merged(RUN, update, RUN.replace("prepare()\n", "prepare()\n    # checks after prepare\n    check()\n"))


def test_a_marker_much_like_a_line_of_the_file_may_be_that_line_changed() -> None:
    update = "steps:\n  # keep the rest of the steps as is\n  - build\n  - check\n  - test\n  - deploy\n"
    wanted = STEPS.replace("  - deploy", "  - test\n  - deploy")
    assert_merged(STEPS, update, wanted, language="yaml")


def test_a_marker_like_no_line_of_the_file() -> None:
    update = "steps:\n  # ... the rest stays as it was ...\n  - build\n  - check\n  - test\n  - deploy\n"
    assert_merged(STEPS, update, STEPS.replace("  - deploy", "  - test\n  - deploy"), language="yaml")


# -- fences ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("fence", ["~~~markdown", "~~~md"])
def test_a_fence_of_tildes_may_belong_to_a_file_that_has_some(fence: str) -> None:
    wanted = PAGE.replace("make", "make all")
    update = f"{fence}\n{wanted}~~~\n"
    assert_merged(PAGE, update, wanted, language="markdown")


def test_a_fence_of_other_signs_than_the_files_is_the_snippets() -> None:
    wanted = PAGE.replace("make", "make all")
    assert_merged(PAGE, f"```markdown\n{wanted}```\n", wanted, language="markdown")


def test_a_fence_of_tildes_is_the_snippets_where_the_file_has_none() -> None:
    assert_merged(RUN, f"~~~python\n{RUN.replace('2', '3 + base(2)')}~~~\n", RUN.replace("2", "3 + base(2)"))


# -- blank lines at the edges ----------------------------------------------------------------------------------------
START = "def run():\n    prepare()\n    check()\n    begin()\n# ...\n"
STARTED = RUN.replace("prepare()\n", "prepare()\n    check()\n")
END = "# ...\ndef stop():\n    check()\n    pass\n"
ENDED = RUN.replace("    pass\n", "    check()\n    pass\n")


@pytest.mark.parametrize(
    ("update", "wanted"),
    [
        pytest.param(f"\n{START}", STARTED, id="above"),
        pytest.param(f"{END}\n", ENDED, id="below"),
        pytest.param(f"```\n\n{START}```\n", STARTED, id="above, in a fence"),
        pytest.param(f"```\n{END}\n```\n", ENDED, id="below, in a fence"),
    ],
)
def test_blank_lines_at_an_edge_without_a_marker(update: str, wanted: str) -> None:
    assert_merged(RUN, update, wanted)


@pytest.mark.parametrize(
    ("update", "wanted"),
    [
        pytest.param(START, STARTED, id="none above"),
        pytest.param(END, ENDED, id="none below"),
        pytest.param(f"{START}\n\n", STARTED, id="below a marker"),
        pytest.param(f"\n\n{END}", ENDED, id="above a marker"),
        pytest.param(f"```\n{END}```\n\n\n", ENDED, id="behind a fence"),
    ],
)
def test_blank_lines_elsewhere(update: str, wanted: str) -> None:
    assert_merged(RUN, update, wanted)

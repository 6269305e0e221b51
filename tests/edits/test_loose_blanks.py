"""Blank lines at the file's edges and beside markers: the file keeps its own."""

from __future__ import annotations

import pytest

from tests.edits.merges import assert_merged

IMPORTS = "import os\nimport sys\n\nx = 1\n"
STEPS = "open()\nrun()\nclose()\nstop()\n"


# -- the file's edges ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("original", "update", "wanted"),
    [
        pytest.param(
            f"\n\n{IMPORTS}",
            "import os\nimport re\nimport sys\n\n# ...\n",
            "\n\nimport os\nimport re\nimport sys\n\nx = 1\n",
            id="start",
        ),
        pytest.param(f"{IMPORTS}y = 2\n\n\n", "# ...\nx = 1\nz = 4\ny = 2\n", f"{IMPORTS}z = 4\ny = 2\n\n\n", id="end"),
    ],
)
def test_a_snippet_that_begins_or_ends_beside_the_files_blank_edge(original: str, update: str, wanted: str) -> None:
    assert_merged(original, update, wanted)


@pytest.mark.parametrize(
    ("original", "update", "wanted"),
    [
        pytest.param(
            f"\n\n{IMPORTS}",
            "# ...\nimport os\nimport re\nimport sys\n\n# ...\n",
            "\n\nimport os\nimport re\nimport sys\n\nx = 1\n",
            id="marker at the start",
        ),
        pytest.param(
            f"{IMPORTS}y = 2\n\n\n",
            "# ...\nx = 1\nz = 4\ny = 2\n# ...\n",
            f"{IMPORTS}z = 4\ny = 2\n\n\n",
            id="marker at the end",
        ),
        pytest.param(
            IMPORTS,
            "import os\nimport re\nimport sys\n\n# ...\n",
            "import os\nimport re\nimport sys\n\nx = 1\n",
            id="no blank line at the start",
        ),
        pytest.param(
            f"{IMPORTS}y = 2\n", "# ...\nx = 1\nz = 4\ny = 2\n", f"{IMPORTS}z = 4\ny = 2\n", id="none at the end"
        ),
        pytest.param(
            f"\n\n{IMPORTS}y = 2\n\n\n",
            "import os\nimport sys\n# ...\nx = 1\nz = 4\ny = 2\n# ...\n",
            f"\n\n{IMPORTS}z = 4\ny = 2\n\n\n",
            id="the block at the edge changes nothing",
        ),
    ],
)
def test_a_marker_or_an_unchanged_block_leaves_the_edge_alone(original: str, update: str, wanted: str) -> None:
    assert_merged(original, update, wanted)


# -- beside a marker -------------------------------------------------------------------------------------------------
def test_a_block_whose_last_lines_may_be_new_keeps_no_blank_line_for_sure() -> None:
    update = "open()\nlog()\nrun()\nclose()\nrun()\nclose()\n\n# ...\n"
    assert_merged(STEPS, update, "open()\nlog()\nrun()\nclose()\nrun()\nclose()\nstop()\n")


def test_a_block_whose_first_lines_may_be_new_keeps_no_blank_line_for_sure() -> None:
    update = "# ...\n\nopen()\nrun()\nopen()\nrun()\nlog()\nclose()\nstop()\n"
    original = f"begin()\n{STEPS}"
    assert_merged(original, update, "begin()\nopen()\nrun()\nopen()\nrun()\nlog()\nclose()\nstop()\n")


@pytest.mark.parametrize(
    "update",
    [
        pytest.param("open()\nlog()\nrun()\nclose()\nrun()\nclose()\n# ...\n", id="no blank line"),
        pytest.param("open()\nlog()\nrun()\nclose()\nrun()\nclose()\nstop()\n\n# ...\n", id="an end that is known"),
    ],
)
def test_no_blank_line_or_an_end_that_is_known(update: str) -> None:
    original = f"{STEPS}\nfinish()\n" if "stop" in update else STEPS
    wanted = "open()\nlog()\nrun()\nclose()\nrun()\nclose()\nstop()\n" + original.removeprefix(STEPS)
    assert_merged(original, update, wanted)


def test_a_blank_line_that_the_file_has_there() -> None:
    original = "open()\nrun()\nclose()\n\nstop()\n"
    update = "open()\nlog()\nrun()\nclose()\nrun()\nclose()\n\n# ...\n"
    assert_merged(original, update, "open()\nlog()\nrun()\nclose()\nrun()\nclose()\n\nstop()\n")

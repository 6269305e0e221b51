"""Blank lines between new lines and a marker: the file's, or the marker's padding."""

from __future__ import annotations

from apply_service.edits.merge import merge

RUN = """\
def run(jobs):
    total = 0
    for job in jobs:
        total += job.cost
    report(total)
    return total


def report(total):
    print(total)
"""


def merged(update: str) -> str:
    return merge(RUN, update, language="python").text


def test_a_blank_line_below_a_new_nested_stretch_is_meant() -> None:
    update = "def run(jobs):\n    if not jobs:\n        return 0\n\n    # ... existing code ...\n"
    head = "def run(jobs):\n"
    assert merged(update) == RUN.replace(head, head + "    if not jobs:\n        return 0\n\n")


def test_a_blank_line_below_a_plain_new_line_is_the_markers() -> None:
    update = "def run(jobs):\n    jobs = list(jobs)\n\n    # ... existing code ...\n"
    head = "def run(jobs):\n"
    assert merged(update) == RUN.replace(head, head + "    jobs = list(jobs)\n")


def test_a_blank_line_is_meant_where_other_markers_touch_lines_of_the_file() -> None:
    update = """\
def run(jobs):
    jobs = list(jobs)

    # ... existing code ...
        total += job.cost
    # ... existing code ...
    return max(total, 0)
# ... existing code ..."""
    wanted = RUN.replace("def run(jobs):\n", "def run(jobs):\n    jobs = list(jobs)\n\n")
    assert merged(update) == wanted.replace("return total", "return max(total, 0)")


def test_two_blank_lines_are_no_padding() -> None:
    original = "import os\nclass A:\n    pass\n"
    update = "import os\nimport sys\n\n\n# ... existing code ...\n"
    assert merge(original, update, language="python").text == "import os\nimport sys\n\n\nclass A:\n    pass\n"

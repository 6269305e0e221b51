"""Scopes, names of files and anchors that may be read in two ways."""

from __future__ import annotations

import pytest

from tests.edits.merges import assert_merged, edited

READERS = """\
class Reader:
    def open(self):
        return self.file

    def close(self):
        self.file.close()


class Writer:
    def open(self):
        return self.pipe

    def flush(self):
        self.pipe.flush()
        self.pipe.sync()
"""
FLUSHED = edited(READERS, "self.pipe.flush()\n", "self.pipe.flush()\n        self.pipe.check()\n")
CONFIG = "# config.yaml\nname: a\nport: 80\nhost: b\n"


# -- scopes ----------------------------------------------------------------------------------------------------------
def test_a_block_outside_the_scope_shown_above_it() -> None:
    update = """\
class Reader:
    # ...
    def flush(self):
        self.pipe.flush()
        self.pipe.check()
        self.pipe.sync()
# ...
"""
    assert_merged(READERS, update, FLUSHED)


@pytest.mark.parametrize(
    "above",
    [
        pytest.param("class Writer:\n    # ...\n", id="its own header"),
        pytest.param("class Reader:\n    # ...\n# ...\nclass Writer:\n    # ...\n", id="its own header last"),
        pytest.param("# ...\n", id="no header"),
    ],
)
def test_a_block_inside_the_scope_shown_above_it(above: str) -> None:
    update = f"""\
{above}    def flush(self):
        self.pipe.flush()
        self.pipe.check()
        self.pipe.sync()
# ...
"""
    assert_merged(READERS, update, FLUSHED)


def test_a_header_that_opens_nothing_holds_no_block() -> None:
    original = "title = 1\n\n\ndef run():\n    first_step()\n    last_step()\n"
    update = "title = 1\n# ...\n    first_step()\n    second_step()\n    last_step()\n"
    assert_merged(original, update, edited(original, "first_step()\n", "first_step()\n    second_step()\n"))


def test_dropping_the_header_between_two_scopes() -> None:
    update = """\
# ...
    def close(self):
        self.file.close()

    def flush(self):
        self.pipe.flush()
# ...
"""
    gone = "\n\nclass Writer:\n    def open(self):\n        return self.pipe\n\n"
    assert_merged(READERS, update, edited(READERS, gone, "\n"))


def test_dropping_lines_of_the_scopes_own_depth() -> None:
    original = edited(READERS, "        self.file.close()\n", "        self.file.lock()\n        self.file.close()\n")
    update = "# ...\n    def close(self):\n        self.file.close()\n# ...\n"
    assert_merged(original, update, READERS)


# -- notes -----------------------------------------------------------------------------------------------------------
def test_a_first_line_that_names_the_file_and_stands_in_it_may_be_for_the_reader() -> None:
    update = edited(CONFIG, "80", "81")
    assert_merged(CONFIG, update, update, language="yaml", path="config.yaml")


def test_a_first_line_that_names_another_file_is_the_files() -> None:
    update = edited(CONFIG, "80", "81")
    assert_merged(CONFIG, update, update, language="yaml", path="other.yaml")


def test_a_first_line_that_names_the_file_and_does_not_stand_in_it_is_no_part_of_it() -> None:
    original = CONFIG.removeprefix("# config.yaml\n")
    wanted = edited(original, "80", "81")
    assert_merged(original, f"# config.yaml\n{wanted}", wanted, language="yaml", path="config.yaml")


# -- anchors ---------------------------------------------------------------------------------------------------------
SCALES = """\
def first(x):
    y = scale(x)
    return y


def second(x):
    y = scale(x)
    return y
"""


def test_context_with_its_header_stands_once() -> None:
    update = "# ...\ndef second(x):\n    y = scale(x)\n    z = check(y)\n    return y\n# ...\n"
    head, tail = SCALES.split("def second")
    tail = edited(tail, "    return y\n", "    z = check(y)\n    return y\n")
    assert_merged(SCALES, update, f"{head}def second{tail}")


def test_ends_that_stand_together_elsewhere() -> None:
    """Although the run of context at the block's head is found once."""
    original = "begin()\nload_all(1)\nsave_all(1)\nfinish()\nbegin()\nsweep_all(2)\nfinish()\nstop()\n"
    update = "# ...\nbegin()\nload_all(1)\ncheck_all(1)\nsave_all(1)\nfinish()\n# ...\n"
    wanted = edited(original, "load_all(1)\n", "load_all(1)\ncheck_all(1)\n")
    assert_merged(original, update, wanted)
    original, wanted = (edited(text, "begin()\nsweep", "enter()\nsweep") for text in (original, wanted))
    assert_merged(original, update, wanted)

"""Scopes, wording, blank lines and repeats that may be read in two ways: each pair differs in what decides."""

from __future__ import annotations

import pytest

from apply_service.merge.merge import readings
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


MEASURE = """\
def measure(box):
    if box:
        begin_with(box)
        weigh_it_all(box)
    finish(box)
"""
CLOSE = """\
def close(pool):
    # Close the pool and every connection that it still holds open
    pool.stop()
    pool.clear()
    return None
"""


# -- white space -----------------------------------------------------------------------------------------------------
def test_a_stretch_that_only_moves_sideways() -> None:
    original = "def run(item):\n    first_step(1)\n    if item:\n        second_step(item)\n    last(2)\n"
    update = "def run(item):\n    first_step(1)\n    second_step(item)\n    last(2)\n"
    assert_merged(original, update, update)


def test_a_stretch_that_says_something_new_besides() -> None:
    original = "def run(item):\n    first_step(1)\n    if item:\n        second_step(item)\n    last(2)\n"
    update = "def run(item):\n    first_step(1)\n    second_step(item)\n    check(item)\n    last(2)\n"
    assert_merged(original, update, update)


def test_a_line_indented_otherwise_where_no_line_proves_the_margin() -> None:
    original = "def run():\n    do(1)\n    measure_all(item)\n    go(2)\n"
    update = "def run():\n    do(1)\n    if item:\n        measure_all(item)\n    go(2)\n"
    assert_merged(original, update, update)


def test_a_line_indented_otherwise_is_meant_where_another_is_indented_as_in_the_file() -> None:
    original = "def run():\n    do_the_first(1)\n    measure_all(item)\n    go(2)\n"
    update = "def run():\n    do_the_first(1)\n    if item:\n        measure_all(item)\n    go(2)\n"
    assert_merged(original, update, update)


SHORT = "begin_with(box)\ncount = 1\ndone()  \nleave(box)\n"
LONGER = "begin_with(box)\ncount = 1\nwidth = measure(box)\ndone()\nleave(box)\n"


def test_a_short_line_taken_without_its_trailing_space() -> None:
    assert_merged(SHORT, LONGER, LONGER)


def test_a_short_line_taken_as_the_file_has_it() -> None:
    assert_merged(edited(SHORT, "()  ", "()"), LONGER, LONGER)


# -- misquotations ---------------------------------------------------------------------------------------------------
def test_a_comment_that_lost_a_word_and_moved_may_be_the_files() -> None:
    update = edited(CLOSE, "    pool.stop()\n", "")
    update = edited(update, "    # Close the pool and every connection that it still holds open\n", "    pool.halt()\n")
    update = edited(
        update,
        "    pool.clear()\n",
        "    # Close the pool and every connection it still holds open\n    pool.clear()\n",
    )
    assert_merged(CLOSE, update, update)


@pytest.mark.parametrize(
    "comment",
    [
        pytest.param("# Close the pool and every connection that it still holds open", id="as in the file"),
        pytest.param("# Close the pool, then forget each of its connections", id="in other words"),
    ],
)
def test_a_comment_in_the_files_words_or_in_its_own_is_no_misquotation(comment: str) -> None:
    update = edited(CLOSE, "# Close the pool and every connection that it still holds open", comment)
    update = edited(update, "pool.stop()", "pool.halt()")
    assert_merged(CLOSE, update, update)


# -- trailing white space --------------------------------------------------------------------------------------------
def test_a_gap_before_a_remark_may_be_the_lines_own() -> None:
    update = edited(MEASURE, "weigh_it_all(box)", "weigh_it_all(box, 3)   # <- changed")
    assert_merged(MEASURE, update, edited(MEASURE, "weigh_it_all(box)", "weigh_it_all(box, 3)"))


def test_two_spaces_before_a_remark_are_the_remarks() -> None:
    update = edited(MEASURE, "weigh_it_all(box)", "weigh_it_all(box, 3)  # <- changed")
    assert_merged(MEASURE, update, edited(MEASURE, "weigh_it_all(box)", "weigh_it_all(box, 3)"))


POOL = """\
import connections


class Pool:
    def open(self, address):
        connection = connections.connect_to(address)
        connection.set_keep_alive_of(self.seconds)
        self.open_connections.append(connection)
        return connection

    def close(self):
        for connection in self.open_connections:
            connection.close()
        self.open_connections.clear()
"""
REPEATED = """\
        connection = connections.connect_to(address)
        connection.set_keep_alive_of(self.seconds)
        self.open_connections.append(connection)
"""
OTHER = """\
        replacement = connections.connect_again(address)
        replacement.set_waiting_time_of(self.minutes)
        self.all_replacements.append(replacement)
"""


def closing_after(lines: str) -> str:
    return edited(POOL, "    def close(self):\n", f"    def close(self):\n{lines}")


def update_of(lines: str) -> str:
    return f"""\
# ... existing code ...
    def close(self):
{lines}        for connection in self.open_connections:
            connection.close()
        self.open_connections.clear()
"""


def test_a_run_of_hidden_lines() -> None:
    assert_merged(POOL, update_of(REPEATED), closing_after(REPEATED))


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(OTHER, id="lines of its own"),
        pytest.param(REPEATED.splitlines(keepends=True)[0], id="one line"),
    ],
)
def test_what_is_no_run_of_them(lines: str) -> None:
    assert_merged(POOL, update_of(lines), closing_after(lines))


def test_a_copy_of_lines_that_the_snippet_shows() -> None:
    update = edited(POOL, "    def close(self):\n", f"    def close(self):\n{REPEATED}")
    shown = update[update.index("    def open") :]
    assert_merged(POOL, f"# ... existing code ...\n{shown}", update)


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


# -- hidden lines beside a block ---------------------------------------------------------------------------------
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


def test_a_hidden_line_far_away() -> None:
    line = "depth = probe_bottom(box)"
    between = "".join(f"    step_number({n})\n" for n in range(14))
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


# -- readings that are made, whichever is chosen ---------------------------------------------------------------------
DOCUMENTED = """\
class A {
  /**
   * Loads.
   */
  load() {
    return 1;
  }

  /**
   * Saves.
   */
  save() {
    return 2;
  }
}
"""
ENTRIES = """\
export default [
  {
    name: 'first of all',
    code: one,
  },
  {
    name: 'second',
    code: two,
  },
]
"""
GO = 'import (\n\t"os"\n)\n\nfunc Old() int {\n\treturn 1\n}\n'
NEW_GO = "func One() {\n\tfmt.Print(1)\n\n\tos.Exit(0)\n}\n\nfunc Two() {\n\tOne()\n}\n"
FOUR = "".join(f"def {name}():\n    return {name!r}\n\n\n" for name in "abcd")
LONG_HEADER = """\
class A {
  render(
    source,
    { chunk, graph },
    options
  ) {
    return 1;
  }

  size() {
    return 2;
  }
}
"""


@pytest.mark.parametrize(
    ("original", "language", "update", "wanted"),
    [
        pytest.param(
            DOCUMENTED,
            "javascript",
            "class A {\n  // ...\n  load() {\n    return 3;\n  }\n\n  save() {\n    // ...\n  }\n}\n",
            DOCUMENTED.replace("return 1", "return 3"),
            id="the comment above a stub stays",
        ),
        pytest.param(
            ENTRIES,
            "typescript",
            "export default [\n  { name: 'first of all', ... },\n  {\n    name: 'second',\n    code: three,\n  },\n]\n",
            ENTRIES.replace("two", "three"),
            id="an entry in one line with dots",
        ),
        pytest.param(
            GO,
            "go",
            'import (\n\t"fmt"\n\t"os"\n)\n\n' + NEW_GO,
            GO.replace('\t"os"', '\t"fmt"\n\t"os"') + "\n" + NEW_GO,
            id="definitions below the imports are for the end of the file",
        ),
        pytest.param(
            FOUR,
            "python",
            FOUR[: FOUR.index("def b")] + FOUR[FOUR.index("def d") :],
            FOUR[: FOUR.index("def b")] + FOUR[FOUR.index("def d") :],
            id="definitions that are not shown go",
        ),
        pytest.param(
            LONG_HEADER,
            "javascript",
            "class A {\n  render(source, context, options) { /* unchanged */ }\n\n  size() {\n    return 3;\n  }\n}\n",
            LONG_HEADER.replace("return 2", "return 3"),
            id="a stub of a header over several lines",
        ),
    ],
)
def test_is_among_the_readings(original: str, language: str, update: str, wanted: str) -> None:
    assert wanted in [reading.text for reading, _ in readings(original, update, language=language)]


def test_a_new_definition_alone_gets_the_blank_lines_of_the_file_above_it() -> None:
    file = FOUR.rstrip() + "\n"
    assert_merged(file, "def e():\n    return 'e'", file + "\n\ndef e():\n    return 'e'\n", language="python")


def test_a_blank_line_that_stands_for_lines_is_written_beside_new_ones() -> None:
    file = "first_line(1)\nsecond_line(2)\nthird_line(3)\n\nlast_line(9)\n"
    update = "first_line(1)\nadded_here(8)\n\nlast_line(9)\n"
    wanted = edited(file, "first_line(1)\n", "first_line(1)\nadded_here(8)\n\n")
    assert wanted in [reading.text for reading, _ in readings(file, update, language="python")]

"""The right text is among the readings where a snippet leaves open what its new lines, markers and notes stand for."""

import pytest

from apply_service.merge.readings import readings

FUNCTIONS = '''import os


def load(path):
    """Read a file."""
    cache = {}
    with open(path) as file:
        return file.read()


def save(path, text):
    with open(path, "w") as file:
        file.write(text)


def remove(path):
    os.remove(path)
'''


def texts(original: str, update: str, language: str = "python") -> dict[str, set[str]]:
    """Each reading's text with the names of the ways that lead to it."""
    found = readings(original, update, language=language)
    return {one.text: {"+".join([way.policy, *way.extras]) for way in one.ways} for one in found}


def ways_to(original: str, update: str, wanted: str, language: str = "python") -> set[str]:
    return texts(original, update, language).get(wanted, set())


def makers_of(original: str, update: str, wanted: str, language: str) -> set[str]:
    found = readings(original, update, language=language)
    return {way.snippet or way.maker for one in found if one.text == wanted for way in one.ways}


@pytest.mark.parametrize(
    ("original", "update", "wanted", "language"),
    [
        (
            "import { a } from './a'\nimport { b } from './b'\n\nrun(a, b)\n",
            "import { a, b } from './ab'\n// ...\n",
            "import { a, b } from './ab'\n\nrun(a, b)\n",
            "typescript",
        ),
        (
            "job:\n  name: test\n  runs-on: macos-12\n  steps: []\n",
            "job:\n  # ...\n  runs-on: ubuntu-latest\n  # ...\n",
            "job:\n  name: test\n  runs-on: ubuntu-latest\n  steps: []\n",
            "yaml",
        ),
    ],
)
def test_a_new_line_may_stand_for_the_hidden_one_beside_it(
    original: str, update: str, wanted: str, language: str
) -> None:
    assert ways_to(original, update, wanted, language)


def test_a_new_line_at_a_marker_may_leave_the_hidden_one_alone() -> None:
    original = "def test_all():\n    check(result.status, is_pending)\n    check(result.error, is_none)\n"
    update = "def test_all():\n    # ...\n    check(result.placeholder, is_none)\n"
    wanted = original + "    check(result.placeholder, is_none)\n"
    assert ways_to(original, update, wanted)


def test_a_scope_that_is_shown_to_its_end_may_have_lost_the_rest() -> None:
    original = (
        "def pick(names):\n    if names:\n        found = names[0]\n    else:\n        found = None\n"
        "    return found\n\n\nrun()\n"
    )
    shown = "def pick(names):\n    if names:\n        return names[0]\n    else:\n        return None\n"
    update, wanted = shown + "\n# ...\n", shown + "\n\nrun()\n"
    assert "literal+closed" in ways_to(original, update, wanted)


def test_a_note_names_the_definition_that_is_gone() -> None:
    update = (
        "# ...\n\n# (save is removed, write() of the caller takes its place)\n\n# ...\n\n"
        "def remove(path):\n    os.unlink(path)\n"
    )
    start = FUNCTIONS.index("def save")
    wanted = FUNCTIONS[:start] + FUNCTIONS[FUNCTIONS.index("def remove") :].replace("os.remove", "os.unlink")
    assert ways_to(FUNCTIONS, update, wanted)


@pytest.mark.parametrize("note", ["(imports)", "handlers", "loading and saving as they were"])
def test_a_new_comment_may_be_a_marker_in_other_words(note: str) -> None:
    update = f"# {note}\n\ndef remove(path):\n    os.unlink(path)\n"
    assert FUNCTIONS.replace("os.remove", "os.unlink") in texts(FUNCTIONS, update)


def test_a_comment_in_brackets_that_speaks_of_what_stays_is_a_marker() -> None:
    update = "def save(path, text):\n    # (opened as before)\n        file.write(text + '\\n')\n"
    written = [text for text in texts(FUNCTIONS, update) if "as before" in text]
    assert not written


def test_blank_lines_may_part_what_is_shown_without_a_marker() -> None:
    original = "a = 1\nb = 2\nc = 3\n\nd = 4\ne = 5\nf = 6\n"
    update = "b = 20\n\ne = 50\n"
    assert "a = 1\nb = 20\nc = 3\n\nd = 4\ne = 50\nf = 6\n" in texts(original, update)


def test_a_block_may_stand_where_it_is_indented() -> None:
    old = "    run (code) {\n      const id = parse(code)\n      if (id) { return id }\n      return null\n    },\n"
    update = (
        "    run: {\n      handler (code) {\n        const id = parse(code)\n        if (id) { return id }\n"
        "        return null\n      },\n    },\n"
    )
    original = "export default {\n  hooks: {\n" + old + "  },\n}\n"
    assert makers_of(original, update, original.replace(old, update), "typescript")


def test_lines_beyond_an_edge_without_a_marker_may_be_gone() -> None:
    original = "import io\nimport os\nimport sys\n\n\ndef f():\n    return 1\n\n\ndef g():\n    return 2\n"
    update = "import os\nimport sys\n\n\ndef f():\n    return 3\n"
    kept = original.replace("return 1", "return 3")
    without_ends = "import os\nimport sys\n\n\ndef f():\n    return 3\n"
    assert "literal+cut" in ways_to(original, update, without_ends)
    assert "literal" in ways_to(original, update, kept)
    marked = "# ... existing code ...\n" + update + "\n# ... existing code ...\n"
    assert without_ends not in texts(original, marked)


def test_many_lines_beyond_an_edge_stay() -> None:
    original = "".join(f"x{n} = {n}\n" for n in range(40)) + "def f():\n    return 1\n"
    cut = "def f():\n    return 3\n"
    assert cut not in texts(original, cut)


@pytest.mark.parametrize("end", ["", "\n"])
def test_the_last_line_shown_in_a_file_without_a_final_newline_is_known_to_the_chooser(end: str) -> None:
    original = f"a = 1\nb = 2{end}"
    found = readings(original, "# ...\nb = 3\n", language="python")
    assert [reading.features["open_end"] for reading in found if reading.text == f"a = 1\nb = 3{end}"] == [not end]


def test_a_replaced_neighbour_that_may_be_of_another_thing_is_known_to_the_chooser() -> None:
    original = "def test_all():\n    check(result.status, is_pending)\n    check(result.error, is_none)\n"
    update = "def test_all():\n    # ...\n    check(result.placeholder, is_none)\n"
    found = readings(original, update, language="python")
    others = {reading.text: reading.features["other_entries"] for reading in found}
    added = "    check(result.placeholder, is_none)\n"
    assert others[original + added] == 0.0
    assert others[original.replace("    check(result.error, is_none)\n", added)] == 1.0


# -- lines that the file does not have are new -------------------------------------------------------------------------
def test_a_line_that_the_file_has_twice_may_be_new_too() -> None:
    original = (
        'help() {\n    count(c,2);\n    text(c,\n"USAGE <key> - Estimate");\n    text(c,\n"STATS - Show usage");\n}\n'
    )
    update = 'help() {\n    count(c,3);\n    text(c,\n"DOCTOR - Outputs memory problems");\n    /* ... */\n'
    wanted = original.replace("2);\n", '3);\n    text(c,\n"DOCTOR - Outputs memory problems");\n')
    assert ways_to(original, update, wanted, "c")


# -- what new lines leave behind ---------------------------------------------------------------------------------------
def test_one_of_two_changes_replaces_the_line_beside_it() -> None:
    one = "def test_one():\n    assert result.status is pending\n    assert result.error is none\n"
    two = "def test_two():\n    assert answer.code is zero\n    assert answer.text is empty\n"
    new_one, new_two = "    assert result.placeholder is none\n", "    assert answer.kind is empty\n"
    update = f"def test_one():\n    # ...\n{new_one}\ndef test_two():\n    # ...\n{new_two}"
    ones = [one.replace("    assert result.error is none\n", new_one), f"def test_one():\n{new_one}"]
    twos = [two.replace("    assert answer.text is empty\n", new_two), f"def test_two():\n{new_two}"]
    assert "literal+renewed" in ways_to(f"{one}\n{two}", update, f"{ones[1]}\n{twos[0]}")
    assert "literal+renewed" in ways_to(f"{one}\n{two}", update, f"{ones[0]}\n{twos[1]}")


def test_a_renamed_definition_has_the_old_body() -> None:
    original = "class Env:\n    def get(self):\n        return 1\n\n"
    original += "    def walk(self):\n        for one in self.ws:\n            yield one\n"
    update = "    # ...\n    def _walk(self):\n        for one in self.ws:\n            yield one\n"
    assert ways_to(original, update, original.replace("def walk", "def _walk"))


def test_what_goes_on_a_statement_that_ends_goes() -> None:
    original = "function a() {\n    return has(b)\n    ? b.run()\n    : type(b);\n}\n"
    update = "    // ...\n    return has(b)\n    ? b.run()\n    : NAME;\n    // ...\n"
    assert ways_to(original, update, original.replace("type(b)", "NAME"), "php")


# -- blank lines around what words place -------------------------------------------------------------------------------
@pytest.mark.parametrize("blank", ["", "\n"])
def test_a_placed_definition_may_stand_with_a_blank_line_or_without(blank: str) -> None:
    original = "class A {\n  x() {}\n}\ndeclare const a: A;\n"
    new = "class B extends A {\n  y() {}\n}\n"
    wanted = original.replace("}\ndeclare", "}\n" + blank + new + blank + "declare")
    assert ways_to(original, "// add right after class A\n" + new, wanted, "typescript")

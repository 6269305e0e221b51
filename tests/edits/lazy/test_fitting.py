"""How the blocks of a snippet are brought to the file's indentation."""

from __future__ import annotations

import pytest

from apply_service.merge.candidates import LineIndex
from apply_service.merge.fitting import fit_blocks
from apply_service.merge.reading import ReadSnippet
from apply_service.merge.readings import readings

FILE = [
    "class Loader:",
    "    def load(self, path):",
    "        text = self.read(path)",
    "        return self.parse(text)",
    "",
    "    def reload(self, path):",
    "        self.cache.pop(path)",
    "        return self.load(path)",
]


def fitted(*blocks: list[str]) -> list[list[str]]:
    shifts = fit_blocks(blocks, LineIndex(FILE))
    return [[shift.apply(line) for line in lines] for lines, shift in zip(blocks, shifts, strict=True)]


def test_a_block_without_a_known_line_moves_with_the_others() -> None:
    known = ["text = self.read(path)", "return self.parse(text)"]
    new = ["self.cache.pop(path, None)"]
    assert fitted(known, new) == [[" " * 8 + line for line in known], ["        self.cache.pop(path, None)"]]


def test_narrow_levels_are_widened_rather_than_the_block_moved() -> None:
    block = ["  def reload(self, path):", "    self.forget(path)", "    return self.load(path)", "class Other:"]
    assert fitted(block) == [
        ["    def reload(self, path):", "        self.forget(path)", "        return self.load(path)", "class Other:"]
    ]


# -- lost indentation --------------------------------------------------------------------------------------------------
JS = """\
class Chart {
  draw(meta) {
    const area = this.area;
    return area;
  }

  clear() {
    this.done = true;
  }
}
"""
PYTHON = """\
class Loader:
    def load(self, path):
        text = self.read(path)
        return self.parse(text)


def main():
    Loader().load("a")
"""
TABS = "package a\n\nfunc Load() int {\n\tn := read()\n\treturn n\n}\n"


@pytest.mark.parametrize(
    ("original", "language", "update", "wanted"),
    [
        pytest.param(
            JS,
            "javascript",
            "// ...\ndraw(meta) {\nconst area = this.area;\nif (!area) {\nreturn meta\n.first()\n.area;\n}"
            "\nreturn area;\n}\n// ...",
            JS.replace(
                "    return area;\n",
                "    if (!area) {\n      return meta\n        .first()\n        .area;\n    }\n    return area;\n",
            ),
            id="by brackets and chains",
        ),
        pytest.param(
            JS,
            "javascript",
            "// ...\n}\n\n/**\n* Stops.\n*/\nstop() {\nthis.done = true;\nreturn this;\n}\n"
            "\nclear() {\nthis.done = true;\n// ...",
            JS.replace(
                "  clear() {\n",
                "  /**\n   * Stops.\n   */\n  stop() {\n    this.done = true;\n    return this;\n  }\n\n  clear() {\n",
            ),
            id="in a new method's brackets also what the file has elsewhere",
        ),
        pytest.param(
            PYTHON,
            "python",
            "# ...\ntext = self.read(path)\nreturn self.parse(text)\n\ndef reload(self, path):\nself.forget(path)\n"
            "return self.load(path)\n\n\ndef main():\n# ...",
            PYTHON.replace(
                "(text)\n\n\n",
                "(text)\n\n    def reload(self, path):\n        self.forget(path)\n"
                "        return self.load(path)\n\n\n",
            ),
            id="a method at the level of the one above",
        ),
        pytest.param(
            TABS,
            "go",
            "// ...\nn := read()\nif n < 0 {\nn = 0\n}\nreturn n\n}",
            TABS.replace("\treturn n\n", "\tif n < 0 {\n\t\tn = 0\n\t}\n\treturn n\n"),
            id="tabs",
        ),
        pytest.param(
            PYTHON,
            "python",
            "with timer():\n    text = self.read(path)\n    return self.parse(text)\n",
            PYTHON.replace(
                "        text = self.read(path)\n        return self.parse(text)\n",
                "        with timer():\n            text = self.read(path)\n            return self.parse(text)\n",
            ),
            id="the outermost line is new",
        ),
    ],
)
def test_a_snippet_without_indentation_gets_the_files(original: str, language: str, update: str, wanted: str) -> None:
    assert wanted in [reading.text for reading in readings(original, update, language=language)]


def test_code_that_is_shown_deeper_than_the_file_has_it_lost_no_indentation() -> None:
    update = [
        "def load(self, path):",
        "    if path:",
        "        text = self.read(path)",
        "        return self.parse(text)",
    ]
    shown = ["    " + line for line in update]
    assert not ReadSnippet(PYTHON.splitlines(), shown, "python", None).refitted()
    flat = ["class Loader:", *(line.strip() for line in update)]
    assert ReadSnippet(PYTHON.splitlines(), flat, "python", None).refitted()


def test_a_block_that_stands_as_well_where_the_others_do_moves_with_them() -> None:
    others = [["def load(self, path):", "    text = self.read(path)"], ["    return self.parse(text)"]]
    assert fitted(*others, ["def reload(self, path):", "}"])[2] == ["    def reload(self, path):", "    }"]


def test_markers_move_with_the_block_below_them() -> None:
    update = ["def load(self, path):", "    # ...", "    return self.parse(text)"]
    reading = ReadSnippet(FILE, update, "python", None)
    assert reading.marker_indent(reading.snippet.blocks[1].gap_before) == 8

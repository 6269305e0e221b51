"""Symbols and imports that go or come twice, in every language with a grammar."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from apply_service.types import Certainty
from tests.checks.answers import answer, findings, severities


class File(NamedTuple):
    """A file in three parts, the middle one to be lost; the line with EDIT is what the edit changes."""

    head: str
    lost: str
    tail: str
    name: str
    """What the lost part declares."""

    @property
    def text(self) -> str:
        return self.head + self.lost + self.tail


FILES = {
    "python": File(
        "import os\nV = 1  # EDIT\n\n\ndef keep():\n    return os\n",
        "\n\ndef lost():\n    return 1\n",
        "",
        "lost",
    ),
    "typescript": File(
        "const v = 1; // EDIT\n",
        "export function lost() {\n  return 1;\n}\n",
        "function keep() {}\n",
        "lost",
    ),
    "tsx": File(
        "const v = 1; // EDIT\n",
        "const Lost = () => {\n  return <p />;\n};\n",
        "",
        "Lost",
    ),
    "javascript": File(
        "let v = 1; // EDIT\nclass A {\n",
        "  lost() {\n  }\n",
        "  keep() {}\n}\n",
        "lost",
    ),
    "go": File(
        "package a\n\nvar v = 1 // EDIT\n\n",
        "func lost() {\n}\n\n",
        "func keep() {\n}\n",
        "lost",
    ),
    "rust": File(
        "const V: u8 = 1; // EDIT\nfn keep() {}\nimpl A {\n",
        "    fn lost() {\n    }\n",
        "}\n",
        "lost",
    ),
    "java": File(
        "class A {\n  int v = 1; // EDIT\n",
        "  void lost() {\n  }\n",
        "  void keep() {}\n}\n",
        "lost",
    ),
    "c": File(
        "int v = 1; /* EDIT */\n",
        "int lost(int a) {\n  return a;\n}\n",
        "int keep(void) { return 1; }\n",
        "lost",
    ),
    "cpp": File(
        "int v = 1; // EDIT\n",
        "class Lost {\n  int a;\n};\n",
        "int keep() { return 1; }\n",
        "Lost",
    ),
    "csharp": File(
        "class A\n{\n    int v = 1; // EDIT\n",
        "    void Lost() {\n    }\n",
        "    void Keep() {}\n}\n",
        "Lost",
    ),
    "ruby": File(
        "V = 1 # EDIT\ndef keep\n  1\nend\n",
        "def lost\n  2\nend\n",
        "",
        "lost",
    ),
    "php": File(
        "<?php\nconst V = 1; // EDIT\n",
        "function lost() {\n    return 1;\n}\n",
        "function keep() {}\n",
        "lost",
    ),
    "kotlin": File(
        "val v = 1 // EDIT\n",
        "fun lost() {\n}\n",
        "fun keep() {\n}\n",
        "lost",
    ),
    "json": File(
        '{\n  "v": "EDIT",\n',
        '  "lost": {\n    "a": 1\n  },\n',
        '  "keep": 1\n}\n',
        "lost",
    ),
    "yaml": File(
        "v: EDIT\n",
        "lost:\n  a: 1\n",
        "keep: 2\n",
        "lost",
    ),
    "toml": File(
        "v = 1 # EDIT\n",
        "[lost]\na = 1\n",
        "[keep]\nb = 1\n",
        "lost",
    ),
    "css": File(
        ".v { top: 0; } /* EDIT */\n",
        ".lost {\n  left: 0;\n}\n",
        ".keep {\n  left: 0;\n}\n",
        ".lost",
    ),
    "markdown": File(
        "# T\n\nEDIT\n\n",
        "## Lost\n\ntext\n\n",
        "## Keep\n\ntext\n",
        "Lost",
    ),
    "shell": File(
        "V=1 # EDIT\n",
        "lost() {\n  a\n}\n",
        "keep() {\n  b\n}\n",
        "lost",
    ),
    "sql": File(
        "SELECT 1; -- EDIT\n",
        "CREATE TABLE lost (\n  a INT\n);\n",
        "CREATE TABLE keep (\n  a INT\n);\n",
        "lost",
    ),
    "html": File(
        "<div>\n  <p>EDIT</p>\n",
        '  <ul id="lost">\n    <li>1</li>\n  </ul>\n',
        "</div>\n",
        "ul#lost",
    ),
}


def edited(text: str) -> tuple[str, str]:
    """The text after the edit, and the update that shows it."""
    merged = text.replace("EDIT", "DONE")
    line = next(line for line in merged.split("\n") if "DONE" in line)
    return merged, f"{line}\n... existing code ..."


@pytest.mark.parametrize("language", sorted(FILES))
def test_a_lost_symbol(language: str) -> None:
    file = FILES[language]
    expected, update = edited(file.text)
    merged = expected.replace(file.lost, "")
    assert merged != expected
    found = findings("symbols", answer(file.text, merged, update=update, expected=expected, language=language))
    assert severities(found) == {"warning"}
    assert [verdict for verdict in found if f"`{file.name}` is gone" in verdict.message and verdict.side == "original"]


@pytest.mark.parametrize("language", sorted(FILES))
@pytest.mark.parametrize("certainty", list(Certainty))
def test_the_right_answer(language: str, certainty: Certainty) -> None:
    original = FILES[language].text
    expected, update = edited(original)
    assert findings("symbols", answer(original, expected, update=update, language=language, certainty=certainty)) == []


@pytest.mark.parametrize("language", sorted(set(FILES) - {"css", "markdown", "html", "toml", "sql"}))
def test_a_doubled_symbol(language: str) -> None:
    file = FILES[language]
    expected, update = edited(file.text)
    merged = expected.replace(file.lost, file.lost + file.lost)
    found = findings("symbols", answer(file.text, merged, update=update, expected=expected, language=language))
    assert [verdict for verdict in found if f"`{file.name}` is defined twice" in verdict.message]


@pytest.mark.parametrize("language", ["css", "markdown", "toml", "sql"])
def test_where_a_second_one_is_common_it_is_no_finding(language: str) -> None:
    file = FILES[language]
    expected, update = edited(file.text)
    item = answer(
        file.text,
        expected.replace(file.lost, file.lost + file.lost),
        update=update,
        expected=expected,
        language=language,
    )
    assert findings("symbols", item) == []


def test_a_removal_that_the_update_shows() -> None:
    original, lost = FILES["python"].text, FILES["python"].lost
    merged = original.replace(lost, "")
    item = answer(original, merged, update="def keep():\n    return os\n", certainty=Certainty.CERTAIN)
    assert findings("symbols", item) == []


def test_a_removal_that_a_note_names() -> None:
    original, lost = FILES["python"].text, FILES["python"].lost
    item = answer(
        original, original.replace(lost, ""), update="# removed lost\n", expected=original, certainty=Certainty.LIKELY
    )
    assert findings("symbols", item) == []


def test_a_renamed_function_is_said() -> None:
    original = FILES["python"].text
    merged = original.replace("def lost():", "def found():")
    item = answer(original, merged, update="# ...\ndef found():\n    return 1\n", certainty=Certainty.LIKELY)
    assert findings("symbols", item) == []


IMPORTS = {
    "python": "import re\n",
    "typescript": 'import { a } from "a";\n',
    "rust": "use a::b;\n",
    "java": "import a.B;\n",
    "c": "#include <a.h>\n",
    "csharp": "using A;\n",
    "ruby": 'require "a"\n',
    "kotlin": "import a.b\n",
}


@pytest.mark.parametrize("language", sorted(IMPORTS))
def test_a_lost_or_doubled_import(language: str) -> None:
    line = IMPORTS[language]
    original = line + FILES[language].text
    expected, update = edited(original)
    lost = answer(original, expected[len(line) :], update=update, expected=expected, language=language)
    found = findings("symbols", lost)
    assert any(verdict.message.startswith("import") and "is gone" in verdict.message for verdict in found)
    doubled = answer(original, line + expected, update=update, expected=expected, language=language)
    assert any("is defined twice" in verdict.message for verdict in findings("symbols", doubled))


def test_one_name_of_an_import_statement() -> None:
    original = "from a import (\n    b,\n    c,\n)\nV = 1  # EDIT\n"
    expected, update = edited(original)
    found = findings("symbols", answer(original, expected.replace("    c,\n", ""), update=update, expected=expected))
    assert [verdict.message for verdict in found] == ["import `c` is gone, and the edit does not say so"]
    assert found[0].lines == (3, 3)


def test_the_same_method_in_two_classes_branches_and_overloads_are_no_doubles() -> None:
    original = "class A:\n    def f(self):\n        pass\n"
    merged = original + "\n\nclass B:\n    def f(self):\n        pass\n"
    assert findings("symbols", answer(original, merged, update=merged)) == []
    original = "if A:\n    def f():\n        pass\n"
    merged = original + "else:\n    def f():\n        pass\n"
    assert findings("symbols", answer(original, merged, update=merged)) == []
    original = "class A {\n  void f(int a) {}\n}\n"
    merged = "class A {\n  void f(int a) {}\n  void f(long a) {}\n}\n"
    assert findings("symbols", answer(original, merged, update=merged, language="java")) == []


def test_a_name_that_only_the_parser_lost_sight_of() -> None:
    """A syntax error hides what follows; `syntax` tells that, `symbols` is quiet as long as the line is there."""
    original = FILES["typescript"].text
    expected, update = edited(original)
    merged = expected.replace("const v = 1;", "const v = (1;")
    item = answer(original, merged, update=update, expected=expected, language="typescript")
    assert findings("symbols", item) == []
    assert findings("syntax", item) != []

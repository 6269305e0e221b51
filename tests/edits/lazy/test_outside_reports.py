"""Edits that a user from outside found merged wrongly; each the smallest of its kind."""

from __future__ import annotations

import pytest

from apply_service.merge.merge import NO_SYNTAX, merge
from apply_service.merge.rank.risks import NOT_TOLD
from apply_service.types import Certainty

CLASS = "class A:\n    def one(self):\n        return 1\n\n\ndef main():\n    A().one()\n\n\nif True:\n    main()\n"


def test_a_new_rule_of_a_style_sheet_replaces_no_other() -> None:
    before = "body {\n  margin: 0;\n}\n\n.nav {\n  margin: 1px;\n}\n"
    update = ".card {\n  margin: 0;\n  padding: 1rem;\n}\n\n/* rest unchanged */\n"
    found = merge(before, update, language="css", path="a.css").text
    assert found.replace("\n\n", "\n") == (".card {\n  margin: 0;\n  padding: 1rem;\n}\n" + before).replace(
        "\n\n", "\n"
    )


@pytest.mark.parametrize(
    ("language", "before", "update"),
    [
        ("toml", '[project]\nname = "x"\nversion = "1"\n', '[project]\nversion = "2"\n'),
        ("yaml", "server:\n  host: a\n  port: 1\n", "server:\n  port: 2\n"),
        ("ini", "[a]\nhost = a\nport = 1\n\n[b]\nx = 1\n", "[a]\nport = 2\n"),
    ],
)
def test_entries_beside_a_changed_one_stay_with_a_doubt(language: str, before: str, update: str) -> None:
    found = merge(before, update, language=language, path=None)
    wanted = before.replace("port = 1", "port = 2").replace('"1"', '"2"').replace("port: 1", "port: 2")
    assert found.text == wanted
    assert found.certainty is not Certainty.CERTAIN
    assert any("host" not in reading.text and "name" not in reading.text for reading in found.readings)


@pytest.mark.parametrize(
    ("update", "cause", "line"),
    [
        ("foo()\nbar()\n", NOT_TOLD, "`foo()` and 1 more would be added below line 11"),
        ("# ...\n\ny = foo(\n\n# ...\n", NO_SYNTAX, "`y = foo(` would be added below line 11"),
    ],
)
def test_a_refusal_names_lines_and_cause(update: str, cause: str, line: str) -> None:
    found = merge(CLASS, update, language="python", path="a.py")
    assert found.certainty is Certainty.GUESS
    assert found.reasons[:2] == (cause, f"{line}, but the snippet shows no line of the file beside it")

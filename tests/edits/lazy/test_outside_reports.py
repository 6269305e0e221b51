"""Edits that a user from outside found merged wrongly; each the smallest of its kind."""

from __future__ import annotations

import pytest

from apply_service.edits.lazy.merge import merge

YAML = "a:\n  - 1\nb:\n  q: 2\nc:\n  z: 3\n"
MAKE = "all: x\n\techo all\ntest:\n\techo test\nclean:\n\trm -f x\n"
CLASS = "class A:\n    def one(self):\n        return 1\n\n\ndef main():\n    A().one()\n\n\nif True:\n    main()\n"


@pytest.mark.parametrize(
    ("path", "language", "before", "update", "after"),
    [
        ("c.yml", "yaml", YAML, "a:\n  - 1\n  - 9\n# ... existing code ...\n", YAML.replace("- 1\n", "- 1\n  - 9\n")),
        ("c.txt", None, YAML, "a:\n  - 1\n  - 9\n# ... existing code ...\n", YAML.replace("- 1\n", "- 1\n  - 9\n")),
        (
            "Makefile",
            "make",
            MAKE,
            "all: x\n\techo all\n\techo more\n# ... existing code ...\n",
            MAKE.replace("echo all\n", "echo all\n\techo more\n"),
        ),
    ],
)
def test_a_key_below_is_no_label_of_the_block_above(
    path: str, language: str | None, before: str, update: str, after: str
) -> None:
    assert merge(before, update, language=language, path=path).text == after


def test_a_new_method_below_a_header_and_a_marker_goes_into_the_class() -> None:
    update = "class A:\n    # ... existing code ...\n\n    def two(self):\n        return 2\n"
    wanted = CLASS.replace("return 1\n", "return 1\n\n    def two(self):\n        return 2\n")
    assert merge(CLASS, update, language="python", path="a.py").text == wanted


def test_signs_in_the_place_of_a_blank_beside_context_without() -> None:
    before = "class A {\n  clear(): void {\n    cache.clear();\n  }\n}\n"
    update = '  clear(): void {\n-   cache.clear();\n+   cache.clear();\n+   this.emit("cleared");\n  }\n'
    found = merge(before, update, language="typescript", path="a.ts")
    assert found.text == before.replace("clear();\n", 'clear();\n    this.emit("cleared");\n')

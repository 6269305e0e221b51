"""Edits that a user from outside found merged wrongly; each the smallest of its kind."""

from __future__ import annotations

import pytest

from apply_service.merge.merge import NO_SYNTAX, NOT_TOLD, merge
from apply_service.types import Certainty

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


NAMES = 'NAMES = [\n    "alpha",\n    "delta",\n]\n\n\ndef names():\n    return sorted(NAMES)\n'


@pytest.mark.parametrize(
    "comment",
    [
        "Keep the rest of the entries sorted",
        "Keep all other values in the vault",
        "the order remains the same across releases",
        "The rest of the arguments are forwarded",
        "Same as above but sorted",
    ],
)
def test_a_comment_that_says_more_than_that_something_stays_is_written(comment: str) -> None:
    update = f'NAMES = [\n    "alpha",\n    # {comment}\n    "delta",\n]\n'
    wanted = NAMES.replace('    "delta"', f'    # {comment}\n    "delta"')
    assert merge(NAMES, update, language="python", path="a.py").text == wanted


@pytest.mark.parametrize("tail", ["replaced by sum", "it is replaced with sum", "no longer needed"])
def test_a_note_that_code_goes_is_not_written(tail: str) -> None:
    before = "def total(xs):\n    t = 0\n    for x in xs:\n        t += x\n    return t\n"
    update = f"def total(xs):\n    # delete the whole loop, {tail}\n    return sum(xs)\n"
    assert merge(before, update, language="python", path="a.py").text == "def total(xs):\n    return sum(xs)\n"


PAGE = (
    "# Tool\n\n## Install\n\n```bash\n# build it\nmake\n```\n\n## Usage\n\n```bash\ntool run\n```\n\nMore.\n\n"
    "## License\n\nMIT\n"
)


@pytest.mark.parametrize(
    ("update", "old", "new"),
    [
        (
            "## Install\n\n```bash\n# ... existing commands ...\n```\n\nThen rest.\n",
            "make\n```\n",
            "make\n```\n\nThen rest.\n",
        ),
        ("## Install\n\n... existing ...\n\nThen rest.\n", "make\n```\n", "make\n```\n\nThen rest.\n"),
        ("## Usage\n\n<!-- ... -->\n\nThen rest.\n\n<!-- ... -->\n", "More.\n", "More.\n\nThen rest.\n"),
    ],
)
def test_new_text_stays_in_its_section_and_out_of_fences(update: str, old: str, new: str) -> None:
    assert merge(PAGE, update, language="markdown", path="a.md").text == PAGE.replace(old, new)


ELIF = 'def f(k):\n    if k == "a":\n        one()\n    elif k == "b":\n        two()\n    else:\n        none()\n'
ELSE_IF = (
    'f(k) {\n  if (k == "a") {\n    one();\n  } else if (k == "b") {\n    two();\n  } else {\n    none();\n  }\n}\n'
)
MATCH = "fn g(k: K) -> i32 {\n    match k {\n        K::A => 1,\n        K::B => 2,\n        K::C => 3,\n    }\n}\n"


@pytest.mark.parametrize(
    ("language", "before", "update", "above"),
    [
        ("python", ELIF, '    if k == "a":\n        one()\n    elif k == "d":\n        four()\n', '    elif k == "b"'),
        ("python", ELIF, '    elif k == "b":\n        two()\n    elif k == "d":\n        four()\n', "    else:"),
        (
            "java",
            ELSE_IF,
            '  if (k == "a") {\n    one();\n  } else if (k == "d") {\n    four();\n  // ...\n',
            '  } else if (k == "b")',
        ),
        ("rust", MATCH, "        K::B => 2,\n        K::D => 4,\n", "        K::C"),
    ],
)
def test_a_new_branch_replaces_none_beside_it(language: str, before: str, update: str, above: str) -> None:
    new = "".join(update.splitlines(keepends=True)[2 if language != "rust" else 1 :]).replace("  // ...\n", "")
    assert merge(before, update, language=language, path=None).text == before.replace(above, new + above)


def test_a_changed_condition_is_no_new_branch() -> None:
    update = 'def f(k):\n    # ...\n    elif k == "c":\n        two()\n    # ...\n'
    assert merge(ELIF, update, language="python", path="a.py").text == ELIF.replace('"b"', '"c"')


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


TWO = (
    "class A:\n    def __init__(self):\n        self.x = 1\n\n    def get(self):\n        return self.x\n\n"
    "    def put(self, x):\n        self.x = x\n"
)


def test_classes_shown_by_their_first_method_keep_the_others() -> None:
    before = f"{TWO}\n\n{TWO.replace('A', 'B')}"
    shown = "".join(TWO.splitlines(keepends=True)[:3]).replace("1", "2")
    found = merge(before, f"{shown}\n\n{shown.replace('A', 'B')}", language="python", path="a.py")
    assert found.text == before.replace("= 1", "= 2")
    assert found.certainty is not Certainty.CERTAIN


TYPED = "class S {\n  foo(): void {\n    this.n += 1;\n  }\n\n  bar(): number {\n    return this.n;\n  }\n}\n"


@pytest.mark.parametrize("stub", ["foo(): void;", "foo(): void { ... }", "foo() { ... }"])
def test_a_method_in_one_line_is_a_stub(stub: str) -> None:
    update = f"class S {{\n  {stub}\n\n  bar(): number {{\n    return this.n * 2;\n  }}\n}}\n"
    assert merge(TYPED, update, language="typescript", path="a.ts").text == TYPED.replace("this.n;", "this.n * 2;")


def test_a_declaration_in_an_interface_is_no_stub() -> None:
    before = f"interface I {{\n  bar(): number;\n}}\n\n{TYPED}"
    update = "interface I {\n  bar(): number;\n  foo(): void;\n}\n\n// ... existing code ...\n"
    wanted = before.replace("  bar(): number;\n", "  bar(): number;\n  foo(): void;\n")
    assert merge(before, update, language="typescript", path="a.ts").text == wanted


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

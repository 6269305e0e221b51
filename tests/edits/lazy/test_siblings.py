"""Lists with a marker among their entries, in several languages: what is left out stays, commas fit."""

from __future__ import annotations

import pytest

from apply_service.merge.merge import merge
from apply_service.merge.siblings import expand_lists

CASES = [
    (
        "python",
        "def f(a, b):\n    return a + b\n\n\nx = f(1, 2)\n",
        "def f(..., timeout=5):\n    return a + b\n",
        "def f(a, b, timeout=5):\n    return a + b\n\n\nx = f(1, 2)\n",
    ),
    (
        "python",
        "XS = [1, 2, 3]\n\n\ndef g():\n    return XS\n",
        "XS = [..., 4]\n",
        "XS = [1, 2, 3, 4]\n\n\ndef g():\n    return XS\n",
    ),
    ("python", "D = {'x': 1, 'z': 2}\nprint(D)\n", "D = {..., 'y': 5}\n", "D = {'x': 1, 'z': 2, 'y': 5}\nprint(D)\n"),
    ("python", "run(a, b=1)\nstop()\n", "run(..., c=2)\n", "run(a, b=1, c=2)\nstop()\n"),
    (
        "python",
        "from m import (a, b)\n\nrun(a, b)\n",
        "from m import (..., c)\n",
        "from m import (a, b, c)\n\nrun(a, b)\n",
    ),
    (
        "typescript",
        "import { A, B } from './m'\n\nrun(A, B)\n",
        "import { /* ... */ C } from './m'\n",
        "import { A, B, C } from './m'\n\nrun(A, B)\n",
    ),
    (
        "tsx",
        '<nav>\n  <A to="/x">X</A>\n  <A to="/y">\n    Y\n  </A>\n</nav>\n',
        '<nav>\n  {/* ... */}\n  <A to="/z">Z</A>\n</nav>\n',
        '<nav>\n  <A to="/x">X</A>\n  <A to="/y">\n    Y\n  </A>\n  <A to="/z">Z</A>\n</nav>\n',
    ),
    (
        "html",
        '<ul class="a">\n  <li id="x">X</li>\n  <li id="y">Y</li>\n</ul>\n<ul>\n  <li id="x">X</li>\n</ul>\n',
        '<ul class="a">\n  <li id="w">W</li>\n  <!-- ... existing items ... -->\n</ul>\n',
        '<ul class="a">\n  <li id="w">W</li>\n  <li id="x">X</li>\n  <li id="y">Y</li>\n</ul>\n'
        '<ul>\n  <li id="x">X</li>\n</ul>\n',
    ),
    (
        "typescript",
        "import { A, B } from './m'\n\nrun(A, B)\n",
        "import { /* ... existing imports ... */, C } from './m'\n",
        "import { A, B, C } from './m'\n\nrun(A, B)\n",
    ),
    (
        "typescript",
        "const o = { a: 1, b: 2, c: 3 }\nuse(o)\n",
        "const o = { a: 9, /* ... existing ... */ }\n",
        "const o = { a: 9, b: 2, c: 3 }\nuse(o)\n",
    ),
    (
        "typescript",
        "const o = { a: 1, b: 2, c: 3 }\nuse(o)\n",
        "const o = { a: 9, b: /* ... existing ... */, c: 3 }\n",
        "const o = { a: 9, b: 2, c: 3 }\nuse(o)\n",
    ),
    (
        "typescript",
        "function f(a: string, b: number) {\n  return a\n}\n",
        "function f(/* ... existing args ... */, c?: boolean) {\n  return a\n}\n",
        "function f(a: string, b: number, c?: boolean) {\n  return a\n}\n",
    ),
    ("typescript", "const xs = ['a', 'b']\n", "const xs = [/* ... */ 'c']\n", "const xs = ['a', 'b', 'c']\n"),
    (
        "json",
        '{\n  "a": 1,\n  "b": 2\n}\n',
        '{\n  // ... existing keys ...\n  "c": 3\n}\n',
        '{\n  "a": 1,\n  "b": 2,\n  "c": 3\n}\n',
    ),
    (
        "json",
        '{\n  "name": "x",\n  "scripts": {\n    "a": "1"\n  }\n}\n',
        '{\n  // ...\n  "scripts": {\n    // ...\n    "b": "2"\n  }\n}\n',
        '{\n  "name": "x",\n  "scripts": {\n    "a": "1",\n    "b": "2"\n  }\n}\n',
    ),
    (
        "python",
        "XS = [\n    1,\n    2\n]\n",
        "XS = [\n    # ... existing ...\n    3\n]\n",
        "XS = [\n    1,\n    2,\n    3\n]\n",
    ),
    (
        "python",
        "XS = [\n    1,\n    2,\n]\n",
        "XS = [\n    # ... existing ...\n    3,\n]\n",
        "XS = [\n    1,\n    2,\n    3,\n]\n",
    ),
    (
        "typescript",
        "const o = {\n  a: 1,\n  b: 2\n}\n",
        "const o = {\n  // ...\n  c: 3\n}\n",
        "const o = {\n  a: 1,\n  b: 2,\n  c: 3\n}\n",
    ),
    (
        "go",
        "func f(a int, b string) error {\n\treturn nil\n}\n",
        "func f(/* ... */, c bool) error {\n\treturn nil\n}\n",
        "func f(a int, b string, c bool) error {\n\treturn nil\n}\n",
    ),
    (
        "rust",
        "use std::{io, fs};\n\nfn main() {}\n",
        "use std::{..., env};\n",
        "use std::{io, fs, env};\n\nfn main() {}\n",
    ),
    (
        "python",
        "from m import (\n    a,\n    b,\n)\n\nrun(a, b)\n",
        "from m import (\n    # ...\n    c,\n)\n",
        "from m import (\n    a,\n    b,\n    c,\n)\n\nrun(a, b)\n",
    ),
    (
        "typescript",
        "import {\n  A,\n  B,\n} from './m'\n\nrun(A, B)\n",
        "import { /* ... */ C } from './m'\n",
        "import {\n  A,\n  B,\n  C,\n} from './m'\n\nrun(A, B)\n",
    ),
]


@pytest.mark.parametrize(("language", "original", "update", "wanted"), CASES)
def test_entries_that_are_left_out_stay(language: str, original: str, update: str, wanted: str) -> None:
    assert merge(original, expand_lists(original, update, language), language=language).text == wanted


@pytest.mark.parametrize(
    ("language", "original", "update"),
    [
        ("python", "x: Tuple[int, str]\n", "x: Tuple[int, ...]\n"),
        ("python", "y = x[0, 1]\n", "y = x[..., 1]\n"),
        ("python", "def f(a, b):\n    pass\n", "def f(a, ...):\n    pass\n"),
        ("python", "f(1)\nf(1)\n", "f(..., 2)\n"),
        ("typescript", "const a = [1]\n", "const b = [...a, 2]\n"),
        ("typescript", "f(() => {\n  a()\n  b()\n})\n", "f(() => {\n  // ...\n  c()\n})\n"),
        ("go", 'import (\n\t"a"\n\t"b"\n)\n', 'import (\n\t// ...\n\t"c"\n)\n'),
        ("go", "func f() {\n\ta := 1\n\tb(a)\n}\n", "func f() {\n\t// ...\n\tc := 2, 3\n}\n"),
        ("c", "void f(int a) {}\nint g(int a, int b) {}\n", "int h(int a, ...) {}\n"),
        ("python", "s = 'f(a, b)'\n", "s = 'f(..., c)'\n"),
        # a new form of a child, and a blank line that the list would lose
        ("tsx", '<p>\n  <A to="/x">X</A>\n</p>\n', '<p>\n  {/* ... */}\n  <A to="/z">X</A>\n</p>\n'),
        ("tsx", "<p>\n  <img src={a} />\n</p>\n", "<p>\n  {/* ... */}\n  <img src={a || b} />\n</p>\n"),
        (
            "tsx",
            '<p>\n  <A to="/x">X</A>\n\n  <A to="/y">Y</A>\n</p>\n',
            '<p>\n  {/* ... */}\n  <A to="/z">Z</A>\n</p>\n',
        ),
    ],
)
def test_what_is_no_list_with_a_gap_stays_as_it_is(language: str, original: str, update: str) -> None:
    assert expand_lists(original, update, language) == update


def test_an_entry_that_would_go_unsaid_is_no_gap() -> None:
    """`b` stands between two shown entries without a marker: whether it goes is not for this rule to say."""
    original, update = "f(a=1, b=2, c=3, d=4)\n", "f(a=9, c=3, ...)\n"
    assert expand_lists(original, update, "python") == update


@pytest.mark.parametrize(
    "text",
    ["(", "[(", '"', "/*", "f(" * 3000, "(" * 50_000 + ")" * 50_000, "f(...)" * 2000, "<a>\n" * 3000 + "</a>\n" * 3000],
)
def test_odd_texts_do_no_harm(text: str) -> None:
    assert expand_lists(text, text + " ...", "python")
    assert expand_lists("f(a)\n", text, "typescript") == text

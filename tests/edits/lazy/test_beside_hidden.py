"""New code beside hidden code: what may be one more, and what may be its new form or its new name."""

from __future__ import annotations

import pytest

from apply_service.merge.merge import merge
from apply_service.merge.readings import readings
from apply_service.text.lines import header_name


def texts_of(original: str, update: str, language: str) -> list[str]:
    return [reading.text for reading in readings(original, update, language=language)]


CALLS = """\
int on_load(Context *ctx) {
    if (create(ctx, "publish.classic", classic) == ERR)
        return ERR;

    if (create(ctx, "publish.shard", shard) == ERR)
        return ERR;

    return OK;
}
"""


def test_one_more_of_a_series_may_be_new_although_it_ends_like_the_next() -> None:
    new = '    if (create(ctx, "publish.multi", multi) == ERR)\n        return ERR;\n\n'
    update = (
        'int on_load(Context *ctx) {\n    if (create(ctx, "publish.classic", classic) == ERR)\n        return ERR;\n\n'
        + new
        + "    // ... existing code ...\n}\n"
    )
    wanted = CALLS.replace('    if (create(ctx, "publish.shard"', new + '    if (create(ctx, "publish.shard"')
    assert wanted in texts_of(CALLS, update, "c")


def test_a_guard_before_a_marker_may_stand_beside_the_hidden_one() -> None:
    original = 'void set(double x) {\n    if (x < 0) {\n        throw new Bad("x < 0");\n    }\n    this.x = x;\n}\n'
    guard = '    if (Double.isNaN(x)) {\n        throw new Bad("x is NaN");\n    }\n'
    update = f"void set(double x) {{\n{guard}    // ... existing checks ...\n    this.x = x;\n}}\n"
    wanted = original.replace("    if (x < 0)", guard + "    if (x < 0)")
    assert wanted in texts_of(original, update, "java")


def test_a_new_definition_takes_no_line_of_the_body_that_a_marker_stands_for() -> None:
    body = (
        'register({\n  name: "back",\n  perform: (elements) => {\n    return move(elements);\n  },\n  order: 40,\n});\n'
    )
    original = "const a = 1;\n\nexport const back = " + body
    new = "export const front = " + body.replace("back", "front")
    update = "// ... existing code ...\n\nexport const back = register({\n  // ... existing code ...\n});\n\n" + new
    assert original + "\n" + new in texts_of(original, update, "typescript")


def test_a_new_method_before_a_shown_one_goes_into_its_class() -> None:
    original = "import x\n\n\nclass A:\n    def one(self):\n        return 1\n\n    def two(self):\n        return 2\n"
    update = "# ...\n\n    def half(self):\n        return 0.5\n\n    # ...\n\n    def two(self):\n        return 3\n"
    text = merge(original, update, language="python").text
    assert text == original.replace("    def two", "    def half(self):\n        return 0.5\n\n    def two").replace(
        "return 2", "return 3"
    )


ORDERS = """\
import os


def first(a):
    return a


def load_all(path):
    names = os.listdir(path)
    found = []
    for name in names:
        found.append(name)
    return found


def last(b):
    return b
"""


@pytest.mark.parametrize("change", ["", "    print(names)\n"])
def test_a_definition_under_a_new_name_may_take_the_place_of_the_old_one(change: str) -> None:
    new = "def list_files(path):\n    names = os.listdir(path)\n" + change
    new += "    found = []\n    for name in names:\n        found.append(name)\n    return found\n"
    update = f"# ... existing code ...\n\n{new}\n# ... existing code ...\n"
    start, end = ORDERS.index("def load_all"), ORDERS.index("\n\ndef last")
    assert ORDERS[:start] + new + ORDERS[end:] in texts_of(ORDERS, update, "python")


def test_of_two_new_definitions_only_one_may_be_a_new_name() -> None:
    inputs = '    let inp = &["{}", "$env.FOO = 1", ""];\n    let repl = nu!(code(inp));\n'
    test = "#[test]\nfn {}() {{\n" + inputs + '    assert_eq!(repl.out, "");\n}}\n'
    start = "mod repl;\n\n" + test.format("runs", "a") + "\n"
    original = start + test.format("many", "b") + "\n" + test.format("end", "z")
    new = test.format("many_arguments", "b") + "\n" + test.format("skipped", "c")
    update = f"// ...\n\n{new}\n#[test]\nfn end() {{\n    // ...\n}}\n"
    assert start + new + "\n" + test.format("end", "z") in texts_of(original, update, "rust")


def test_a_new_return_below_the_blank_line_of_the_old_one_may_replace_it() -> None:
    original = (
        "function f(text) {\n  const x = 1;\n\n  return new Response(\n    wrap(text),\n    { status: 200 }\n  );\n}\n"
    )
    update = "function f(text) {\n  // ... existing code ...\n\n  return json(text);\n}\n"
    assert "function f(text) {\n  const x = 1;\n\n  return json(text);\n}\n" in texts_of(original, update, "typescript")


def test_a_changed_import_beside_a_removed_definition() -> None:
    old = "#[test]\nfn issue_1() {\n    let group = ArgGroup::new();\n    assert!(group.ok());\n}\n\n"
    rest = "#[test]\nfn issue_2() {\n    assert!(run());\n}\n"
    original = "mod utils;\n\nuse clap::{ArgGroup, Clap};\n\n" + old + rest
    update = "use clap::{Clap};\n\n// issue_1 removed (moved to groups.rs)\n\n#[test]\nfn issue_2() {\n    // ...\n}\n"
    assert "mod utils;\n\nuse clap::{Clap};\n\n" + rest in texts_of(original, update, "rust")


def test_a_stub_header_may_be_taken_literally() -> None:
    original = "fn f(a: &[syn::Attribute]) -> proc_macro2::TokenStream {\n    run(a)\n}\n"
    update = "fn f(a: &[Attribute]) -> TokenStream {\n    // ... existing code ...\n}\n"
    assert "fn f(a: &[Attribute]) -> TokenStream {\n    run(a)\n}\n" in texts_of(original, update, "rust")


def test_a_method_may_be_called_delete() -> None:
    assert header_name("  async delete(id) {") == header_name("  delete(id) {") == "delete"
    assert header_name("  delete cache[id];") is None

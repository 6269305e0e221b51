"""Brackets in pairs: the alignment of a line of brackets that would leave the file's brackets open."""

from __future__ import annotations

from apply_service.merge.merge import merge
from apply_service.merge.rows import keeps_pairs
from apply_service.text.lines import surplus
from apply_service.types import LineOp

SUITE = """\
suite('parser', () => {
  check('reads', () => {
    same(read('a'), 1);
  });
});

export default read;
"""


def test_surplus_is_counted_for_each_kind_of_bracket() -> None:
    assert surplus(["f(x, [", "{ }", "))"]) == (-1, 1, 0)


def test_pairs_are_kept_where_what_comes_opens_as_many_as_what_goes() -> None:
    drop, take = LineOp("drop", 0, None, "if (a) {"), LineOp("take", None, 0, "while (b) {")
    assert keeps_pairs([drop, take])
    assert not keeps_pairs([take])


def test_a_new_suite_that_ends_with_a_line_of_the_file_is_closed_by_it() -> None:
    update = """\
// ... existing code ...
    same(read('b'), 1);
  });
});

suite('writer', () => {
  check('writes', () => {
    same(write('a'), 3);
  });
// ... existing code ...
"""
    wanted = SUITE.replace(
        "    same(read('a'), 1);\n  });\n",
        "    same(read('b'), 1);\n  });\n});\n\nsuite('writer', () => {\n  check('writes', () => {\n"
        "    same(write('a'), 3);\n  });\n",
    )
    assert merge(SUITE, update, language="javascript").text == wanted


def test_a_stub_is_closed_by_another_sign_where_more_follows() -> None:
    original = "WITH paid AS (\n    SELECT id\n    FROM paid\n    GROUP BY 1\n)\nSELECT p.id\nFROM paid p;\n"
    new = "refunded AS (\n    SELECT id\n    FROM refunds\n    GROUP BY 1\n)\n"
    update = f"WITH paid AS (\n    -- ... unchanged ...\n),\n{new}SELECT p.id, r.id\n-- ... unchanged ...\n"
    wanted = original.replace("    GROUP BY 1\n)\nSELECT p.id", f"    GROUP BY 1\n),\n{new}SELECT p.id, r.id")
    assert merge(original, update, language="sql").text == wanted

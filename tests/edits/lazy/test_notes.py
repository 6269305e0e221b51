"""Lines that a snippet's reading leaves out although they may be meant for the file: each pair differs in that."""

from __future__ import annotations

import pytest

from tests.edits.merges import assert_merged

RUN = "def run():\n    prepare()\n    begin()\n    return 2\n\n\ndef stop():\n    pass\n"
STEPS = "steps:\n  # keep the rest of the steps in order\n  - build\n  - check\n  - deploy\n"
PAGE = "# Title\n\n~~~sh\nmake\n~~~\n\nDone.\n"


# -- notes -----------------------------------------------------------------------------------------------------------
def test_a_marker_that_stands_in_the_file() -> None:
    original = "def first():\n    # ... existing code ...\n    return 1\n\n\n" + RUN
    update = "# ...\ndef run():\n    # ... existing code ...\n    begin()\n    leave()\n    return 2\n# ...\n"
    wanted = original.replace("begin()\n", "begin()\n    leave()\n")
    assert_merged(original, update, wanted)


def test_a_marker_in_other_words_than_the_files() -> None:
    original = "def first():\n    # ... existing code ...\n    return 1\n\n\n" + RUN
    update = "# ...\ndef run():\n    # ... unchanged ...\n    begin()\n    leave()\n    return 2\n# ...\n"
    assert_merged(original, update, original.replace("begin()\n", "begin()\n    leave()\n"))


def test_a_hint_inside_a_block_may_be_a_comment() -> None:
    update = "def run():\n    prepare()\n    # add after prepare\n    check()\n    begin()\n# ...\n"
    assert_merged(RUN, update, RUN.replace("prepare()\n", "prepare()\n    check()\n"))


def test_a_comment_that_asks_for_nothing_is_no_hint() -> None:
    update = "def run():\n    prepare()\n    # checks after prepare\n    check()\n    begin()\n# ...\n"
    assert_merged(RUN, update, RUN.replace("prepare()\n", "prepare()\n    # checks after prepare\n    check()\n"))


def test_a_marker_much_like_a_line_of_the_file_may_be_that_line_changed() -> None:
    update = "steps:\n  # keep the rest of the steps as is\n  - build\n  - check\n  - test\n  - deploy\n"
    wanted = STEPS.replace("  - deploy", "  - test\n  - deploy")
    assert_merged(STEPS, update, wanted, language="yaml")


def test_a_marker_like_no_line_of_the_file() -> None:
    update = "steps:\n  # ... the rest stays as it was ...\n  - build\n  - check\n  - test\n  - deploy\n"
    assert_merged(STEPS, update, STEPS.replace("  - deploy", "  - test\n  - deploy"), language="yaml")


# -- fences ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("fence", ["~~~markdown", "~~~md"])
def test_a_fence_of_tildes_may_belong_to_a_file_that_has_some(fence: str) -> None:
    wanted = PAGE.replace("make", "make all")
    update = f"{fence}\n{wanted}~~~\n"
    assert_merged(PAGE, update, wanted, language="markdown")


def test_a_fence_of_other_signs_than_the_files_is_the_snippets() -> None:
    wanted = PAGE.replace("make", "make all")
    assert_merged(PAGE, f"```markdown\n{wanted}```\n", wanted, language="markdown")


def test_a_fence_of_tildes_is_the_snippets_where_the_file_has_none() -> None:
    assert_merged(RUN, f"~~~python\n{RUN.replace('2', '3 + base(2)')}~~~\n", RUN.replace("2", "3 + base(2)"))


# -- blank lines at the edges ----------------------------------------------------------------------------------------
START = "def run():\n    prepare()\n    check()\n    begin()\n# ...\n"
STARTED = RUN.replace("prepare()\n", "prepare()\n    check()\n")
END = "# ...\ndef stop():\n    check()\n    pass\n"
ENDED = RUN.replace("    pass\n", "    check()\n    pass\n")


@pytest.mark.parametrize(
    ("update", "wanted"),
    [
        pytest.param(f"\n{START}", STARTED, id="above"),
        pytest.param(f"{END}\n", ENDED, id="below"),
        pytest.param(f"```\n\n{START}```\n", STARTED, id="above, in a fence"),
        pytest.param(f"```\n{END}\n```\n", ENDED, id="below, in a fence"),
    ],
)
def test_blank_lines_at_an_edge_without_a_marker(update: str, wanted: str) -> None:
    assert_merged(RUN, update, wanted)


@pytest.mark.parametrize(
    ("update", "wanted"),
    [
        pytest.param(START, STARTED, id="none above"),
        pytest.param(END, ENDED, id="none below"),
        pytest.param(f"{START}\n\n", STARTED, id="below a marker"),
        pytest.param(f"\n\n{END}", ENDED, id="above a marker"),
        pytest.param(f"```\n{END}```\n\n\n", ENDED, id="behind a fence"),
    ],
)
def test_blank_lines_elsewhere(update: str, wanted: str) -> None:
    assert_merged(RUN, update, wanted)


# -- blank lines between new lines and hidden ones -------------------------------------------------------------------
TIGHT = "int one() {\n  return 1;\n}\nint two() {\n  return 2;\n}\nint three() {\n  return 3;\n}\n"
NEW = "int half() {\n  return 0;\n}\n"


def test_definitions_that_touch_get_no_blank_line() -> None:
    assert_merged(
        TIGHT, f"// ...\n{NEW}int two() {{\n// ...\n", TIGHT.replace("int two", f"{NEW}int two"), language="cpp"
    )


def test_a_comment_above_a_statement_is_no_definition() -> None:
    update = "# ...\n    # the second time is for the cache:\n    check()\n    begin()\n# ...\n"
    wanted = RUN.replace("    begin()\n", "    # the second time is for the cache:\n    check()\n    begin()\n", 1)
    assert_merged(RUN, update, wanted)


METHODS = """class A:
    def one(self):
        return 1

    def two(self):
        return 2


class B:
    def three(self):
        return 3
"""


def test_a_method_behind_a_stub_stands_above_the_blank_lines_of_the_next_class() -> None:
    new = "    def half(self):\n        return 0\n"
    update = f"class A:\n    def one(self): ...\n\n    def two(self): ...\n\n{new}\n\nclass B:\n    # ...\n"
    assert_merged(METHODS, update, METHODS.replace("        return 2\n", f"        return 2\n\n{new}"))


def test_the_files_last_blank_line_stays() -> None:
    original = "def a():\n    first(1)\n    second(2)\n\n"
    update = "def a():\n    for n in (1, 2):\n        both(n)\n    second(3)\n"
    assert_merged(original, update, update + "\n")


TWO_IFS = "function f(a, b) {\n  if (a) {\n    one();\n  }\n\n  if (b) {\n    two();\n  }\n\n  return 1;\n}\n"


def test_the_body_behind_a_marker_ends_with_its_own_scope() -> None:
    update = "function f(a, b) {\n  if (a) {\n    // ... unchanged ...\n  }\n\n  return 2;\n}\n"
    wanted = "function f(a, b) {\n  if (a) {\n    one();\n  }\n\n  return 2;\n}\n"
    assert_merged(TWO_IFS, update, wanted, language="javascript")


FEED = """class Index:
    def feed(self, doc):
        words = self.collect(doc)
        doc.walk(words)

        def stem(word):
            return self.cache[word]

        wanted = self.filter
        for word in words:
            if wanted(word):
                self.add(stem(word))
"""


def test_a_definition_that_is_shown_elsewhere_does_not_stay_where_it_was() -> None:
    head, feed = FEED[: FEED.index("    def feed")], FEED[FEED.index("    def feed") :]
    old = feed[feed.index("        doc.walk") : feed.index("        for word")]
    new = "        wanted = self.filter\n\n        @cached\n        def stem(word):\n            return word\n\n"
    assert_merged(FEED, feed.replace(old, new), head + feed.replace(old, new))

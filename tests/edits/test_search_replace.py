"""Search/replace blocks in all their spellings."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apply_service.errors import ApplyError, MalformedEdit, NeedsMoreContext, TooLarge
from apply_service.formats import search_replace
from apply_service.formats.search_replace import MAX_DIVIDERS
from apply_service.protocols import EditContext
from apply_service.reply.reader import detect_format, read_reply
from apply_service.types import Certainty, Prediction
from tests.edits.scripts import FENCES, NASTY, as_blocks, assert_contract, draw_script

FILE = """\
import os

def first():
    value = load()
    return value

def second():
    value = load()
    return value + 1
"""


def predict(original: str, update: str, path: str | None = None) -> Prediction:
    prediction = search_replace.predict(original, update, EditContext(path))
    assert_contract(prediction, original, update)
    return prediction


def block(old: str, new: str, style: str = "aider") -> str:
    opening, divider, closing = FENCES[style]
    return f"{opening}\n{old}{divider}\n{new}{closing}\n"


# -- random edits ------------------------------------------------------------------------------------------------------
@settings(max_examples=150)
@given(st.integers(0, 10**9), st.integers(1, 4), st.sampled_from(sorted(FENCES)))
def test_unique_quotes_determine_the_result(seed: int, context: int, style: str) -> None:
    script = draw_script(random.Random(seed))
    update = as_blocks(script, context, style=style)
    assert detect_format(update, named=None) == "search_replace"
    prediction = predict(script.before, update)
    assert prediction.text == script.after, f"seed {seed}"
    assert prediction.determined, f"seed {seed}: {prediction.reasons}"


@settings(max_examples=100)
@given(st.integers(0, 10**9))
def test_the_order_of_blocks_is_free(seed: int) -> None:
    rng = random.Random(seed)
    script = draw_script(rng)
    blocks = as_blocks(script, 1).split("\n\n<<<")
    blocks = [blocks[0], *("<<<" + rest for rest in blocks[1:])]
    rng.shuffle(blocks)
    prediction = predict(script.before, "\n".join(blocks))
    assert prediction.text == script.after, f"seed {seed}"


@settings(max_examples=200)
@given(st.integers(0, 10**9), st.integers(0, 3))
def test_never_certain_and_wrong(seed: int, context: int) -> None:
    lines = ("x", "y", "", "    return", "=======", *NASTY)
    script = draw_script(random.Random(seed), lines, n_lines=16)
    try:
        prediction = predict(script.before, as_blocks(script, context))
    except (NeedsMoreContext, MalformedEdit):
        return
    assert not prediction.determined or prediction.text == script.after, f"seed {seed}"


@settings(max_examples=100)
@given(st.integers(0, 10**9))
def test_lost_indentation_and_trailing_blanks_do_no_harm(seed: int) -> None:
    """The whole block two columns to the left, and without trailing blanks: the file's own bytes stay."""
    script = draw_script(random.Random(seed))
    indented = type(script)(tuple((sign, f"  {line}") for sign, line in script.steps), script.has_newline)
    prediction = predict(indented.before, as_blocks(script, 2))
    assert prediction.text == indented.after, f"seed {seed}"
    assert prediction.certainty is Certainty.LIKELY


# -- one at a time -----------------------------------------------------------------------------------------------------
def test_insertion_deletion_and_replacement() -> None:
    update = (
        block("import os\n", "import os\nimport sys\n")
        + block("def first():\n    value = load()\n    return value\n\n", "")
        + block("    return value + 1\n", "    return value + 2\n")
    )
    prediction = predict(FILE, update)
    assert prediction.text == "import os\nimport sys\n\ndef second():\n    value = load()\n    return value + 2\n"
    assert prediction.determined


@pytest.mark.parametrize(
    "write",
    [
        "cart.py\n{}",
        "**cart.py**\n\n```python\n{}```\n",
        "```python\n{}```",
        "```python src/cart.py\n{}```",
        "Here is the edit you asked for:\n\ncart.py\n```\n{}```\n\nThe import is sorted now.\n",
        "### cart.py\n{}",
        "File: `cart.py`\n{}",
        "{}",
    ],
)
def test_what_stands_around_blocks(write: str) -> None:
    update = write.format(block("import os\n", "import sys\n"))
    assert detect_format(update, named=None) == "search_replace"
    prediction = predict(FILE, update, "src/cart.py")
    assert prediction.text == FILE.replace("import os", "import sys")
    assert prediction.determined, prediction.reasons


@pytest.mark.parametrize(
    "update",
    [
        "<<<<<<< SEARCH\n:start_line:1\n-------\nimport os\n=======\nimport sys\n>>>>>>> REPLACE",
        "<<<<<<< SEARCH\n:start_line:1\n:end_line:1\n-------\nimport os\n=======\nimport sys\n>>>>>>> REPLACE",
        "<<<<< SEARCH\nimport os\n=====\nimport sys\n>>>>> REPLACE",
        "<<<<<<< SEARCH>\nimport os\n=======\nimport sys\n>>>>>>> REPLACE",
        "------- SEARCH\nimport os\n=======\nimport sys\n>>>>>>> REPLACE",
        "<<<<<<< SEARCH  \nimport os\n=======  \nimport sys\n>>>>>>> REPLACE  ",
    ],
)
def test_variants_of_the_fences(update: str) -> None:
    prediction = predict(FILE, update)
    assert prediction.text == FILE.replace("import os", "import sys")
    assert prediction.determined


def test_a_stated_line_settles_a_repeated_quote() -> None:
    update = "<<<<<<< SEARCH\n:start_line:8\n-------\n    value = load()\n=======\n    value = 2\n>>>>>>> REPLACE"
    prediction = predict(FILE, update)
    assert prediction.text == FILE[::-1].replace("value = load()"[::-1], "value = 2"[::-1], 1)[::-1]
    assert prediction.certainty is Certainty.LIKELY


def test_a_repeated_quote_is_a_guess_that_names_its_places() -> None:
    prediction = predict(FILE, block("    value = load()\n", "    value = 2\n"))
    assert prediction.text == FILE.replace("value = load()", "value = 2", 1)
    assert prediction.certainty is Certainty.GUESS
    assert "lines 4, 8" in prediction.reasons[0]


def test_the_blocks_around_settle_a_repeated_quote() -> None:
    update = block("def second():\n", "def other():\n") + block("    value = load()\n", "    value = 2\n")
    prediction = predict(FILE, update)
    assert prediction.text == FILE.replace("def second():\n    value = load()", "def other():\n    value = 2")
    assert prediction.certainty is Certainty.LIKELY


def test_a_block_may_change_what_another_wrote() -> None:
    update = block("import os\n", "import os\nimport alpha\n") + block("import alpha\n", "import beta\n")
    prediction = predict(FILE, update)
    assert prediction.text == FILE.replace("import os\n", "import os\nimport beta\n")
    assert prediction.certainty is Certainty.LIKELY


def test_a_block_may_quote_what_another_changes() -> None:
    update = block("def first():\n    value = load()\n", "def first():\n    value = 1\n") + block(
        "    value = load()\n    return value\n\n", "    value = load()\n    return value * 2\n\n"
    )
    prediction = predict(FILE, update)
    assert "def first():\n    value = 1\n    return value * 2\n" in prediction.text
    assert prediction.certainty is Certainty.LIKELY


def test_a_repeated_block_is_applied_once_and_told() -> None:
    update = block("import os\n", "import os\nimport sys\n") * 2
    prediction = predict(FILE, update)
    assert prediction.text == FILE.replace("import os\n", "import os\nimport sys\n")
    assert prediction.certainty is Certainty.LIKELY


def test_blocks_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(MalformedEdit):
        predict(FILE, block("import os\n", "import a\n") + block("import os\n\n", "import b\n\n"))


def test_indentation_changes_are_changes() -> None:
    update = block("    value = load()\n    return value\n\n", "        value = load()\n        return value\n\n")
    assert predict(FILE, update).text == FILE.replace(
        "    value = load()\n    return value\n\n", "        value = load()\n        return value\n\n"
    )


def test_tabs_for_spaces() -> None:
    original = "class A:\n\tdef f(self):\n\t\treturn 1\n"
    update = block(
        "    def f(self):\n        return 1\n",
        "    def f(self):\n        if self:\n            return 2\n        return 1\n",
    )
    prediction = predict(original, update)
    assert prediction.text == "class A:\n\tdef f(self):\n\t\tif self:\n\t\t\treturn 2\n\t\treturn 1\n"
    assert prediction.certainty is Certainty.LIKELY


def test_trailing_blanks_of_context_stay_the_file_s() -> None:
    original = "a  \nb\nc\t\n"
    prediction = predict(original, block("a\nb\nc\n", "a\nB\nc\n"))
    assert prediction.text == "a  \nB\nc\t\n"
    assert prediction.determined


def test_trailing_blanks_that_a_replacement_would_lose_are_doubtful() -> None:
    prediction = predict("a  \nb\n", block("a\n", "A\n"))
    assert prediction.text == "A\nb\n"
    assert prediction.certainty is Certainty.LIKELY


def test_smart_quotes_are_found_and_kept_in_context() -> None:
    original = "title = \u201cA\u201d\nx = 1\n"
    prediction = predict(original, block('title = "A"\nx = 1\n', 'title = "A"\nx = 2\n'))
    assert prediction.text == "title = \u201cA\u201d\nx = 2\n"
    assert prediction.certainty is Certainty.LIKELY


def test_extra_blank_lines_of_a_quote() -> None:
    prediction = predict(FILE, block("\nimport os\n\n\n", "\nimport sys\n\n\n"))
    assert prediction.text == FILE.replace("import os", "import sys")
    assert prediction.certainty is Certainty.LIKELY


def test_a_blank_line_in_a_quote_is_never_the_final_newline() -> None:
    prediction = predict("a\nb\n", block("b\n\n", "c\n"))
    assert prediction.text == "a\nc\n"


def test_a_blank_last_line_may_be_the_end_of_the_file() -> None:
    """The quote stands in the middle as it is, but its blank line may as well be the final newline."""
    prediction = predict("x\n\ny\nx\n", block("x\n\n", "z\n\n"))
    assert prediction.certainty is Certainty.GUESS


@pytest.mark.parametrize("original", ["a\nb\n", "a\nb"])
def test_the_final_newline_stays(original: str) -> None:
    assert predict(original, block("b\n", "c\nd\n")).text == original.replace("b", "c\nd")


def test_a_misquote_is_a_guess_at_the_most_similar_lines() -> None:
    update = block("def second() -> int:\n    value = loads()\n    return value + 1\n", "def second():\n    return 2\n")
    prediction = predict(FILE, update)
    assert prediction.certainty is Certainty.GUESS
    assert prediction.text == FILE.partition("def second")[0] + "def second():\n    return 2\n"


def test_a_quote_that_is_nowhere_names_its_anchor() -> None:
    with pytest.raises(NeedsMoreContext) as refused:
        predict(FILE, block("class Invoice(Document):\n    number: int\n", "pass\n"))
    assert refused.value.value == "class Invoice(Document):"
    assert "block 1" in refused.value.message


# -- new files ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("original", "is_certain"), [("", True), ("\n", False), ("  \n\n", False)])
def test_an_empty_search_makes_a_new_file(original: str, is_certain: bool) -> None:
    prediction = predict(original, block("", "import os\n\nx = 1\n"))
    assert prediction.text == "import os\n\nx = 1\n"
    assert prediction.determined == is_certain


@pytest.mark.parametrize("old", ["", "\n", "   \n"])
def test_an_empty_search_never_overwrites_a_file(old: str) -> None:
    with pytest.raises(NeedsMoreContext) as refused:
        predict(FILE, block(old, "x = 1\n"))
    assert "not empty" in refused.value.message


# -- malformed ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "update",
    [
        "<<<<<<< SEARCH\nimport os\n=======\nimport sys\n",
        "<<<<<<< SEARCH\nimport os\n",
        "<<<<<<< SEARCH\nimport os\nimport sys\n>>>>>>> REPLACE\n",
        "<<<<<<< SEARCH\nimport os\n=======\nimport sys\n\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n",
        "<<<<<<< SEARCH\nimport os\n=======\nimport sys\n>>>>>>> REPLACE\n>>>>>>> REPLACE\n",
    ],
)
def test_incomplete_blocks_are_refused_and_never_taken_for_a_snippet(update: str) -> None:
    assert detect_format(update, named=None) == "search_replace"
    with pytest.raises(MalformedEdit) as refused:
        predict(FILE, update)
    assert refused.value.remedy


def test_no_block_at_all() -> None:
    with pytest.raises(MalformedEdit):
        predict(FILE, "import sys\n")


def test_code_outside_the_blocks_is_told() -> None:
    update = block("import os\n", "import sys\n") + "x = compute(1);\n"
    assert predict(FILE, update).text == FILE.replace("import os", "import sys")
    assert [verdict.severity for verdict in read_reply(update, original=FILE).findings] == ["warning"]


# -- files -------------------------------------------------------------------------------------------------------------
def test_blocks_for_several_files() -> None:
    update = "a.py\n" + block("x\n", "y\n") + "b.py\n" + block("x\n", "z\n") + block("w\n", "v\n")
    assert predict("x\nw\n", update, "src/b.py").text == "z\nv\n"
    assert predict("x\n", update, "a.py").text == "y\n"
    for path in (None, "c.py"):
        with pytest.raises(MalformedEdit) as refused:
            predict("x\n", update, path)
        assert refused.value.limit == ["a.py", "b.py"]


def test_blocks_that_name_another_file_are_not_certain() -> None:
    prediction = predict("x\n", "b.py\n" + block("x\n", "y\n"), "a.py")
    assert prediction.certainty is Certainty.LIKELY


# -- content is never control ------------------------------------------------------------------------------------------
NESTED = 'EXAMPLE = """\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"""\n'


def test_a_block_in_a_block_is_content() -> None:
    prediction = predict(NESTED, block(NESTED, NESTED.replace("b\n", "c\n")))
    assert prediction.text == NESTED.replace("b\n", "c\n")
    assert prediction.determined


def test_a_divider_in_the_old_text_is_content() -> None:
    original = "Title\n=======\n\ntext\n"
    prediction = predict(original, block("Title\n=======\n\ntext\n", "Title\n=======\n\nother\n"))
    assert prediction.text == "Title\n=======\n\nother\n"


def test_a_longer_underline_is_content() -> None:
    original = "Titles\n======\n\ntext\n"
    prediction = predict(original, block("Titles\n======\n\ntext\n", "Titles\n======\n\nother\n"))
    assert prediction.text == "Titles\n======\n\nother\n"
    assert prediction.determined


def test_half_a_block_in_the_new_text_is_refused_not_guessed() -> None:
    with pytest.raises(MalformedEdit):
        predict("a\n", block("a\n", "<<<<<<< SEARCH\n"))


def test_a_block_of_dividers_is_too_large() -> None:
    """Each of them would be tried."""
    with pytest.raises(TooLarge, match="divide"):
        predict("x\n", f"<<<<<<< SEARCH\nx\n{chr(10).join(['======='] * (MAX_DIVIDERS + 1))}\ny\n>>>>>>> REPLACE\n")


@pytest.mark.parametrize(
    "bad",
    [
        "<<<<<<< SEARCH\nno such line, nor one like it\n=======\nx\n>>>>>>> REPLACE\n",
        "<<<<<<< SEARCH\nb = 2\nc = 3\n>>>>>>> REPLACE\n",
    ],
    ids=["not found", "no divider"],
)
def test_the_error_of_one_block_names_the_others_that_are_good(bad: str) -> None:
    good = "<<<<<<< SEARCH\n{} = {}\n=======\n{} = 0\n>>>>>>> REPLACE\n"
    update = good.format("a", 1, "a") + bad + good.format("c", 3, "c")
    with pytest.raises(ApplyError) as refused:
        predict("a = 1\nb = 2\nc = 3\n", update, "a.py")
    assert "block 2" in refused.value.message
    assert "block 1, block 3 can be " in refused.value.remedy

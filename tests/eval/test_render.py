"""Search/replace blocks read back by a ten-line reader, and the hunks of a wrong answer."""

from __future__ import annotations

import random

import pytest

from apply_eval.fuzz import mutate
from apply_eval.render import diff_hunks, search_replace
from tests.eval.samples import SAMPLES


def apply_blocks(before: str, blocks: str) -> str:
    """Every search text must occur once."""
    text = before
    for block in blocks.split("<<<<<<< SEARCH\n")[1:]:
        found, _, rest = block.partition("=======\n")
        wanted = rest.partition(">>>>>>> REPLACE")[0]
        framed = "\n" + text
        assert framed.count("\n" + found) == 1, found
        text = framed.replace("\n" + found, "\n" + wanted)[1:]
    return text


def changes(seed: int, n_changes: int) -> list[tuple[str, str]]:
    print(f"seed {seed}")
    rng = random.Random(seed)
    texts = [rng.choice(SAMPLES)[2] for _ in range(n_changes)]
    return [(text, mutate(text, rng)) for text in texts]


def test_blocks_give_the_text_after() -> None:
    n_rendered = 0
    for before, after in changes(5, 300):
        blocks = search_replace(before, after, context=1)
        if blocks is not None:
            n_rendered += 1
            assert apply_blocks(before, blocks) == after
    assert n_rendered > 250


@pytest.mark.parametrize(
    ("before", "after"), [("", "a\n"), ("a\nb\n", "a\nb"), ("a\n", "a\n"), ("=======\na\n", "=======\nb\n")]
)
def test_edits_that_blocks_cannot_show(before: str, after: str) -> None:
    assert search_replace(before, after) is None


def test_context_grows_until_the_search_text_is_unique() -> None:
    before = "one\nsame\ntwo\nsame\nthree\n"
    blocks = search_replace(before, "one\nsame\ntwo\nother\nthree\n", context=0, path="f.txt")
    assert blocks == "f.txt\n<<<<<<< SEARCH\ntwo\nsame\nthree\n=======\ntwo\nother\nthree\n>>>>>>> REPLACE\n"


def test_the_hunks_of_a_difference() -> None:
    assert diff_hunks("a\nb\n", "a\nc\n") == ["@@ -1,2 +1,2 @@", " a", "-b", "+c", ""]
    assert diff_hunks("", "c\n")[1:] == ["+c", ""]
    assert diff_hunks("a\n", "a\n") == []

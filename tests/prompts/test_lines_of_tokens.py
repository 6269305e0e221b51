"""Which line each output token decides, in every kind of output."""

from __future__ import annotations

from apply_service.prompts.tokenizer import lines_of_tokens
from apply_service.types import LineOp
from tests.plain_bytes import END, PlainBytes
from tests.prompts.test_compact import COMPACT

WORDS = ["<x>\n", "a", " b\n", "\n\n  c", "d", "", "\n</x>"]


def decode(ids: object) -> str:
    return "".join(WORDS[i] for i in ids)  # type: ignore[attr-defined]


def test_a_token_decides_the_lines_that_it_ends_and_begins() -> None:
    assert lines_of_tokens(range(1, 6), decode) == [(0, 0), (0, 1), (1, 3), (3, 3), (3, 3)]


def test_what_stands_before_the_text_counts_for_its_first_line() -> None:
    assert lines_of_tokens(range(7), decode, head="<x>\n") == [(0, 0), (0, 0), (0, 1), (1, 3), (3, 3), (3, 3), (3, 4)]


def test_plain_bytes() -> None:
    ids = [*b"a\nb", END]
    assert PlainBytes().lines_of(ids) == [(0, 0), (0, 1), (1, 1), (1, 1)]


def test_tags_of_a_listing_decide_the_line_that_they_open() -> None:
    """Keep a, drop b and c, take X, keep d: the tags of dropped lines decide what comes in their place."""
    ops = [
        LineOp("keep", 0, None, "a"),
        LineOp("drop", 1, None, "b"),
        LineOp("drop", 2, None, "c"),
        LineOp("take", None, 0, "X"),
        LineOp("keep", 3, None, "d"),
    ]
    ids = COMPACT.encode_ops(ops)
    vocabulary = COMPACT.vocabulary
    places = COMPACT.lines_of(ids)
    at_marks = [line for token, line in zip(ids, places, strict=True) if vocabulary.is_tag(token)]
    assert at_marks == [(0, 0), (1, 1), (1, 1), (1, 1), (2, 2)]
    assert places[-1] == (3, 3)
    assert places == sorted(places)


def test_text_of_a_listing_belongs_to_the_line_it_writes() -> None:
    ops = [LineOp("take", None, i, line) for i, line in enumerate(["", "def f(x):", "    return x", ""])]
    ids = COMPACT.encode_ops(ops)
    for (first, last), token in zip(COMPACT.lines_of(ids), ids, strict=True):
        assert first == last
        text = COMPACT.vocabulary.decode_bytes([token]).decode()
        assert text.strip("\n") in ["", "def f(x):", "    return x", "", ""][first]

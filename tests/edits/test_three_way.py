"""Three-way merges: both sides' changes are made, and a conflict is never settled in silence."""

from __future__ import annotations

import random

import pytest

from apply_service.text.three_way import merge_words, only_misspells, three_way


def merged(base: str, ours: str, theirs: str) -> list[str | None]:
    """Each piece's lines joined; None for a conflict."""
    pieces = three_way(*(text.split() for text in (base, ours, theirs)))
    return [None if piece.merged is None else " ".join(piece.merged) for piece in pieces if piece.merged != ()]


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "wanted"),
    [
        ("a b c d e", "A b c d e", "a b c d E", ["A", "b c d", "E"]),
        ("a b c", "a b c", "a x c", ["a", "x", "c"]),
        ("a b c", "a x c", "a x c", ["a", "x", "c"]),
        ("a b c", "a x c", "a y c", ["a", None, "c"]),
        ("a b c d", "a c d", "a b x d", ["a", None, "d"]),
        ("a b", "a x b", "a y b", ["a", None, "b"]),
        ("a b", "a x b", "a b y", ["a", "x", "b", "y"]),
        ("", "a", "b", [None]),
        ("a b c", "", "a b c", [""]),
    ],
)
def test_pieces(base: str, ours: str, theirs: str, wanted: list[str | None]) -> None:
    assert merged(base, ours, theirs) == [piece for piece in wanted if piece != ""]


@pytest.mark.parametrize("seed", range(200))
def test_nothing_is_lost(seed: int) -> None:
    """Every piece stands for the rows of all three texts, in order, and is what a side made of it."""
    rng = random.Random(seed)
    base = [rng.choice("abcdef") for _ in range(rng.randrange(12))]
    sides = []
    for _ in range(2):
        side = list(base)
        for _ in range(rng.randrange(4)):
            at = rng.randrange(len(side) + 1)
            side[at : at + rng.randrange(3)] = [rng.choice("abcXYZ") for _ in range(rng.randrange(3))]
        sides.append(side)
    ours, theirs = sides
    pieces = list(three_way(base, ours, theirs))
    for name, text in (("base", base), ("ours", ours), ("theirs", theirs)):
        assert [row for piece in pieces for row in getattr(piece, name)] == list(range(len(text)))
    for piece in pieces:
        old, one, two = (
            tuple(text[row] for row in rows)
            for text, rows in ((base, piece.base), (ours, piece.ours), (theirs, piece.theirs))
        )
        if piece.merged is None:
            assert one != two
            assert old not in (one, two)
        else:
            assert piece.merged == (two if one == old else one)
            assert old in (one, two) or one == two


def test_words_of_one_line() -> None:
    assert merge_words("f(a, b)", "f(a: int, b)", "f(a, c)") == "f(a: int, c)"
    assert merge_words("x = 1", "x = 2", "x = 3") is None
    assert merge_words("typedef long long", "typedef long long ssize_t;", "typedef intptr_t ssize_t;") is None


def test_misspelt_words_that_are_gone() -> None:
    assert only_misspells("call(nam)", "call(name)", "other()")
    assert not only_misspells("call(nam)", "call(name)", "other(nam)")
    assert not only_misspells("call()", "call(name)", "other()")

"""What the self-test makes of it compared."""

from apply_service.engine.self_test import SelfTest, usable


def test_row_counts_that_agree_with_the_largest_are_used() -> None:
    assert usable({1: 0.5, 4: 0.0, 8: 0.0}, small=None) == (4, 8)
    assert usable({4: 0.0, 8: 0.25}, small=None) == (8,)


def test_on_a_gpu_all_are_used_where_no_small_one_agrees() -> None:
    shares = {32: 0.5, 128: 0.0, 256: 0.0}
    assert usable(shares, small=64) == (32, 128, 256)
    assert usable({**shares, 32: 0.0}, small=64) == (32, 128, 256)
    assert usable({64: 0.0, 32: 0.5, 256: 0.0}, small=64) == (64, 256)
    assert usable({256: 0.0}, small=64) == (256,), "one row count, asked for by name"


def test_what_is_used_says_how_far_it_may_be_trusted() -> None:
    shares, flips = {32: 0.5, 256: 0.0}, {32: 0.125, 256: 0.0}
    assert SelfTest((256,), 4, shares, flips).determinism == "bitwise"
    both = SelfTest((32, 256), 4, shares, flips)
    assert (both.determinism, both.divergence) == ("tolerant", 0.125)

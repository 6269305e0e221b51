"""What the self-test makes of its timings."""

from apply_service.engine.self_test import consistent


def test_times_a_machine_can_have_are_kept() -> None:
    assert consistent({4: 1.0, 8: 1.5, 256: 20.0}) == {4: 1.0, 8: 1.5, 256: 20.0}


def test_more_rows_never_take_less_time() -> None:
    assert consistent({64: 2.0, 128: 1.0, 256: 3.0}) == {64: 2.0, 128: 2.0, 256: 3.0}


def test_more_rows_never_take_more_than_several_smaller_passes() -> None:
    assert consistent({64: 1.0, 128: 9.0, 256: 5.0}) == {64: 1.0, 128: 2.0, 256: 4.0}

"""Figures as people read them."""

from __future__ import annotations

from apply_eval.numbers import count, rate, seconds, share, times, with_interval


def test_numbers_as_people_read_them() -> None:
    assert (share(0.9441), share(None)) == ("94.4%", "–")
    assert (rate(4618.2), rate(8.123), rate(None)) == ("4,618", "8.12", "–")
    assert (seconds(0.0123), seconds(1.234), seconds(13.1), seconds(1234)) == ("12 ms", "1.23 s", "13.1 s", "1,234 s")
    assert (times(9.417), times(19.23)) == ("9.42×", "19.2×")
    assert (count(0.0), count(0.16), count(685.2)) == ("0", "0.16", "685")
    assert with_interval(share, 0.5, (0.4, 0.6)) == "50.0% (40.0%–60.0%)"
    assert with_interval(share, None, None) == "–"

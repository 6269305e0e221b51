"""A deadline: over when its time has passed, or its caller has gone."""

import pytest

from apply_service.deadline import Deadline
from apply_service.errors import Cancelled, DeadlineExceeded


def test_without_a_limit_it_is_over_when_it_is_cancelled() -> None:
    deadline = Deadline()
    deadline.check()
    assert not deadline.is_over()
    deadline.cancel()
    assert deadline.is_over()
    with pytest.raises(Cancelled):
        deadline.check()


def test_time_that_was_spent_before_counts() -> None:
    Deadline(10, spent_s=9).check()
    late = Deadline(10, spent_s=11)
    assert late.is_late
    with pytest.raises(DeadlineExceeded) as caught:
        late.check()
    assert (caught.value.value, caught.value.limit) == (10, 10)


def test_whoever_waits_for_something_else_is_told_once() -> None:
    told: list[str] = []
    deadline = Deadline()
    deadline.on_cancel(lambda: told.append("before"))
    assert told == []
    deadline.cancel()
    deadline.cancel()
    deadline.on_cancel(lambda: told.append("after"))
    assert told == ["before", "after"]

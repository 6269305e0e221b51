"""What callers have in common: a turn for each, and a share that others cannot use up."""

from __future__ import annotations

from apply_service.serving.shares import FairQueue, has_room


def test_owners_take_turns_and_their_items_stay_in_order() -> None:
    queue: FairQueue[str] = FairQueue()
    for owner, item in [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1"), ("b", "b2")]:
        queue.put(owner, item)
    assert [queue.take() for _ in range(len(queue))] == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert queue.take() is None


def test_what_is_removed_is_gone_and_nobody_else_is() -> None:
    queue: FairQueue[str] = FairQueue()
    for owner, item in [("a", "a1"), ("a", "a2"), ("b", "b1")]:
        queue.put(owner, item)
    for _ in range(2):
        queue.remove("a", "a1")
        queue.remove("b", "b1")
    assert (len(queue), [*queue], "a1" in queue) == (1, ["a2"], False)


def test_a_limit_is_for_one_caller_alone_where_nobody_else_is() -> None:
    assert has_room(1, own=7, total=7, limit=8, n_callers=1)
    assert not has_room(1, own=8, total=8, limit=8, n_callers=1)


def test_a_caller_below_its_share_is_let_in_where_others_have_used_it_up() -> None:
    assert has_room(1, own=0, total=8, limit=8, n_callers=2)
    assert has_room(1, own=3, total=11, limit=8, n_callers=2)
    assert not has_room(1, own=4, total=12, limit=8, n_callers=2)
    assert not has_room(1, own=8, total=8, limit=8, n_callers=2)

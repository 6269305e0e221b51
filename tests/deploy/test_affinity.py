"""Which replica a file prefers, and when it goes to another one."""

from dataclasses import replace

import pytest

from apply_service.deploy.forwarding import PREFIX_CHARS, Overflow, file_key
from apply_service.types import ApplyRequest

TEXT = "".join(f"line {i}\n" for i in range(100))
EDIT = ApplyRequest(original=TEXT, update="u", path="a.py", owner="me", model="m")


def test_edits_of_a_file_have_one_key_whatever_changes_further_down() -> None:
    later = replace(EDIT, original=TEXT.replace("line 80", "line eighty"), update="another", seed=3, timeout_s=1.0)
    assert file_key(later) == file_key(EDIT)


@pytest.mark.parametrize(
    "changes",
    [
        {"owner": "you"},
        {"model": "n"},
        {"path": "b.py"},
        {"path": None},
        {"original": "other\n" + TEXT},
        {"original": TEXT[: PREFIX_CHARS - 1] + "!" + TEXT[PREFIX_CHARS:]},
    ],
)
def test_what_cannot_share_keys_and_values_has_another_key(changes: dict[str, str | None]) -> None:
    assert file_key(replace(EDIT, **changes)) != file_key(EDIT)  # type: ignore[arg-type]


def test_neighbouring_fields_do_not_run_into_each_other() -> None:
    assert file_key(ApplyRequest("x", owner="ab")) != file_key(ApplyRequest("x", owner="a", model="b"))


def test_a_lone_surrogate_has_a_key() -> None:
    assert file_key(ApplyRequest("\ud800")) != file_key(ApplyRequest("\ud801"))


@pytest.mark.parametrize(
    ("loads", "order"),
    [
        ([0, 0, 0], [0, 1, 2]),
        ([3, 0, 0], [0, 1, 2]),  # a few requests are no overload, however idle the others
        ([4, 0, 0], [1, 2, 0]),
        ([9, 8, 8], [0, 1, 2]),  # all are busy alike: nothing is won by going elsewhere
        ([20, 8, 8], [1, 2, 0]),
        ([20, 0, 0, 20], [1, 2, 0, 3]),
        ([30, 0, 0, 20], [1, 2, 3, 0]),
        ([None, 1], [0, 1]),
        ([4, None], [1, 0]),
        ([7], [0]),
        ([], []),
    ],
)
def test_an_overloaded_favourite_comes_last(loads: list[int | None], order: list[int]) -> None:
    assert Overflow(depth=4, ratio=1.5).order(loads) == order


def test_every_replica_is_tried_once() -> None:
    for loads in ([5, 5, 50, 0], [100, 100], [0, 9, 9, 9, 9]):
        assert sorted(Overflow().order(loads)) == list(range(len(loads)))


@pytest.mark.parametrize("values", [{"depth": 0}, {"ratio": 0.5}])
def test_bounds_that_nothing_meets_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        Overflow(**values)  # type: ignore[arg-type]

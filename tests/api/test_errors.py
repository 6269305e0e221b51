"""Every error of the tree has a status and one JSON shape."""

import json
from collections.abc import Iterator

import pytest

from apply_service.api.errors import (
    NATIVE,
    error_kinds,
)
from apply_service.errors import (
    ApplyError,
    FileChanged,
    InvalidField,
    NotReady,
    Overloaded,
    StaleBase,
    TooLarge,
    UnknownModel,
)


def tree(kind: type[ApplyError] = ApplyError) -> Iterator[type[ApplyError]]:
    """The package's errors; other programs derive their own, which never travel."""
    if kind.__module__ == ApplyError.__module__:
        yield kind
    for child in kind.__subclasses__():
        yield from tree(child)


def test_no_error_is_unmapped_and_no_code_is_used_twice() -> None:
    kinds = list(tree())
    assert list(error_kinds()) == kinds
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("kind", list(tree()), ids=lambda kind: kind.code)
def test_every_error_has_a_valid_status_and_body(kind: type[ApplyError]) -> None:
    error = kind("what", value="x", limit=3, remedy="do")
    assert 400 <= NATIVE.status(kind) <= 599
    body = {"error": {"code": kind.code, "message": "what", "value": "x", "limit": 3, "remedy": "do"}}
    assert NATIVE.body(error) == body
    assert json.loads(NATIVE.json(error)) == body


def test_statuses_that_clients_rely_on() -> None:
    expected = {StaleBase: 409, TooLarge: 413, Overloaded: 429, NotReady: 503, UnknownModel: 404, InvalidField: 422}
    assert {kind: NATIVE.status(kind) for kind in expected} == expected


def test_retry_after_goes_with_overload_alone() -> None:
    assert NATIVE.headers(Overloaded("m"))["Retry-After"].isdigit()
    assert NATIVE.headers(InvalidField("m")) == {}


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        ("x" * 300, "x" * 200 + "..."),
        (("a", 1, None, 2.5), ["a", 1, None, 2.5]),
        ({"k": {1}}, {"k": [1]}),
        ("\ud800", "\ud800"),
        (b"bytes", "b'bytes'"),
    ],
)
def test_any_value_can_be_sent(value: object, sent: object) -> None:
    text = NATIVE.json(InvalidField("m", value=value))
    text.encode("utf-8")
    assert json.loads(text)["error"]["value"] == sent


def test_documented_codes_leave_out_what_is_never_sent() -> None:
    codes = [code for codes in NATIVE.codes_by_status().values() for code in codes]
    assert "stale_base" in codes
    assert FileChanged.code not in codes
    assert len(set(codes)) == len(codes)

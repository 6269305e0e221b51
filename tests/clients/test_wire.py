"""The client's half of the wire: errors by code, and answers that are none."""

from collections.abc import Iterator

import pytest

from apply_service.clients.wire import decode_answer, decode_error, encode_request
from apply_service.errors import ApplyError, ServiceError
from apply_service.types import ApplyRequest


def tree(kind: type[ApplyError] = ApplyError) -> Iterator[type[ApplyError]]:
    """The package's errors; other programs derive their own, which never travel."""
    if kind.__module__ == ApplyError.__module__:
        yield kind
    for child in kind.__subclasses__():
        yield from tree(child)


@pytest.mark.parametrize("kind", list(tree()), ids=lambda kind: kind.code)
def test_every_error_comes_back_as_its_own_class(kind: type[ApplyError]) -> None:
    error = kind("what", value=["x", 1], limit="y", remedy="do")
    back = decode_error({"error": error.as_dict()})
    assert type(back) is kind
    assert back.as_dict() == error.as_dict()


def test_a_code_of_a_newer_server_is_still_an_error() -> None:
    error = decode_error({"error": {"code": "new", "message": "m", "value": 1, "limit": 2, "remedy": "r"}})
    assert type(error) is ServiceError
    assert error.message == "m"


@pytest.mark.parametrize("body", [{}, {"error": "flat"}, {"error": {"code": "truncated"}}])
def test_what_is_no_error_body(body: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError)):
        decode_error(body)


def test_what_is_no_answer() -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        decode_answer({"merged_code": "x"})


def test_a_request_leaves_its_defaults_out() -> None:
    assert encode_request(ApplyRequest(original="")) == {"original": ""}
    assert encode_request(ApplyRequest(original="a", update="b", seed=3)) == {"original": "a", "update": "b", "seed": 3}


def test_a_model_that_is_named_is_sent_even_if_it_is_the_embedded_one() -> None:
    """Another may be the server's own."""
    assert encode_request(ApplyRequest(original="", model="embedded")) == {"original": "", "model": "embedded"}

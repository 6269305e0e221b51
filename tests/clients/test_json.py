"""The client's half of the wire: errors by code, and answers that are none."""

from collections.abc import Iterator
from dataclasses import asdict

import pytest

from apply_service.api.answer import NativeAnswer
from apply_service.api.errors import NATIVE
from apply_service.clients.http import decode_answer, decode_error, encode_request
from apply_service.errors import ApplyError, NeedsMoreContext, ServiceError
from apply_service.types import ApplyRequest, DecodeStats, OtherReading
from tests.doubles import make_result


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


def test_readings_travel_with_an_answer_and_with_an_error() -> None:
    """And one is asked for by its id."""
    one = OtherReading("0123456789ab", 0.25, "keep line 1 (`x`)", "@@ -1 +1 @@\n")
    result = make_result(readings=(one,), reading="ba9876543210")
    assert decode_answer(NativeAnswer.of(result, with_bytes=False).model_dump(mode="json")) == result
    error = NeedsMoreContext("what", remedy="do")
    error.readings = [asdict(one)]
    assert decode_error(NATIVE.body(error)).readings == error.readings
    assert encode_request(ApplyRequest("a", "b", reading=one.id))["reading"] == one.id


def test_a_long_diff_of_an_error_travels_whole() -> None:
    error = NeedsMoreContext("what", remedy="do")
    error.readings = [asdict(OtherReading("0123456789ab", 0.25, "", "+x\n" * 1000))]
    assert NATIVE.body(error)["error"]["readings"][0]["diff"] == "+x\n" * 1000


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


@pytest.mark.parametrize(
    "unknown",
    [frozenset[str](), frozenset({"passes", "rejections", "accepted_by_source", "accepted_tokens", "drafted_tokens"})],
)
def test_counts_that_nobody_reported_stay_unknown(unknown: frozenset[str]) -> None:
    stats = DecodeStats(prompt_tokens=7, completion_tokens=5, prefill_passes=1, decode_s=0.5, unknown=unknown)
    answer = NativeAnswer.of(make_result(stats=stats), with_bytes=False).model_dump(mode="json")
    assert {name for name, value in answer["usage"].items() if value is None} == {
        {"accepted_tokens": "accepted_prediction_tokens", "drafted_tokens": "rejected_prediction_tokens"}.get(
            name, name
        )
        for name in unknown
    }
    assert decode_answer(answer).stats == stats

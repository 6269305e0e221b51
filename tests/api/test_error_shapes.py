"""Every error of the tree in the shape of the path that was asked."""

import json

import pytest

from apply_service.api.app import shape_at
from apply_service.api.calls import error_response
from apply_service.api.code_apply import FlatErrorBody
from apply_service.api.errors import NATIVE, error_kinds
from apply_service.api.openai import OPENAI_CODES, OpenAIErrorBody
from apply_service.errors import (
    ApplyError,
    CheckFailed,
    ContextLimitExceeded,
    InvalidField,
    Overloaded,
    RateLimited,
    Unauthorized,
    UnknownField,
    UnknownModel,
)

OPENAI = (
    "/v1/chat/completions",
    "/v1/apply/chat/completions",
    "/v1/apply/completions",
    "/v1/completions",
    "/v1/models",
    "/v1/models/x",
    "/v1/apply/models",
    "/v1/responses",
)
NATIVE_PATHS = ("/v1/apply", "/v1/apply/batch", "/healthz", "/", "/v1/chat", "/v2/chat/completions")
TYPES = {4: "invalid_request_error", 5: "server_error"}


@pytest.mark.parametrize("kind", list(error_kinds()), ids=lambda kind: kind.__name__)
def test_every_error_has_every_shape(kind: type[ApplyError]) -> None:
    error = kind("What is wrong.", value="x", limit=3, remedy="do this")
    facts = {"code": kind.code, "value": "x", "limit": 3, "remedy": "do this"}
    for path in OPENAI:
        body = json.loads(error_response(error, shape_at(path)).body)
        assert OpenAIErrorBody.model_validate(body)
        expected = "rate_limit_error" if NATIVE.status(type(error)) == 429 else TYPES[NATIVE.status(type(error)) // 100]
        code, words = OPENAI_CODES.get(kind, (kind.code, ""))
        assert body["error"] == {
            **facts,
            "code": code,
            "message": words.format(limit=3) + "What is wrong. Do this",
            "type": expected,
            "param": body["error"]["param"],
        }
    flat = json.loads(error_response(error, shape_at("/v1/code/apply")).body)
    assert FlatErrorBody.model_validate(flat)
    assert flat == {**facts, "error": "What is wrong. Do this", "message": "What is wrong."}
    for path in NATIVE_PATHS:
        assert shape_at(path).body(error) == {"error": {**facts, "message": "What is wrong."}}


def test_the_shape_is_documented_as_it_is() -> None:
    assert {shape_at(path).model for path in OPENAI} == {OpenAIErrorBody}
    assert shape_at("/v1/code/apply").model is FlatErrorBody
    assert not {shape_at(path).model for path in NATIVE_PATHS} & {OpenAIErrorBody, FlatErrorBody}


def test_statuses_are_openais_at_its_paths() -> None:
    """Its SDKs choose the class of what they raise by the status."""
    expected = {Unauthorized: 401, UnknownModel: 404, ContextLimitExceeded: 400, InvalidField: 400, CheckFailed: 400}
    for path in OPENAI:
        assert {kind: shape_at(path).status(kind) for kind in expected} == expected
        assert {kind: error_response(kind("m"), shape_at(path)).status_code for kind in expected} == expected
    assert (shape_at("/v1/code/apply").status(ContextLimitExceeded), shape_at("/v1/apply").status(InvalidField)) == (
        413,
        422,
    )


def test_a_field_that_does_not_exist_is_the_param() -> None:
    error = shape_at("/v1/chat/completions").body(UnknownField("m", value="tools"))["error"]
    assert error["param"] == "tools"
    assert shape_at("/v1/chat/completions").body(InvalidField("m", value="v"))["error"]["param"] is None


def test_an_error_without_a_remedy_is_its_message() -> None:
    assert shape_at("/v1/code/apply").body(InvalidField("Wrong."))["error"] == "Wrong."


@pytest.mark.parametrize("value", ["\ud800", float("nan"), {"k": ("x" * 300, 1)}, b"\xff"])
def test_any_value_can_be_sent(value: object) -> None:
    for path in ("/v1/chat/completions", "/v1/code/apply", "/v1/apply"):
        body = error_response(InvalidField("\ud800", value=value), shape_at(path)).body
        assert json.loads(bytes(body).decode("utf-8"))


def test_overload_at_the_flat_path_tells_its_limit() -> None:
    flat = error_response(Overloaded("full", limit=8), shape_at("/v1/code/apply")).headers
    assert (flat["x-ratelimit-limit"], flat["x-ratelimit-remaining"]) == ("8", "0")
    assert "x-ratelimit-limit" not in error_response(Overloaded("full", limit=8), shape_at("/v1/apply")).headers
    assert "x-ratelimit-limit" not in error_response(RateLimited("m"), shape_at("/v1/code/apply")).headers, (
        "its layer tells it"
    )

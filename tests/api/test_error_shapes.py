"""Every error of the tree in the shape of the path that was asked."""

import json

import pytest

from apply_service.api.calls import error_response
from apply_service.api.errors import (
    OPENAI_CODES,
    FlatErrorBody,
    OpenAIErrorBody,
    error_body,
    error_kinds,
    error_model,
    status_of,
)
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
NATIVE = ("/v1/apply", "/v1/apply/batch", "/healthz", "/", "/v1/chat", "/v2/chat/completions")
TYPES = {4: "invalid_request_error", 5: "server_error"}


@pytest.mark.parametrize("kind", list(error_kinds()), ids=lambda kind: kind.__name__)
def test_every_error_has_every_shape(kind: type[ApplyError]) -> None:
    error = kind("What is wrong.", value="x", limit=3, remedy="do this")
    facts = {"code": kind.code, "value": "x", "limit": 3, "remedy": "do this"}
    for path in OPENAI:
        body = json.loads(error_response(error, path).body)
        assert OpenAIErrorBody.model_validate(body)
        expected = "rate_limit_error" if status_of(error) == 429 else TYPES[status_of(error) // 100]
        code, words = OPENAI_CODES.get(kind, (kind.code, ""))
        assert body["error"] == {
            **facts,
            "code": code,
            "message": words.format(limit=3) + "What is wrong. Do this",
            "type": expected,
            "param": body["error"]["param"],
        }
    flat = json.loads(error_response(error, "/v1/code/apply").body)
    assert FlatErrorBody.model_validate(flat)
    assert flat == {**facts, "error": "What is wrong. Do this", "message": "What is wrong."}
    for path in NATIVE:
        assert error_body(error, path) == {"error": {**facts, "message": "What is wrong."}}


def test_the_shape_is_documented_as_it_is() -> None:
    assert {error_model(path) for path in OPENAI} == {OpenAIErrorBody}
    assert error_model("/v1/code/apply") is FlatErrorBody
    assert not {error_model(path) for path in NATIVE} & {OpenAIErrorBody, FlatErrorBody}


def test_statuses_are_openais_at_its_paths() -> None:
    """Its SDKs choose the class of what they raise by the status."""
    expected = {Unauthorized: 401, UnknownModel: 404, ContextLimitExceeded: 400, InvalidField: 400, CheckFailed: 400}
    for path in OPENAI:
        assert {kind: status_of(kind, path) for kind in expected} == expected
        assert {kind: error_response(kind("m"), path).status_code for kind in expected} == expected
    assert (status_of(ContextLimitExceeded, "/v1/code/apply"), status_of(InvalidField, "/v1/apply")) == (413, 422)


def test_a_field_that_does_not_exist_is_the_param() -> None:
    error = error_body(UnknownField("m", value="tools"), "/v1/chat/completions")["error"]
    assert error["param"] == "tools"
    assert error_body(InvalidField("m", value="v"), "/v1/chat/completions")["error"]["param"] is None


def test_an_error_without_a_remedy_is_its_message() -> None:
    assert error_body(InvalidField("Wrong."), "/v1/code/apply")["error"] == "Wrong."


@pytest.mark.parametrize("value", ["\ud800", float("nan"), {"k": ("x" * 300, 1)}, b"\xff"])
def test_any_value_can_be_sent(value: object) -> None:
    for path in ("/v1/chat/completions", "/v1/code/apply", "/v1/apply"):
        body = error_response(InvalidField("\ud800", value=value), path).body
        assert json.loads(bytes(body).decode("utf-8"))


def test_overload_at_the_flat_path_tells_its_limit() -> None:
    flat = error_response(Overloaded("full", limit=8), "/v1/code/apply").headers
    assert (flat["x-ratelimit-limit"], flat["x-ratelimit-remaining"]) == ("8", "0")
    assert "x-ratelimit-limit" not in error_response(Overloaded("full", limit=8), "/v1/apply").headers
    assert "x-ratelimit-limit" not in error_response(RateLimited("m"), "/v1/code/apply").headers, "its layer tells it"

"""The native schema: what it takes, what it refuses and by which name, and that nothing is lost on the way."""

import base64
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apply_service.api.answer import NativeAnswer
from apply_service.api.errors import NATIVE
from apply_service.api.openai import ChatRequest
from apply_service.api.schema import NativeRequest
from apply_service.clients.http import decode_answer, encode_request
from apply_service.errors import ApplyError, BadEncoding, InvalidField, UnknownField
from apply_service.types import ApplyRequest
from tests.doubles import make_result

FULL = ApplyRequest(
    original="a\r\nb\tç\U0001f600",
    update="u",
    instruction="i",
    path="p.py",
    language="python",
    format="lazy_snippet",
    base_sha256="0" * 64,
    strategy="model",
    model="m",
    drafter="none",
    constrain="sources",
    temperature=0.5,
    seed=9,
    max_tokens=5,
    timeout_s=2.5,
    on_verdict={"syntax": "fail", "no_op": "warn"},
    diff=True,
)


def parse(body: object) -> NativeRequest:
    return NativeRequest.parse(body if isinstance(body, bytes | str) else json.dumps(body))


def refusal(body: object) -> ApplyError:
    with pytest.raises(ApplyError) as caught:
        parse(body).to_request()
    assert caught.value.remedy
    return caught.value


@pytest.mark.parametrize("request_", [FULL, ApplyRequest(original=""), ApplyRequest(original="x", update="y")])
def test_client_and_server_agree_on_requests(request_: ApplyRequest) -> None:
    assert parse(encode_request(request_)).to_request() == request_


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"merged_code": "", "model": None, "drafter": None, "agreement": None, "determinism": None, "confidence": None},
        {"diff": "--- a\n+++ b\n", "language": None, "verdicts": (), "edits": (), "spans": (), "reasons": ()},
    ],
)
def test_client_and_server_agree_on_answers(changes: dict[str, object]) -> None:
    result = make_result(**changes) if "merged_code" not in changes else make_result("", **_without_merged(changes))
    answer = json.loads(NativeAnswer.of(result, with_bytes=False).model_dump_json())
    assert decode_answer(answer) == result
    assert NativeAnswer.model_validate_json(json.dumps(answer)) == NativeAnswer.of(result, with_bytes=False)


def test_usage_names_what_clients_read() -> None:
    usage = NativeAnswer.of(make_result(), with_bytes=False).usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (20, 6, 26)
    assert (usage.accepted_prediction_tokens, usage.rejected_prediction_tokens, usage.passes) == (5, 3, 2)


def test_edits_are_spelled_as_the_language_server_protocol_does() -> None:
    edit = json.loads(NativeAnswer.of(make_result(), with_bytes=False).model_dump_json())["edits"][0]
    assert edit["range"] == {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 3}}
    assert edit["newText"] == "new"


def test_a_model_left_out_is_left_to_the_service() -> None:
    assert parse({"original": ""}).to_request().model is None
    assert parse({"original": "", "model": "embedded"}).to_request().model == "embedded"


def test_unknown_field_is_named_even_beside_other_faults() -> None:
    error = refusal({"original": 3, "updaet": "x", "seed": -1})
    assert isinstance(error, UnknownField)
    assert error.value == "updaet"
    assert isinstance(error.limit, list)
    assert "update" in error.limit


def test_beside_an_unknown_field_within_another_stand_the_fields_of_that_place() -> None:
    user = {"role": "user", "content": "x"}
    for body, name, known in (
        ({"messages": [user], "apply_service": {"pth": "a"}}, "apply_service.pth", ("path", "stream_at_once")),
        ({"messages": [user | {"tool_calls": 1}]}, "messages.0.tool_calls", ("role", "content", "name")),
        ({"messages": [user], "stream_options": {"x": 1}}, "stream_options.x", ("include_usage",)),
    ):
        with pytest.raises(UnknownField) as caught:
            ChatRequest.parse(json.dumps(body))
        assert caught.value.value == name
        assert isinstance(caught.value.limit, list)
        assert set(known) <= set(caught.value.limit)
        assert "messages" not in caught.value.limit


@pytest.mark.parametrize(
    ("field", "value", "limit"),
    [
        ("temperature", 2.5, "less than or equal to 2"),
        ("temperature", -0.5, "greater than or equal to 0"),
        ("temperature", "0", "a valid number"),
        ("temperature", float("nan"), "a finite number"),
        ("seed", -1, "greater than or equal to 0"),
        ("seed", 2**63, f"less than or equal to {2**63 - 1}"),
        ("seed", 1.5, "a valid integer"),
        ("max_tokens", 0, "greater than or equal to 1"),
        ("timeout_s", 0, "greater than 0"),
        ("strategy", "best", "'auto', 'model' or 'exact'"),
        ("constrain", "all", "'sources' or 'none'"),
        ("base_sha256", "abc", "match pattern '^[0-9a-fA-F]{64}$'"),
        ("on_verdict", {"syntax": "explode"}, "'warn' or 'fail'"),
        ("on_verdict", [], "an object"),
        ("encoding", "", "at least 1 character"),
        ("encoding", "x" * 41, "at most 40 characters"),
        ("stream", "yes", "a valid boolean"),
        ("update", 5, "a valid string"),
    ],
)
def test_bad_value_names_field_value_and_limit(field: str, value: object, limit: str) -> None:
    error = refusal({"original": "", field: value})
    assert isinstance(error, InvalidField)
    assert field in error.message
    assert error.message.endswith(limit)
    assert repr(error.value) == repr("explode" if value == {"syntax": "explode"} else value)
    assert str(error.limit).endswith(limit)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_have(number: str) -> None:
    assert isinstance(refusal(f'{{"original": "", "temperature": {number}}}'), InvalidField)


@pytest.mark.parametrize(
    "body", ["", "{", "[]", "3", "null", '"text"', b"\xff\xfe", "[" * 100_000, '{"original": "a"} x']
)
def test_a_body_that_is_no_object(body: object) -> None:
    assert isinstance(refusal(body), InvalidField)


def test_what_is_wrong_with_a_body_is_said_in_our_words() -> None:
    assert refusal("[1]").as_dict() == {
        "code": "invalid_field",
        "message": "bad request: Input should be an object",
        "value": [1],
        "limit": "Input should be an object",
        "remedy": "correct body; /openapi.json says what it takes",
    }
    assert refusal("{").message == "the body is not valid JSON: it ends within an object at line 1 column 1"


@pytest.mark.parametrize("body", ['{"original": "\\ud800"}', '{"original": "", "update": "x\\udfffx"}'])
def test_lone_surrogates(body: str) -> None:
    assert isinstance(refusal(body), BadEncoding)


def test_paired_surrogates_are_one_character() -> None:
    assert parse('{"original": "\\ud83d\\ude00"}').to_request().original == "\U0001f600"


@pytest.mark.parametrize("body", [{}, {"update": "x"}, {"original": "", "original_b64": ""}])
def test_the_file_is_given_in_one_way(body: dict[str, object]) -> None:
    assert "original_b64" in refusal(body).message


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "latin-1", "cp1252"])
def test_bytes_in_any_encoding_come_back(encoding: str) -> None:
    text = "naïve\r\nça\n"
    data = text.encode(encoding)
    call = parse({"original_b64": base64.b64encode(data).decode(), "encoding": encoding})
    request = call.to_request()
    result = make_result(request.original, encoding=request.encoding)
    answer = NativeAnswer.of(result, with_bytes=True)
    assert base64.b64decode(answer.merged_b64 or "") == data
    assert "naïve" in answer.merged_code


def test_a_byte_order_mark_survives() -> None:
    data = b"\xef\xbb\xbfx = 1\r\n"
    request = parse({"original_b64": base64.b64encode(data).decode()}).to_request()
    answer = NativeAnswer.of(make_result(request.original, encoding=request.encoding), with_bytes=True)
    assert base64.b64decode(answer.merged_b64 or "") == data


@pytest.mark.parametrize(
    ("data", "encoding"), [(b"caf\xe9", "utf-8"), (b"a\x00b", "utf-16"), (b"x", "no-such-encoding"), (b"x", "rot13")]
)
def test_bytes_that_are_not_in_their_encoding(data: bytes, encoding: str) -> None:
    error = refusal({"original_b64": base64.b64encode(data).decode(), "encoding": encoding})
    assert isinstance(error, BadEncoding)


@pytest.mark.parametrize("text", ["a!b", "abc", "é", "_-==", "\x1e"])
def test_bytes_that_are_no_base64(text: str) -> None:
    assert refusal({"original_b64": text}).value == "original_b64"


def _without_merged(changes: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in changes.items() if name != "merged_code"}


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner))
FIELDS = st.sampled_from(sorted(NativeRequest.model_fields)) | st.text(max_size=8)


@settings(max_examples=100, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(FIELDS, VALUES, max_size=6) | VALUES)
def test_any_json_is_a_request_or_a_typed_error(body: object) -> None:
    assert is_taken_or_refused(json.dumps(body).encode())


@settings(max_examples=100, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_bytes_are_a_request_or_a_typed_error(body: bytes | str) -> None:
    assert is_taken_or_refused(body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass"))


def is_taken_or_refused(body: bytes) -> bool:
    try:
        request = NativeRequest.parse(body).to_request()
    except ApplyError as error:
        is_in_our_words = "as documented" not in error.message
        return is_in_our_words and json.loads(NATIVE.json(error))["error"]["code"] == error.code != ApplyError.code
    return isinstance(request, ApplyRequest)

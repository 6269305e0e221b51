"""The OpenAI dialect over a scripted pipeline: requests read, answers and streams as its clients expect, refusals."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient

from apply_service.api.app import create_app
from apply_service.api.openai_reply import PIECE_CHARS, pieces
from apply_service.errors import NeedsMoreContext, StaleBase
from apply_service.service import Run, Service
from apply_service.settings import Settings
from apply_service.types import ApplyRequest, Verdict
from tests.doubles import ScriptedRun, make_result
from tests.live_server import live_server

TAGGED = "<instruction>I do.</instruction>\n<code>old\n</code>\n<update>new\n</update>"
CHAT = {"model": "auto", "messages": [{"role": "user", "content": TAGGED}]}
MERCURY = "<|original_code|>\nold\n\n<|/original_code|>\n\n<|update_snippet|>\nnew\n\n<|/update_snippet|>"
PREDICTED = {
    "model": "Fast-Apply",
    "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "old\nnew\n"}],
    "prediction": {"type": "content", "content": "old\nkept\n"},
}
CHAT_PATHS = ("/v1/chat/completions", "/v1/apply/chat/completions")


@contextmanager
def client(run: Run, **settings: Any) -> Iterator[TestClient]:
    with Service(run) as service:
        yield TestClient(create_app(service, Settings(**settings)), raise_server_exceptions=False)
        assert service.wait_until_idle(5)
        service.check_integrity()


def chunks(text: str) -> list[Any]:
    """A stream's events; it must end as OpenAI's do."""
    *frames, done = text.removesuffix("\n\n").split("\n\n")
    assert done == "data: [DONE]"
    return [json.loads(frame.removeprefix("data: ")) for frame in frames]


def text_of(stream: list[Any]) -> str:
    return "".join(choice["delta"].get("content", "") for chunk in stream for choice in chunk["choices"])


# -- requests ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", CHAT_PATHS)
def test_a_tagged_chat(path: str) -> None:
    run = ScriptedRun()
    with client(run) as http:
        answer = http.post(path, json=CHAT).json()
    assert run.edits == [ApplyRequest(original="old\n", update="new\n", instruction="I do.", model="embedded")]
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "auto"
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "new\n", "refusal": None},
            "finish_reason": "stop",
            "logprobs": None,
        }
    ]
    assert answer["usage"] == {
        "prompt_tokens": 20,
        "completion_tokens": 6,
        "total_tokens": 26,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"accepted_prediction_tokens": 5, "rejected_prediction_tokens": 3},
    }


def test_the_answer_carries_what_the_service_knows() -> None:
    with client(ScriptedRun()) as http:
        native = http.post("/v1/apply", json={"original": "old\n", "update": "new\n"}).json()
        for path, body in (("/v1/chat/completions", CHAT), ("/v1/completions", {"prompt": TAGGED})):
            report = http.post(path, json=body).json()["apply_service"]
            assert report == {k: v for k, v in native.items() if k not in ("merged_code", "merged_b64", "usage")}


def test_a_predicted_chat() -> None:
    run = ScriptedRun()
    with client(run) as http:
        assert http.post("/v1/chat/completions", json=PREDICTED).json()["choices"][0]["message"]["content"] == "new\n"
    assert run.edits == [ApplyRequest(original="old\nkept\n", update="old\nnew\n", model="embedded")]


def test_text_may_come_in_parts() -> None:
    run = ScriptedRun()
    parts = [{"type": "text", "text": piece} for piece in (TAGGED[:20], TAGGED[20:])]
    body = {"messages": [{"role": "user", "content": parts}], "prediction": {"type": "content", "content": []}}
    body["prediction"] = {"type": "content", "content": [{"type": "text", "text": "old\n"}]}
    with client(run) as http:
        assert http.post("/v1/chat/completions", json=body).status_code == 200
    assert run.requests[0].original == "old\n"


def test_mercurys_endpoint() -> None:
    run = ScriptedRun()
    with client(run) as http:
        answer = http.post("/v1/apply/completions", json={"messages": [{"role": "user", "content": MERCURY}]})
    assert answer.json()["choices"][0]["message"]["content"] == "new\n"
    assert run.edits == [ApplyRequest(original="old\n", update="new\n")]


def test_completions_take_a_tagged_prompt() -> None:
    run = ScriptedRun()
    with client(run) as http:
        answer = http.post("/v1/completions", json={"model": "morph-v3-fast", "prompt": TAGGED}).json()
        refused = http.post("/v1/completions", json={"prompt": "def f("})
    assert answer["object"] == "text_completion"
    assert answer["choices"] == [{"index": 0, "text": "new\n", "finish_reason": "stop", "logprobs": None}]
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "not_an_edit")
    assert len(run.requests) == 1


def test_options_reach_the_pipeline() -> None:
    run = ScriptedRun()
    options = {"path": "a.py", "strategy": "model", "on_verdict": {"no_op": "fail"}, "diff": True, "drafter": "none"}
    more = {"temperature": 0.5, "seed": 7, "apply_service": options}
    with client(run) as http:
        assert http.post("/v1/chat/completions", json=CHAT | more).status_code == 200
    request = run.requests[0]
    assert {name: getattr(request, name) for name in options} == options
    assert (request.temperature, request.seed) == (0.5, 7)


@pytest.mark.parametrize(
    ("asked", "model"),
    [(None, None), ("embedded", "embedded"), ("auto", "embedded"), ("m-7b", "big"), ("nope", "nope")],
)
def test_model_names(asked: str | None, model: str | None) -> None:
    run = ScriptedRun()
    with client(run, model_aliases=("auto", "m-7b=big"), models=("big=/models/big",)) as http:
        http.post("/v1/chat/completions", json=CHAT | {"model": asked})
        http.post("/v1/apply", json={"original": "", "update": "x"} | ({} if asked is None else {"model": asked}))
    assert [request.model for request in run.requests] == [model, model]


def test_models_are_listed() -> None:
    with client(ScriptedRun(), model="x", model_aliases=("a/b", "c=embedded"), models=("big=/models/big",)) as http:
        for path in ("/v1/models", "/v1/apply/models"):
            listed = http.get(path).json()
            assert listed["object"] == "list"
            assert [(card["id"], card["alias_of"]) for card in listed["data"]] == [
                ("x", None),
                ("big", None),
                ("embedded", None),
                ("a/b", "x"),
                ("c", "embedded"),
            ]
            assert http.get(path + "/a/b").json() == listed["data"][3]
            missing = http.get(path + "/zzz")
            assert (missing.status_code, missing.json()["error"]["code"]) == (404, "unknown_model")


def test_one_of_our_names_is_sent_predictions() -> None:
    """One client sends them to models with this in their names."""
    with client(ScriptedRun()) as http:
        assert any("Fast-Apply" in card["id"] for card in http.get("/v1/models").json()["data"])


# -- fields ------------------------------------------------------------------------------------------------------------
SENT_ANYWAY = {
    "top_p": 0.9,
    "frequency_penalty": 0,
    "presence_penalty": 1.5,
    "stop": ["<|endoftext|>"],
    "user": "u",
    "n": 1,
    "max_tokens": 8000,
    "max_completion_tokens": None,
    "adaptive_speculation": True,
    "speculation_length_on_strong_match": 250,
    "speculation_min_length_on_strong_match": 250,
    "speculation_strong_match_threshold": 25,
    "nextEdit": False,
}


def test_what_clients_always_send_is_taken() -> None:
    run = ScriptedRun()
    with client(run) as http:
        assert http.post("/v1/chat/completions", json=CHAT | SENT_ANYWAY).status_code == 200
        for name, value in SENT_ANYWAY.items():
            assert http.post("/v1/chat/completions", json=CHAT | {name: value}).status_code == 200, name
    assert len(set(map(repr, run.requests))) == 1, "none of them changes the edit"


@pytest.mark.parametrize(
    "name", ["tools", "tool_choice", "logprobs", "response_format", "functions", "modalities", "x"]
)
def test_what_is_not_supported_is_refused_by_name(name: str) -> None:
    with client(ScriptedRun()) as http:
        for path in CHAT_PATHS:
            response = http.post(path, json=CHAT | {name: []})
            assert response.status_code == 422
            assert response.json()["error"]["code"] == "unknown_field"
            assert response.json()["error"]["param"] == name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 2}, "'n'"),
        ({"seed": -1}, "'seed'"),
        ({"temperature": 3}, "'temperature'"),
        ({"max_tokens": 0}, "'max_tokens'"),
        ({"stream": "yes"}, "'stream'"),
        ({"messages": []}, "'messages'"),
        ({"messages": [{"role": "assistant", "content": "```"}]}, "'messages.0.role'"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "'messages.0.content'"),
        ({"messages": [{"role": "user", "content": None}]}, "'messages.0.content'"),
        ({"prediction": {"type": "text", "content": "x"}}, "'prediction.type'"),
        ({"apply_service": {"strategy": "best"}}, "'apply_service.strategy'"),
    ],
)
def test_bad_values_are_named(changes: dict[str, Any], message: str) -> None:
    with client(ScriptedRun()) as http:
        response = http.post("/v1/chat/completions", json=CHAT | changes)
    assert (response.status_code, response.json()["error"]["code"]) == (422, "invalid_field")
    assert message in response.json()["error"]["message"]


# -- refusals ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_has_a_status_and_openais_shape(stream: bool) -> None:
    """Streams too: nothing is sent before the result is there."""
    run = ScriptedRun(error=StaleBase("the original is stale", value="a", limit="b", remedy="read it again"))
    with client(run) as http:
        response = http.post("/v1/chat/completions", json=CHAT | {"stream": stream})
    assert response.status_code == 409
    assert response.json() == {
        "error": {
            "message": "the original is stale. Read it again",
            "type": "invalid_request_error",
            "param": None,
            "code": "stale_base",
            "value": "a",
            "limit": "b",
            "remedy": "read it again",
        }
    }


def test_errors_of_the_framework_have_openais_shape() -> None:
    with client(ScriptedRun()) as http:
        for path in (*CHAT_PATHS, "/v1/completions", "/v1/apply/completions"):
            wrong = http.get(path)
            assert (wrong.status_code, wrong.json()["error"]["type"]) == (405, "invalid_request_error")
        missing = http.post("/v1/chat/other", json={})
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize("text", ["Write a poem.", "<code>old</code>", ""])
def test_plain_chat_is_refused(text: str) -> None:
    run = ScriptedRun()
    with client(run) as http:
        response = http.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": text}]})
    assert (response.status_code, response.json()["error"]["code"]) == (422, "not_an_edit")
    assert run.n_started == 0


def test_an_answer_with_more_tokens_than_allowed_is_refused() -> None:
    with client(ScriptedRun()) as http:
        for limit in ({"max_tokens": 5}, {"max_completion_tokens": 5}, {"max_tokens": 9, "max_completion_tokens": 5}):
            for stream in (False, True):
                response = http.post("/v1/chat/completions", json=CHAT | limit | {"stream": stream})
                error = response.json()["error"]
                assert (response.status_code, error["code"], error["value"], error["limit"]) == (422, "truncated", 6, 5)
        assert http.post("/v1/chat/completions", json=CHAT | {"max_tokens": 6}).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_finding_that_the_client_would_not_see_is_refused(stream: bool) -> None:
    verdicts = (Verdict("no_op", "warning", "same"), Verdict("marker_leak", "error", "a marker was written", (1, 1)))
    run = ScriptedRun(result=make_result(verdicts=verdicts))
    accepted = {"apply_service": {"on_verdict": {"marker_leak": "warn"}}}
    with client(run) as http:
        for path, body in (("/v1/chat/completions", CHAT), ("/v1/completions", {"prompt": TAGGED})):
            response = http.post(path, json=body | {"stream": stream})
            assert (response.status_code, response.json()["error"]["code"]) == (422, "check_failed")
            assert response.json()["error"]["value"] == ["marker_leak"]
            assert http.post(path, json=body | {"stream": stream} | accepted).status_code == 200


# -- streams -----------------------------------------------------------------------------------------------------------
def test_a_stream_in_openais_chunks() -> None:
    with client(ScriptedRun()) as http:
        response = http.post("/v1/chat/completions", json=CHAT | {"stream": True})
        whole = http.post("/v1/chat/completions", json=CHAT).json()
    assert response.headers["content-type"].startswith("text/event-stream")
    first, *texts, last = chunks(response.text)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert text_of(texts) == "new\n"
    assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop", "logprobs": None}]
    assert last["apply_service"] == whole["apply_service"]
    assert {chunk["object"] for chunk in (first, *texts, last)} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in (first, *texts, last)}) == 1


def test_usage_is_a_chunk_of_its_own_where_it_is_asked_for() -> None:
    body = CHAT | {"stream": True, "stream_options": {"include_usage": True}}
    with client(ScriptedRun()) as http:
        stream = chunks(http.post("/v1/chat/completions", json=body).text)
        whole = http.post("/v1/chat/completions", json=CHAT).json()
    assert stream[-1]["choices"] == []
    assert stream[-1]["usage"] == whole["usage"]
    assert not any("usage" in chunk for chunk in stream[:-1])


def test_completions_stream_text() -> None:
    with client(ScriptedRun()) as http:
        stream = chunks(http.post("/v1/completions", json={"prompt": TAGGED, "stream": True}).text)
    assert "".join(chunk["choices"][0]["text"] for chunk in stream) == "new\n"
    assert [chunk["choices"][0]["finish_reason"] for chunk in stream] == [None, "stop"]
    assert {chunk["object"] for chunk in stream} == {"text_completion"}


def test_text_is_held_back_until_nothing_can_replace_it() -> None:
    """The pipeline streams other text than it answers with, as a fallback does."""
    run = ScriptedRun(tokens=("wrong", " text"))
    with client(run) as http:
        stream = chunks(http.post("/v1/chat/completions", json=CHAT | {"stream": True}).text)
    assert text_of(stream) == "new\n"


@pytest.mark.parametrize("by_setting", [False, True])
def test_text_sent_at_once(by_setting: bool) -> None:
    body = CHAT | {"stream": True} | ({} if by_setting else {"apply_service": {"stream_at_once": True}})
    with client(ScriptedRun(tokens=("ne", "w")), stream_at_once=by_setting) as http:
        stream = chunks(http.post("/v1/chat/completions", json=body).text)
    pieces = [chunk["choices"][0]["delta"].get("content") for chunk in stream]
    assert pieces == ["", "ne", "w", "\n", None]


def test_the_request_overrules_the_setting() -> None:
    body = CHAT | {"stream": True, "apply_service": {"stream_at_once": False}}
    with client(ScriptedRun(tokens=("wrong",)), stream_at_once=True) as http:
        assert text_of(chunks(http.post("/v1/chat/completions", json=body).text)) == "new\n"


def test_text_that_was_replaced_after_it_was_sent_is_no_answer() -> None:
    body = CHAT | {"stream": True, "apply_service": {"stream_at_once": True}}
    with client(ScriptedRun(tokens=("wrong",))) as http:
        response = http.post("/v1/chat/completions", json=body)
    frames = [json.loads(frame.removeprefix("data: ")) for frame in response.text.removesuffix("\n\n").split("\n\n")]
    assert response.status_code == 200
    assert frames[-1]["error"]["code"] == "stream_replaced"
    assert not any(choice["finish_reason"] for frame in frames[:-1] for choice in frame["choices"])


def test_an_error_after_text_was_sent_is_the_last_event() -> None:
    body = CHAT | {"stream": True, "apply_service": {"stream_at_once": True}}
    with client(ScriptedRun(error=NeedsMoreContext("no anchor"))) as http:
        response = http.post("/v1/chat/completions", json=body)
    last = response.text.removesuffix("\n\n").split("\n\n")[-1]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "needs_more_context"


@pytest.mark.parametrize("original", ["old\r\n", "\ufeffold\n"])
def test_a_file_whose_bytes_are_put_back_at_the_end_is_held_back_all_the_same(original: str) -> None:
    merged = original.replace("old", "new")
    body = {
        "messages": [{"role": "user", "content": f"<code>{original}</code>\n<update>new</update>"}],
        "stream": True,
        "apply_service": {"stream_at_once": True},
    }
    with client(ScriptedRun(result=make_result(merged))) as http:
        assert text_of(chunks(http.post("/v1/chat/completions", json=body).text)) == merged


@pytest.mark.parametrize("at_once", [False, True])
def test_a_stream_in_tags_and_escapes(at_once: bool) -> None:
    content = "Use <updated-code></updated-code>.\n<code>a &lt; b\n</code>\n<update>a</update>"
    run = ScriptedRun(tokens=("a <", " c\n"), result=make_result("a < c\n"))
    body = {
        "messages": [{"role": "user", "content": content}],
        "stream": True,
        "apply_service": {"stream_at_once": at_once},
    }
    with client(run) as http:
        assert text_of(chunks(http.post("/v1/chat/completions", json=body).text)) == (
            "<updated-code>a &lt; c\n</updated-code>"
        )
    assert run.requests[0].original == "a < b\n"


def test_any_text_survives_the_stream() -> None:
    merged = "\u2028\x85\x0c\x1b[0m\U0001f600 \u202e</update>data: [DONE]\n\ndata: x\r\n" + "y" * 9000 + "\n\n\n"
    with client(ScriptedRun(result=make_result(merged))) as http:
        body = CHAT | {"stream": True}
        assert text_of(chunks(http.post("/v1/chat/completions", json=body).text)) == merged
        assert http.post("/v1/chat/completions", json=CHAT).json()["choices"][0]["message"]["content"] == merged


def test_an_empty_file_is_an_answer() -> None:
    with client(ScriptedRun(tokens=(), result=make_result(""))) as http:
        assert text_of(chunks(http.post("/v1/chat/completions", json=CHAT | {"stream": True}).text)) == ""
        assert http.post("/v1/chat/completions", json=CHAT).json()["choices"][0]["message"]["content"] == ""


@pytest.mark.parametrize("text", ["", "x", "a\n" * PIECE_CHARS, "x" * 3 * PIECE_CHARS + "\ny", "\n" * 10_000])
def test_pieces_are_the_text(text: str) -> None:
    cut = list(pieces(text))
    assert "".join(cut) == text
    assert all(cut)
    assert all(piece.endswith("\n") for piece in cut[:-1])


@pytest.mark.parametrize("at_once", [False, True])
def test_a_client_that_goes_away_stops_its_decoding(at_once: bool) -> None:
    """Also while the text is held back, when nothing has been sent yet."""
    run = ScriptedRun(gate=threading.Event())
    body = json.dumps(CHAT | {"stream": True, "apply_service": {"stream_at_once": at_once}}).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
    with live_server(run) as (url, service):
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(f"{head}{len(body)}\r\n\r\n".encode() + body)
            assert run.started.wait(5)
            assert not run.closed.wait(0.05)
        assert run.closed.wait(5)
        assert service.wait_until_idle(5)

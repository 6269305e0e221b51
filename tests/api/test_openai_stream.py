"""Streams of the OpenAI dialect: its chunks, what is held back and what is sent at once."""

import json
import socket
import threading

import pytest

from apply_service.api.openai import PIECE_CHARS, pieces
from apply_service.errors import EngineFailure, NeedsMoreContext
from tests.api.openai_chats import CHAT, TAGGED, chunks, client, text_of
from tests.doubles import ScriptedRun, make_result
from tests.live_server import live_server


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


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_what_breaks_after_the_first_text_ends_the_stream_in_an_error(path: str) -> None:
    run = ScriptedRun(tokens=("new\n",), error=EngineFailure("crash"))
    at_once = {"stream": True, "apply_service": {"stream_at_once": True}}
    with client(run) as http:
        text = http.post(path, json=(CHAT if "chat" in path else {"input": TAGGED}) | at_once).text
    last = text.removesuffix("\n\n").split("\n\n")[-1]
    assert "engine_failure" in last
    assert '"finish_reason": "stop"' not in text
    assert "response.completed" not in text


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
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
    with live_server(run) as (url, service):
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(f"{head}{len(body)}\r\n\r\n".encode() + body)
            assert run.started.wait(5)
            assert not run.closed.wait(0.05)
        assert run.closed.wait(5)
        assert service.wait_until_idle(5)

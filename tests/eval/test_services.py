"""The two foreign dialects: what is sent, what is read, and what each kind of failure means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apply_eval.arguments import DIALECTS
from apply_eval.runners import MISSING_OVER_HTTP, RequestOptions
from apply_eval.services import ServerOptions, open_server
from apply_service.errors import (
    ApplyError,
    DeadlineExceeded,
    NotReady,
    Overloaded,
    RequestError,
    ServiceError,
    SettingsError,
    TooLarge,
    Truncated,
    Unreachable,
)
from tests.doubles import ScriptedRun, make_result
from tests.eval.rows import record
from tests.eval.stub_server import Asked, Reply, stub_server
from tests.live_server import live_server

RECORD = record("a")
FOREIGN = ("openai_chat", "code_apply")
USAGE = {
    "prompt_tokens": 40,
    "completion_tokens": 30,
    "total_tokens": 70,
    "completion_tokens_details": {"accepted_prediction_tokens": 25, "rejected_prediction_tokens": 5},
}


def merged(asked: Asked, **changes: Any) -> Reply:
    if asked.path.endswith("/chat/completions"):
        choice = {"message": {"role": "assistant", "content": RECORD.after}, "finish_reason": "stop"} | changes
        return Reply({"choices": [choice], "usage": USAGE})
    return Reply({"mergedCode": RECORD.after, "usage": USAGE})


def ask(dialect: str, reply: Callable[[Asked], Reply], **endpoint: Any) -> tuple[Any, list[Asked]]:
    """The answer or the error, and what was asked."""
    with stub_server(reply) as stub:
        runner = open_server("x", ServerOptions(stub.url, dialect, **endpoint), RequestOptions(timeout_s=0.5))
        try:
            return runner.answer(RECORD), stub.asked
        except ApplyError as error:
            return error, stub.asked
        finally:
            runner.close()


@pytest.mark.parametrize("dialect", FOREIGN)
def test_an_answer_with_its_usage(dialect: str) -> None:
    answer, _ = ask(dialect, merged)
    assert answer.text == RECORD.after
    assert (answer.n_prompt_tokens, answer.n_tokens, answer.n_drafted, answer.n_accepted) == (40, 30, 30, 25)
    assert answer.latency_s > 0
    assert answer.tok_s == pytest.approx(30 / answer.latency_s)
    assert (answer.passes, answer.ttft_s, answer.confidence, answer.findings) == (None, None, None, ())


def test_what_chat_sends() -> None:
    _, asked = ask("openai_chat", merged, api_key="secret", model="morph-v3-fast")
    assert asked[0].path == "/v1/chat/completions"
    assert asked[0].headers["authorization"] == "Bearer secret"
    assert asked[0].body["model"] == "morph-v3-fast"
    content = asked[0].body["messages"][0]["content"]
    assert content == f"<code>{RECORD.before}</code>\n<update>{RECORD.update}</update>"


def test_what_code_apply_sends() -> None:
    _, asked = ask("code_apply", merged)
    assert asked[0].path == "/v1/code/apply"
    assert "authorization" not in asked[0].headers
    assert asked[0].body == {"initial_code": RECORD.before, "edit_snippet": RECORD.update, "stream": False}


def test_the_other_spelling_of_the_merged_file() -> None:
    answer, _ = ask("code_apply", lambda _: Reply({"merged_code": "x\n"}))
    assert (answer.text, answer.n_tokens, answer.tok_s) == ("x\n", None, None)


def test_a_path_in_the_url_is_kept() -> None:
    with stub_server(merged) as stub:
        runner = open_server("x", ServerOptions(f"{stub.url}/v1/apply/", "openai_chat"), RequestOptions())
        runner.answer(RECORD)
        runner.close()
        assert stub.asked[0].path == "/v1/apply/chat/completions"


@pytest.mark.parametrize("dialect", FOREIGN)
@pytest.mark.parametrize(
    ("reply", "kind", "is_missing"),
    [
        (Reply({"error": {"message": "bad snippet"}}, 422), RequestError, False),
        (Reply({"error": "no code"}, 400), RequestError, False),
        (Reply({"error": "too large"}, 413), TooLarge, False),
        (Reply({"error": "no such key"}, 401), NotReady, True),
        (Reply("<html>not found</html>", 404, "text/html"), NotReady, True),
        (Reply({"detail": "slow down"}, 429), Overloaded, True),
        (Reply("oops", 500, "text/plain"), ServiceError, True),
        (Reply("", 503), ServiceError, True),
        (Reply("not json"), Unreachable, True),
        (Reply([]), Unreachable, True),
        (Reply({"choices": [], "usage": None}), Unreachable, True),
        (Reply(None), Unreachable, True),
    ],
)
def test_failures_are_what_they_are(dialect: str, reply: Reply, kind: type[ApplyError], is_missing: bool) -> None:
    error, _ = ask(dialect, lambda _: reply)
    assert type(error) is kind
    assert isinstance(error, MISSING_OVER_HTTP) is is_missing


def test_the_service_s_own_words_are_in_the_message() -> None:
    error, _ = ask("code_apply", lambda _: Reply({"error": {"message": "snippet is empty"}}, 422))
    assert error.message == "HTTP 422: snippet is empty"


def test_a_truncated_answer_is_a_refusal() -> None:
    error, _ = ask("openai_chat", lambda asked: merged(asked, finish_reason="length"))
    assert isinstance(error, Truncated)
    assert not isinstance(error, MISSING_OVER_HTTP)


def test_a_silent_service_is_missing() -> None:
    def wait(asked: Asked) -> Reply:
        import time

        time.sleep(0.8)
        return merged(asked)

    error, _ = ask("code_apply", wait)
    assert isinstance(error, DeadlineExceeded)


def test_nobody_at_the_url() -> None:
    runner = open_server("x", ServerOptions("http://127.0.0.1:9", "code_apply"), RequestOptions())
    with pytest.raises(Unreachable, match="can't be reached"):
        runner.answer(RECORD)
    runner.close()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_url(dialect: str) -> None:
    with pytest.raises(SettingsError):
        open_server("x", ServerOptions("ftp://example.org", dialect), RequestOptions())


def test_a_key_is_never_shown() -> None:
    assert "secret" not in repr(ServerOptions("http://x", api_key="secret"))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_our_own_server_in_every_dialect(dialect: str) -> None:
    run = ScriptedRun(tokens=(RECORD.after,), result=make_result(RECORD.after))
    with live_server(run) as (url, _):
        runner = open_server("x", ServerOptions(url, dialect), RequestOptions())
        answer = runner.answer(RECORD)
        runner.close()
    assert answer.text == RECORD.after
    assert answer.n_tokens == 6
    assert run.requests[0].original == RECORD.before
    assert run.requests[0].update.strip() == RECORD.update.strip()
    if dialect == "native":
        assert answer.ttft_s is not None
        assert (answer.passes, answer.findings, answer.confidence) == (2, ("syntax",), 0.75)

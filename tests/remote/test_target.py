"""A remote target through the whole pipeline, against a scripted server on loopback."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from apply_service.deadline import Deadline
from apply_service.errors import (
    ApplyError,
    Cancelled,
    ContextLimitExceeded,
    DeadlineExceeded,
    Overloaded,
    RemoteFailure,
    Truncated,
    UnsupportedParameter,
)
from apply_service.pipeline import apply, run, run_alone
from apply_service.prompts.chat import SYSTEM, TAGS
from apply_service.remote.client import Endpoint, RemoteClient
from apply_service.remote.messages import Token, Transcript
from apply_service.remote.target import RemoteTarget, line_logprobs
from apply_service.service import Service
from apply_service.target import Runtime
from apply_service.types import ApplyRequest, FinalEvent, TokenEvent
from tests.doubles import wait_for
from tests.remote.scripted_server import (
    SSE,
    Answer,
    Scripted,
    chunk,
    error,
    event,
    scripted_server,
    stream,
)

ORIGINAL = "import os\n\n\ndef one():\n    return 1\n\n\ndef two():\n    return 2\n"
UPDATE = "# ... existing code ...\n\ndef one():\n    return 11\n\n\ndef two():\n# ... existing code ...\n"
MERGED = ORIGINAL.replace("return 1\n", "return 11\n")
OUTPUT = f"<merged>\n{MERGED}\n</merged>"
REQUEST = ApplyRequest(original=ORIGINAL, update=UPDATE, path="numbers.py", strategy="model")
USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 40,
    "prompt_tokens_details": {"cached_tokens": 60},
    "completion_tokens_details": {"accepted_prediction_tokens": 30, "rejected_prediction_tokens": 4},
}


@contextlib.contextmanager
def remote_runtime(script: Scripted, **options: Any) -> Iterator[Runtime]:
    values: dict[str, Any] = {"backoff_s": 0.001, "takes": frozenset({"usage"}), "silence_timeout_s": 5.0}
    client = RemoteClient(Endpoint(url=script.url, **(values | options)))
    target = RemoteTarget("remote:m", "m", client)
    try:
        yield Runtime(load=lambda _: target, models=("remote:m",))
    finally:
        client.close()


@contextlib.contextmanager
def serving(*answers: Any, **options: Any) -> Iterator[tuple[Scripted, Runtime]]:
    with scripted_server(*answers) as script, remote_runtime(script, **options) as runtime:
        yield script, runtime


def failure(*answers: Any, request: ApplyRequest = REQUEST, **options: Any) -> tuple[ApplyError, Scripted]:
    """The error that these answers lead to."""
    with serving(*answers, **options) as (script, runtime):
        with pytest.raises(ApplyError) as caught:
            apply(request, runtime)
        return caught.value, script


# -- the answer -------------------------------------------------------------------------------------------------------
def test_an_edit_is_decided_there_and_put_back_here() -> None:
    request = replace(REQUEST, original=ORIGINAL.replace("\n", "\r\n"))
    with serving(stream(OUTPUT, usage=USAGE)) as (script, runtime):
        result = apply(request, runtime)
    assert result.merged_code == MERGED.replace("\n", "\r\n")
    assert (result.strategy, result.model, result.agreement) == ("model", "remote:m", True)
    body = script.bodies[0]
    assert script.paths == ["/v1/chat/completions"]
    assert (body["model"], body["temperature"], body["stream"]) == ("m", 0.0, True)
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["messages"][0]["content"] == SYSTEM
    assert f"<original>\n{ORIGINAL}\n</original>\n<update>\n{UPDATE}\n</update>" == body["messages"][1]["content"]
    assert not {"prediction", "logprobs", "seed", "max_tokens"} & body.keys()


def test_what_the_server_does_not_tell_is_absent() -> None:
    with serving(stream(OUTPUT)) as (_, runtime):
        result = apply(REQUEST, runtime)
    assert (result.determinism, result.drafter, result.confidence, result.confidence_kind) == (None,) * 4
    assert [hunk.confidence for hunk in result.hunks] == [None]
    assert {"passes", "rejections", "prompt_tokens", "completion_tokens", "accepted_tokens"} <= result.stats.unknown
    assert "usage" in {verdict.check for verdict in result.verdicts}


def test_usage_is_mapped() -> None:
    with serving(stream(OUTPUT, usage=USAGE)) as (script, runtime):
        result = apply(REQUEST, runtime)
    stats = result.stats
    assert (stats.prompt_tokens, stats.cached_prompt_tokens, stats.completion_tokens) == (100, 60, 40)
    assert (stats.accepted_tokens, stats.rejected_tokens) == (30, 4)
    assert (stats.prefill_s, stats.draft_s) == (0.0, 0.0)
    assert 0 < stats.decode_s <= result.timings_s["decide_s"]
    assert stats.unknown == {"passes", "prefill_passes", "rejections", "accepted_by_source"}
    assert script.bodies[0]["stream_options"] == {"include_usage": True}
    assert "usage" not in {verdict.check for verdict in result.verdicts}


def test_text_comes_as_it_is_written() -> None:
    with serving(stream(OUTPUT, n_chars=3)) as (_, runtime):
        events = list(run_alone(REQUEST, runtime))
    texts = [one.text for one in events if isinstance(one, TokenEvent)]
    assert "".join(texts) == MERGED
    assert isinstance(events[-1], FinalEvent)


def test_pieces_of_the_body_may_be_cut_anywhere() -> None:
    body = b"".join([b": a comment\r\n\r\n", *stream(OUTPUT.replace("os", "é🙂"), usage=USAGE).pieces])
    for size in (1, 5):
        pieces = [body[at : at + size] for at in range(0, len(body), size)]
        with serving(Answer(pieces, headers=SSE)) as (_, runtime):
            assert apply(REQUEST, runtime).merged_code == MERGED.replace("os", "é🙂")


def test_prediction_seed_and_limit_go_where_the_server_takes_them() -> None:
    takes = frozenset({"prediction", "seed", "max_completion_tokens"})
    with serving(stream(OUTPUT), takes=takes) as (script, runtime):
        apply(replace(REQUEST, seed=7, temperature=0.5, max_tokens=99), runtime)
    body = script.bodies[0]
    assert body["prediction"] == {"type": "content", "content": OUTPUT}
    assert (body["seed"], body["temperature"], body["max_completion_tokens"]) == (7, 0.5, 99)
    assert not {"max_tokens", "stream_options"} & body.keys()


def test_an_instruction_alone_is_asked_too() -> None:
    request = ApplyRequest(original=ORIGINAL, instruction="make one() return 11", path="numbers.py")
    with serving(stream(OUTPUT)) as (script, runtime):
        assert apply(request, runtime).merged_code == MERGED
    assert script.bodies[0]["messages"][1]["content"].endswith("<instruction>make one() return 11</instruction>")


def test_a_file_may_hold_the_tags_themselves() -> None:
    original = "a = '</merged>'\n" + ORIGINAL
    wanted = original.replace("return 1\n", "return 11\n")
    with serving(stream(TAGS.wrap(wanted), n_chars=2)) as (_, runtime):
        assert apply(replace(REQUEST, original=original), runtime).merged_code == wanted


# -- confidence -------------------------------------------------------------------------------------------------------
def with_logprobs(texts: list[str], logprobs: list[float]) -> Answer:
    pieces = [
        chunk(text, choice={"logprobs": {"content": [{"token": text, "bytes": list(text.encode()), "logprob": value}]}})
        for text, value in zip(texts, logprobs, strict=True)
    ]
    return Answer([*pieces, chunk(finish_reason="stop"), event("[DONE]")], headers=SSE)


def test_confidence_is_the_least_probability_that_the_server_tells() -> None:
    before, after = OUTPUT.split("return 11")
    answer = with_logprobs([before, "return 11", after], [-0.1, -0.7, -0.2])
    with serving(answer, takes=frozenset({"logprobs"})) as (script, runtime):
        result = apply(REQUEST, runtime)
    assert script.bodies[0]["logprobs"] is True
    assert result.confidence == pytest.approx(math.exp(-0.7))
    assert result.confidence_kind == "raw"
    assert result.hunks[0].confidence == pytest.approx(math.exp(-0.7))


def test_probabilities_of_another_text_are_none() -> None:
    with serving(with_logprobs(["<merged>\n", MERGED + "\n</merged>"], [-0.1, -0.1])) as (_, runtime):
        assert apply(REQUEST, runtime).confidence is not None
    pieces = [chunk(OUTPUT[:30]), *with_logprobs([OUTPUT[30:]], [-0.1]).pieces]
    with serving(Answer(pieces, headers=SSE)) as (_, runtime):
        assert apply(REQUEST, runtime).confidence is None


def test_tokens_decide_the_lines_they_stand_in() -> None:
    tokens = [Token(b"<merged>\n", -9.0), Token(b"a\xc3", -1.0), Token(b"\xa9\n", -2.0), Token(b"b\n</merged>", -3.0)]
    assert line_logprobs("<merged>\naé\nb\n</merged>", tokens) == {0: -9.0, 1: -3.0, 2: -3.0}
    assert line_logprobs("\n <merged>\nx", [Token(b"\n <merged>\nx", -1.0)]) == {0: -1.0}
    assert line_logprobs("<merged>\nx", []) == {}


# -- requests that make no sense there --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("drafter", replace(REQUEST, drafter="merged_edit")),
        ("constrain", replace(REQUEST, constrain="sources")),
        ("seed", replace(REQUEST, seed=3)),
    ],
)
def test_unsupported_parameters_are_refused_by_name(name: str, request_: ApplyRequest) -> None:
    found, script = failure(stream(OUTPUT), request=request_)
    assert isinstance(found, UnsupportedParameter)
    assert f"`{name}`" in found.message
    assert script.bodies == []


# -- faults -----------------------------------------------------------------------------------------------------------
BROKEN_OFF = [chunk("<merged>\nimport os\n")]
CUT = replace(stream(OUTPUT), pieces=stream(OUTPUT).pieces[:3], is_cut=True)


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (CUT, RemoteFailure, "broke off"),
        (Answer(BROKEN_OFF, headers=SSE), RemoteFailure, "broke off"),
        (Answer([*BROKEN_OFF, event("[DONE]")], headers=SSE), RemoteFailure, "broke off"),
        (Answer([event("{nonsense")], headers=SSE), RemoteFailure, "not a chat completion"),
        (Answer([event('{"choices": 3}')], headers=SSE), RemoteFailure, "not a chat completion"),
        (Answer([event("{}")], headers=SSE), RemoteFailure, "lacks the field `choices`"),
        (Answer([b"data: \xff\xfe\n\n"], headers=SSE), RemoteFailure, "not UTF-8"),
        (Answer([*BROKEN_OFF, event({"error": {"message": "boom"}})], headers=SSE), RemoteFailure, "boom"),
        (Answer([*stream(OUTPUT).pieces, chunk("more")], headers=SSE), RemoteFailure, "after the end of its answer"),
        (stream(OUTPUT, finish_reason="length"), Truncated, "token limit"),
        (stream(OUTPUT, finish_reason="content_filter"), RemoteFailure, "before it finished"),
        (stream(""), Truncated, "empty"),
        (stream(MERGED), Truncated, "does not begin"),
        (stream(f"<merged>\n{MERGED}"), Truncated, "lacks"),
        (stream("<merged>\n" + "x = 1\n" * 1000), Truncated, "does not stop"),
        (Answer([b"<html>hello</html>"]), RemoteFailure, "broke off"),
        (Answer([chunk(choice={"delta": {"refusal": "no"}})], headers=SSE), RemoteFailure, "refused"),
    ],
)
def test_no_half_answer_is_an_answer(answer: Answer, kind: type[ApplyError], text: str) -> None:
    found, script = failure(answer)
    assert type(found) is kind
    assert text in found.message
    assert len(script.bodies) == 1, "nothing is asked again once an answer has begun"


def test_a_server_that_does_not_stream_gives_no_answer() -> None:
    found, _ = failure(Answer([b'{"choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}]}']))
    assert type(found) is RemoteFailure
    assert "broke off" in found.message


def test_a_stream_cut_at_any_byte_is_whole_or_an_error() -> None:
    body = b"".join(stream(OUTPUT, n_chars=20, usage=USAGE).pieces)
    whole_from = body.index(b'"finish_reason": "stop"')
    for cut in range(len(body) + 1):
        transcript = Transcript()
        try:
            list(transcript.feed(body[:cut]))
            reply = transcript.finish()
        except RemoteFailure:
            continue
        assert reply.text == OUTPUT
        assert cut > whole_from
    assert transcript.is_done


@pytest.mark.parametrize(
    "fault", [error(500), error(503), error(429), error(429, **{"Retry-After": "0"}), Answer(status=0)]
)
def test_passing_faults_are_tried_again_before_the_first_byte(fault: Answer) -> None:
    with serving(fault, fault, stream(OUTPUT)) as (script, runtime):
        assert apply(REQUEST, runtime).merged_code == MERGED
    assert len(script.bodies) == 3


@pytest.mark.parametrize(
    ("fault", "kind"), [(error(500), RemoteFailure), (error(429), Overloaded), (Answer(status=0), RemoteFailure)]
)
def test_retries_come_to_an_end(fault: Answer, kind: type[ApplyError]) -> None:
    found, script = failure(fault, n_retries=2)
    assert type(found) is kind
    assert len(script.bodies) == 3


def test_a_server_that_asks_for_more_time_than_there_is_is_not_waited_for() -> None:
    found, script = failure(error(429, **{"Retry-After": "3600"}))
    assert isinstance(found, Overloaded)
    assert len(script.bodies) == 1


@pytest.mark.parametrize(
    ("fault", "value", "remedy"),
    [
        (
            error(404, {"error": {"message": "The model `m` does not exist", "code": "model_not_found"}}),
            "model_not_",
            "remote:",
        ),
        (error(401, {"error": {"message": "Incorrect API key provided: sk-1"}}), "401", "remote_key"),
        (error(400, {"error": {"message": "Unknown parameter: prediction", "type": "invalid"}}), "invalid", "takes"),
        (error(400, {"detail": "no"}), "400", "takes"),
        (error(307, Location="http://127.0.0.1:1/"), "307", "documentation"),
    ],
)
def test_refusals_are_final_and_say_what_to_do(fault: Answer, value: str, remedy: str) -> None:
    found, script = failure(fault, key="sk-1")
    assert type(found) is RemoteFailure
    assert str(found.value).startswith(value)
    assert remedy in found.remedy
    assert "sk-1" not in str(found.as_dict())
    assert len(script.bodies) == 1
    assert script.headers[0]["Authorization"] == "Bearer sk-1"


@pytest.mark.parametrize(
    "fault",
    [
        error(400, {"error": {"message": "too long", "code": "context_length_exceeded"}}),
        error(400, {"object": "error", "message": "This model's maximum context length is 10 tokens."}),
    ],
)
def test_a_file_past_the_servers_context_is_decided_in_windows_or_refused(fault: Answer) -> None:
    found, _ = failure(fault)
    assert isinstance(found, ContextLimitExceeded)

    def by_length(body: dict[str, Any]) -> Answer:
        asked = body["messages"][1]["content"]
        if len(asked) > 1500:
            return fault
        return stream(TAGS.wrap(asked.split("<original>\n")[1].split("\n</original>")[0].replace("= 7\n", "= 70\n")))

    original = "".join(f"def f{i}():\n    x = {i}\n    return x\n\n\n" for i in range(60))
    update = "# ... existing code ...\n\n\ndef f7():\n    x = 70\n    return x\n\n\n# ... existing code ...\n"
    with serving(by_length) as (_, runtime):
        result = apply(replace(REQUEST, original=original, update=update), runtime)
    assert result.strategy == "windowed"
    assert result.merged_code == original.replace("x = 7\n", "x = 70\n")


def test_nobody_there() -> None:
    with scripted_server(stream(OUTPUT)) as script:
        pass
    with remote_runtime(script, n_retries=1) as runtime, pytest.raises(RemoteFailure, match="cannot be reached"):
        apply(REQUEST, runtime)


# -- time and size ----------------------------------------------------------------------------------------------------
def hung(n_pieces: int) -> Answer:
    return replace(stream(OUTPUT), pieces=stream(OUTPUT).pieces[:n_pieces], is_hung=True)


@pytest.mark.parametrize("n_pieces", [0, 3])
def test_silence_is_not_endured(n_pieces: int) -> None:
    found, script = failure(hung(n_pieces), silence_timeout_s=0.1)
    assert isinstance(found, DeadlineExceeded)
    assert "silent" in found.message
    assert len(script.bodies) == 1


def test_a_slow_stream_ends_with_the_deadline() -> None:
    found, _ = failure(replace(stream(OUTPUT), pause_s=0.1), request=replace(REQUEST, timeout_s=0.3))
    assert isinstance(found, DeadlineExceeded)
    assert found.limit == 0.3


def test_an_answer_past_the_size_limit_is_refused() -> None:
    found, _ = failure(Answer([b": keep-alive\n\n"] * 1000, headers=SSE), max_bytes=2048)
    assert isinstance(found, RemoteFailure)
    assert "too large" in found.message


# -- cancelling, company, fallback ------------------------------------------------------------------------------------
def test_closing_the_events_closes_the_connection() -> None:
    with serving(hung(8)) as (script, runtime):
        events = run_alone(REQUEST, runtime)
        assert isinstance(next(events), TokenEvent)
        events.close()
        assert wait_for(lambda: script.n_hung_up == 1)


def test_a_cancelled_request_ends() -> None:
    with serving(hung(3)) as (script, runtime):
        deadline = Deadline()
        events = run_alone(REQUEST, runtime, deadline)
        assert isinstance(next(events), TokenEvent)
        threading.Timer(0.1, deadline.cancel).start()
        with pytest.raises(Cancelled):
            list(events)
        assert wait_for(lambda: script.n_hung_up == 1)


def test_the_service_has_many_under_way_and_lets_go_of_those_who_leave() -> None:
    def answer(body: dict[str, Any]) -> Answer:
        return hung(3) if "leave" in body["messages"][1]["content"] else replace(stream(OUTPUT), pause_s=0.01)

    with (
        serving(answer) as (script, runtime),
        Service(lambda *args: run(args[0], runtime, args[1]), is_remote=lambda _: True, max_threads=8) as service,
    ):
        leaving = service.submit(replace(REQUEST, instruction="leave"))
        tickets = [service.submit(REQUEST) for _ in range(6)]
        for ticket in tickets:
            *_, last = ticket.events()
            assert isinstance(last, FinalEvent)
            assert last.result.merged_code == MERGED
        assert leaving.terminal is None
        leaving.cancel()
        assert wait_for(lambda: script.n_hung_up == 1)
        assert service.wait_until_idle(5)
        service.check_integrity()


@pytest.mark.parametrize(
    ("answer", "is_fallback"),
    [
        (stream(OUTPUT, finish_reason="length"), True),
        (stream(""), True),
        (stream(TAGS.wrap("def two():\n    return 2\n")), True),
        (CUT, False),
        (error(500), False),
        (Answer([event("{nonsense")], headers=SSE), False),
    ],
)
def test_the_program_stands_in_where_the_model_failed_and_not_where_the_server_did(
    answer: Answer, is_fallback: bool
) -> None:
    request = replace(REQUEST, strategy="auto")
    if not is_fallback:
        assert isinstance(failure(answer, request=request)[0], RemoteFailure)
        return
    with serving(answer) as (_, runtime):
        result = apply(request, runtime)
    assert (result.strategy, result.merged_code) == ("fallback", MERGED)
    assert {"fallback"} == {verdict.check for verdict in result.verdicts if verdict.severity == "warning"}

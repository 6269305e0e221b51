"""`/v1/code/apply` over a scripted pipeline: every spelling, flat errors, OpenAI's stream."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient

from apply_service.api.app import create_app
from apply_service.errors import UnknownModel
from apply_service.service import Run, Service
from apply_service.settings import Settings
from apply_service.types import ApplyRequest, Verdict
from tests.doubles import ScriptedRun, make_result

PATH = "/v1/code/apply"
SNAKE = {"initial_code": "old\n", "edit_snippet": "new\n"}
CAMEL = {"initialCode": "old\n", "editSnippet": "new\n"}


@contextmanager
def client(run: Run, **settings: Any) -> Iterator[TestClient]:
    chosen = Settings(**settings)
    with Service(run, queue_limit=chosen.queue_limit) as service:
        yield TestClient(create_app(service, chosen), raise_server_exceptions=False)
        assert service.wait_until_idle(5)
        service.check_integrity()


@pytest.mark.parametrize("body", [SNAKE, CAMEL, {"initial_code": "old\n", "editSnippet": "new\n"}])
@pytest.mark.parametrize("word", ["instruction", "instructions"])
def test_every_spelling_is_read(body: dict[str, Any], word: str) -> None:
    run = ScriptedRun()
    more = {word: "I do.", "model": "relace-apply-3", "stream": False, "relace_metadata": {"trace_id": 1}}
    with client(run) as http:
        answer = http.post(PATH, json=body | more)
    assert answer.status_code == 200
    assert run.edits == [ApplyRequest(original="old\n", update="new\n", instruction="I do.", model="embedded")]


@pytest.mark.parametrize(
    "metadata", [{"file_path": "a.go"}, {"filePath": "a.go", "x": 1}, {"file_path": 1}, "a.go", None]
)
def test_the_metadata_may_name_the_file(metadata: Any) -> None:
    run = ScriptedRun()
    with client(run) as http:
        assert http.post(PATH, json=SNAKE | {"relace_metadata": metadata}).status_code == 200
        http.post(PATH, json=SNAKE | {"relace_metadata": metadata, "apply_service": {"path": "b.py"}})
    is_named = isinstance(metadata, dict) and "a.go" in metadata.values()
    assert [edit.path for edit in run.requests] == ["a.go" if is_named else None, "b.py"]


def test_the_answer_is_there_under_both_names() -> None:
    with client(ScriptedRun()) as http:
        answer = http.post(PATH, json=SNAKE).json()
        chat = http.post("/v1/chat/completions", json={"messages": [tagged()]}).json()
    assert (answer["mergedCode"], answer["merged_code"]) == ("new\n", "new\n")
    assert (answer["usage"], answer["apply_service"]) == (chat["usage"], chat["apply_service"])


def tagged() -> dict[str, str]:
    return {"role": "user", "content": "<code>old\n</code><update>new\n</update>"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "invalid_field"),
        ({"initialCode": "x"}, "invalid_field"),
        (CAMEL | {"initial_code": "y"}, "unknown_field"),
        (SNAKE | {"temperature": 0}, "unknown_field"),
        (SNAKE | {"initial_code": None}, "invalid_field"),
        (SNAKE | {"stream": 1}, "invalid_field"),
        (SNAKE | {"apply_service": {"x": 1}}, "unknown_field"),
    ],
)
def test_errors_are_flat(body: dict[str, Any], code: str) -> None:
    run = ScriptedRun()
    with client(run) as http:
        response = http.post(PATH, json=body)
    error = response.json()
    assert response.status_code == 422
    assert set(error) == {"error", "message", "code", "value", "limit", "remedy"}
    assert error["code"] == code
    assert isinstance(error["error"], str)
    assert error["error"].startswith(error["message"].rstrip("."))
    assert run.n_started == 0


def test_errors_of_pipeline_and_framework_are_flat_too() -> None:
    with client(ScriptedRun(error=UnknownModel("no such model", value="m", remedy="name another"))) as http:
        for stream in (False, True):
            response = http.post(PATH, json=SNAKE | {"stream": stream})
            assert response.status_code == 404
            assert response.json()["error"] == "no such model. Name another"
        assert http.get(PATH).json()["code"] == "method_not_allowed"
        assert http.post(PATH, content="{", headers={"content-type": "text/plain"}).json()["code"] == (
            "unsupported_media_type"
        )


def test_overload_says_how_much_is_left() -> None:
    gate = threading.Event()
    run = ScriptedRun(gate=gate)
    with client(run, queue_limit=1) as http:
        threads = [threading.Thread(target=http.post, args=(PATH,), kwargs={"json": SNAKE}) for _ in range(2)]
        threads[0].start()
        assert run.started.wait(5)
        threads[1].start()
        while http.get("/readyz").status_code == 200:
            pass
        response = http.post(PATH, json=SNAKE)
        gate.set()
        for thread in threads:
            thread.join()
    assert (response.status_code, response.json()["code"]) == (429, "overloaded")
    assert response.headers["retry-after"].isdigit()
    assert (response.headers["x-ratelimit-limit"], response.headers["x-ratelimit-remaining"]) == ("1", "0")
    assert response.headers["x-ratelimit-reset"].isdigit()


def test_a_finding_that_the_client_would_not_see_is_refused() -> None:
    run = ScriptedRun(result=make_result(verdicts=(Verdict("truncation", "error", "the end is missing"),)))
    with client(run) as http:
        for stream in (False, True):
            response = http.post(PATH, json=SNAKE | {"stream": stream})
            assert (response.status_code, response.json()["code"]) == (422, "check_failed")


def test_a_stream_is_openais_with_usage() -> None:
    with client(ScriptedRun()) as http:
        response = http.post(PATH, json=SNAKE | {"stream": True})
        usage = http.post(PATH, json=SNAKE).json()["usage"]
    *frames, done = response.text.removesuffix("\n\n").split("\n\n")
    chunks = [json.loads(frame.removeprefix("data: ")) for frame in frames]
    assert done == "data: [DONE]"
    assert "".join(c["delta"].get("content", "") for chunk in chunks for c in chunk["choices"]) == "new\n"
    assert chunks[-1]["usage"] == usage


def test_an_error_in_mid_stream_is_flat() -> None:
    body = SNAKE | {"stream": True, "apply_service": {"stream_at_once": True}}
    with client(ScriptedRun(tokens=("wrong",))) as http:
        last = http.post(PATH, json=body).text.removesuffix("\n\n").split("\n\n")[-1]
    error = json.loads(last.removeprefix("data: "))
    assert error["code"] == "stream_replaced"
    assert isinstance(error["error"], str)

"""`/v1/responses` over a scripted pipeline: the text, the events of a stream, refusals."""

import json
from typing import Any

import pytest

from apply_service.api.responses import EVENTS, PATH
from apply_service.formats.patch import PatchedFile, apply_changes
from apply_service.types import Verdict
from tests.api.openai_chats import TAGGED, client
from tests.doubles import ScriptedRun, make_result

USER = {"role": "user", "content": [{"type": "input_text", "text": TAGGED}]}
NEUTRAL = {"store": False, "tools": [], "text": {"format": {"type": "text"}}, "include": [], "metadata": {"a": "b"}}
NEUTRAL |= {"prompt_cache_key": "k", "safety_identifier": "s", "top_logprobs": 0, "max_tool_calls": 1, "prompt": None}


@pytest.mark.parametrize("asked", [TAGGED, [USER], [{"role": "system", "content": "Merge."}, USER]])
def test_a_text_comes_back(asked: Any) -> None:
    run = ScriptedRun()
    with client(run) as http:
        answer = http.post(PATH, json={"model": "auto", "input": asked, "instructions": "Merge.", **NEUTRAL}).json()
    assert (run.edits[0].original, run.edits[0].update, run.edits[0].instruction) == ("old\n", "new\n", "I do.")
    assert (answer["object"], answer["status"], answer["model"]) == ("response", "completed", "auto")
    assert [part["text"] for part in answer["output"][0]["content"]] == ["new\n"]
    assert {name: answer["usage"][name] for name in ("input_tokens", "output_tokens", "total_tokens")} == {
        "input_tokens": 20,
        "output_tokens": 6,
        "total_tokens": 26,
    }
    assert answer["apply_service"]["strategy"]


def test_a_client_that_declares_the_patch_tool_gets_a_call_of_it() -> None:
    asked = {"input": TAGGED, "tools": [{"type": "apply_patch"}], "apply_service": {"path": "a.py"}}
    with client(ScriptedRun(result=make_result(merged_code="new\n"))) as http:
        (call,) = http.post(PATH, json=asked).json()["output"]
        assert http.post(PATH, json=asked | {"stream": True}).status_code == 400
        (text,) = http.post(PATH, json=asked | {"tool_choice": "none"}).json()["output"]
    assert (call["type"], call["status"], call["operation"]["type"]) == ("apply_patch_call", "completed", "update_file")
    assert call["call_id"].startswith("call_")
    patch = f"*** Begin Patch\n*** Update File: a.py\n{call['operation']['diff']}*** End Patch\n"
    (patched,) = apply_changes(patch, {"a.py": "old\n"})
    assert isinstance(patched, PatchedFile)
    assert patched.text == "new\n"
    assert text["type"] == "message"


def test_the_tags_that_the_prompt_asks_for() -> None:
    with client(ScriptedRun()) as http:
        asked = {"input": TAGGED, "instructions": "Answer in <updated-code>."}
        answer = http.post(PATH, json=asked).json()
    assert answer["output"][0]["content"][0]["text"] == "<updated-code>new\n</updated-code>"


def test_a_stream_tells_the_text_in_openais_events() -> None:
    merged = "line\n" * 3000
    with client(ScriptedRun(result=make_result(merged_code=merged))) as http:
        text = http.post(PATH, json={"input": TAGGED, "stream": True}).text
    frames = [frame.split("\n") for frame in text.removesuffix("\n\n").split("\n\n")]
    events = [json.loads(data.removeprefix("data: ")) for _, data in frames]
    assert [name.removeprefix("event: ") for name, _ in frames] == [event["type"] for event in events]
    assert list(dict.fromkeys(event["type"] for event in events)) == list(EVENTS[:-1])
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    deltas = [event["delta"] for event in events if event["type"] == EVENTS[3]]
    assert len(deltas) > 1
    assert "".join(deltas) == merged
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == merged


def test_a_stream_at_once_whose_text_is_not_the_answer_ends_in_an_error() -> None:
    """The bug: the option was taken, and the text held back all the same."""
    asked = {"input": TAGGED, "stream": True, "apply_service": {"stream_at_once": True}}
    for merged, last in (("new\n", "response.completed"), ("other\n", "error")):
        with client(ScriptedRun(tokens=("ne", "w\n"), result=make_result(merged_code=merged))) as http:
            text = http.post(PATH, json=asked).text
        names = [frame.partition("\n")[0].removeprefix("event: ") for frame in text.removesuffix("\n\n").split("\n\n")]
        assert names.count("response.output_text.delta") == 2
        assert names[-1] == last


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"input": "Write a poem."}, "not_an_edit"),
        ({"input": [{"role": "assistant", "content": "x"}]}, "invalid_field"),
        ({"input": TAGGED, "previous_response_id": "resp_1"}, "invalid_field"),
        ({"input": TAGGED, "text": {"format": {"type": "json_schema"}}}, "invalid_field"),
        ({"input": TAGGED, "max_output_tokens": 5}, "truncated"),
        ({"input": TAGGED, "prompt": {"id": "pmpt_1"}}, "invalid_field"),
        ({"input": TAGGED, "bla": 1}, "unknown_field"),
    ],
)
def test_refusals(body: dict[str, Any], code: str, stream: bool) -> None:
    with client(ScriptedRun()) as http:
        response = http.post(PATH, json=body | {"stream": stream})
    assert (response.status_code, response.json()["error"]["code"]) == (400, code)
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_a_finding_that_the_client_would_not_see_is_refused() -> None:
    verdicts = (Verdict("marker_leak", "error", "a marker was written", (1, 1)),)
    with client(ScriptedRun(result=make_result(verdicts=verdicts))) as http:
        assert http.post(PATH, json={"input": TAGGED}).json()["error"]["code"] == "check_failed"

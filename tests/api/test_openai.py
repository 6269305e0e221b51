"""The OpenAI dialect over a scripted pipeline: requests read, answers as its clients expect, refusals."""

from typing import Any

import pytest

from apply_service.errors import StaleBase
from apply_service.types import ApplyRequest, OtherReading, Verdict
from tests.api.openai_chats import CHAT, CHAT_PATHS, MERCURY, PREDICTED, TAGGED, client
from tests.doubles import ScriptedRun, make_result


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


def test_a_header_says_that_the_code_is_anchored() -> None:
    run = ScriptedRun()
    table = '⟪MORPH_DEFINITIONS_BEGIN_0⟫\n⟪M0:0:line⟫="old"\n⟪MORPH_DEFINITIONS_END_0⟫\n⟪MORPH_CODE_BEGIN_0⟫\n'
    body = {"messages": [{"role": "user", "content": f"<code>{table}⟪M0:0:line⟫\n</code><update>new\n</update>"}]}
    with client(run) as http:
        for headers in ({"X-Morph-Apply-Context": "extralong"}, {}):
            assert http.post("/v1/chat/completions", json=body, headers=headers).status_code == 200
    assert [edit.original for edit in run.edits] == ["old\n", f"{table}⟪M0:0:line⟫\n"]


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
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "not_an_edit")
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
    [(None, None), ("embedded", "embedded"), ("auto", "embedded"), ("m-7b", "big")],
)
def test_model_names(asked: str | None, model: str | None) -> None:
    run = ScriptedRun()
    with client(run, model_aliases=("auto", "m-7b=big"), models=("big=/models/big",)) as http:
        http.post("/v1/chat/completions", json=CHAT | {"model": asked})
        http.post("/v1/apply", json={"original": "", "update": "x"} | ({} if asked is None else {"model": asked}))
    assert [request.model for request in run.requests] == [model, model]


def test_a_model_that_is_none_of_them_is_refused_with_all_names_aliases_too() -> None:
    run = ScriptedRun()
    with client(run, model_aliases=("auto", "m-7b=big"), models=("big=/models/big",)) as http:
        for path, body in (("/v1/chat/completions", CHAT), ("/v1/apply", {"original": "", "update": "x"})):
            answer = http.post(path, json=body | {"model": "gpt-4o"})
            assert answer.status_code == 404
            for name in ("gpt-4o", "embedded", "big", "auto", "m-7b"):
                assert name in answer.text
    assert run.requests == []


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
            assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("name", ["fastapply-1.5b", "morph-v3-fast"])
def test_a_model_that_is_not_served_is_answered_for_but_not_listed(name: str) -> None:
    run = ScriptedRun()
    with client(run) as http:
        assert name not in [card["id"] for card in http.get("/v1/models").json()["data"]]
        assert http.get(f"/v1/models/{name}").json()["alias_of"] == "embedded"
        assert http.post("/v1/chat/completions", json=CHAT | {"model": name}).status_code == 200
    assert [request.model for request in run.requests] == ["embedded"]
    with client(run, models=(f"{name}=/models/it",)) as http:
        assert name in [card["id"] for card in http.get("/v1/models").json()["data"]]


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


DEFAULTS = {
    "logprobs": None,
    "top_logprobs": 0,
    "tools": [],
    "tool_choice": "auto",
    "functions": None,
    "parallel_tool_calls": True,
    "response_format": {"type": "text"},
    "modalities": ["text"],
    "audio": None,
    "logit_bias": {},
    "store": False,
    "metadata": {"a": "b"},
    "moderation": None,
    "prompt_cache_options": {"mode": "implicit"},
    "prompt_cache_retention": "24h",
    "stream_options": {"include_usage": None, "include_obfuscation": False},
}
MEANT = {
    "logprobs": True,
    "top_logprobs": 3,
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "tool_choice": "required",
    "functions": [{"name": "f"}],
    "response_format": {"type": "json_object"},
    "modalities": ["text", "audio"],
    "logit_bias": {"50256": -100},
    "store": True,
    "moderation": {"model": "omni-moderation-latest"},
}


def test_openais_defaults_are_taken_and_change_nothing() -> None:
    run = ScriptedRun()
    with client(run) as http:
        for name, value in DEFAULTS.items():
            assert http.post("/v1/chat/completions", json=CHAT | {name: value}).status_code == 200, name
        answer = http.post("/v1/completions", json={"prompt": [TAGGED], "logprobs": None, "best_of": 1, "echo": False})
        assert answer.status_code == 200
    assert len({(edit.original, edit.update, edit.temperature, edit.seed) for edit in run.requests}) == 1


def test_marks_for_caches_on_the_parts_of_a_message_are_taken() -> None:
    part = {"type": "text", "text": TAGGED, "cache_control": {"type": "ephemeral"}, "prompt_cache_breakpoint": {}}
    run = ScriptedRun()
    with client(run) as http:
        body = {"model": "auto", "messages": [{"role": "user", "content": [part]}]}
        assert http.post("/v1/chat/completions", json=body).status_code == 200
    assert run.edits[0].update == "new\n"


def test_seeds_may_be_negative_as_openais() -> None:
    run = ScriptedRun()
    with client(run) as http:
        for seed in (-1, -(2**63), 2**63 - 1):
            assert http.post("/v1/chat/completions", json=CHAT | {"seed": seed}).status_code == 200
    assert [request.seed for request in run.requests] == [2**63 - 1, 0, 2**63 - 1]


@pytest.mark.parametrize("name", MEANT)
def test_what_would_change_the_answer_is_refused_by_name(name: str) -> None:
    with client(ScriptedRun()) as http:
        response = http.post("/v1/chat/completions", json=CHAT | {name: MEANT[name]})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_field")
    assert f"'{name}" in response.json()["error"]["message"]


def test_an_unknown_field_is_refused_by_name() -> None:
    with client(ScriptedRun()) as http:
        for path in CHAT_PATHS:
            response = http.post(path, json=CHAT | {"x": []})
            error = response.json()["error"]
            assert (response.status_code, error["code"], error["param"]) == (400, "unknown_field", "x")


@pytest.mark.parametrize("path", ["/v1/chat/completions/", "//v1/chat/completions", "//v1//chat/completions/"])
def test_a_slash_too_many_in_a_base_url(path: str) -> None:
    with client(ScriptedRun()) as http:
        assert http.post(f"http://testserver{path}", json=CHAT).status_code == 200


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 6}, "'n'"),
        ({"n": 0}, "'n'"),
        ({"n": "2"}, "'n'"),
        ({"seed": 2**63}, "'seed'"),
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
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_field")
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
    assert (response.status_code, response.json()["error"]["code"]) == (400, "not_an_edit")
    assert run.n_started == 0


def test_an_answer_with_more_tokens_than_allowed_is_refused() -> None:
    with client(ScriptedRun()) as http:
        for limit in ({"max_tokens": 5}, {"max_completion_tokens": 5}, {"max_tokens": 9, "max_completion_tokens": 5}):
            for stream in (False, True):
                response = http.post("/v1/chat/completions", json=CHAT | limit | {"stream": stream})
                error = response.json()["error"]
                assert (response.status_code, error["code"], error["value"], error["limit"]) == (400, "truncated", 6, 5)
        assert http.post("/v1/chat/completions", json=CHAT | {"max_tokens": 6}).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_finding_that_the_client_would_not_see_is_refused(stream: bool) -> None:
    verdicts = (Verdict("no_op", "warning", "same"), Verdict("marker_leak", "error", "a marker was written", (1, 1)))
    run = ScriptedRun(result=make_result(verdicts=verdicts))
    accepted = {"apply_service": {"on_verdict": {"marker_leak": "warn"}}}
    with client(run) as http:
        for path, body in (("/v1/chat/completions", CHAT), ("/v1/completions", {"prompt": TAGGED})):
            response = http.post(path, json=body | {"stream": stream})
            assert (response.status_code, response.json()["error"]["code"]) == (400, "check_failed")
            assert response.json()["error"]["value"] == ["marker_leak"]
            assert http.post(path, json=body | {"stream": stream} | accepted).status_code == 200


def test_a_doubt_that_is_refused_is_told_whole_with_the_readings() -> None:
    said = "line 3 may be meant; " * 30 + "to be sure of this one, show line 6"
    other = OtherReading("0123456789ab", 0.3, "keep line 3")
    result = make_result(
        verdicts=(Verdict("doubt", "error", said),), confidence=0.2, reading="a" * 12, readings=(other,)
    )
    with client(ScriptedRun(result=result)) as http:
        error = http.post("/v1/chat/completions", json=CHAT).json()["error"]
    assert said in error["message"]
    assert [one["id"] for one in error["readings"]] == ["a" * 12, "0123456789ab"]

"""`n` of the OpenAI dialect: the readings of an edit as choices."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

from apply_service.deadline import Deadline
from apply_service.errors import CheckFailed
from apply_service.types import ApplyEvent, ApplyRequest, Verdict
from tests.api.layers import ALICE, bearer, layered, write_keys
from tests.api.openai_chats import CHAT
from tests.api.test_batch import program_run
from tests.doubles import ScriptedRun, make_result

SCOPES = "".join(f"def {name}():\r\n    x = 1\r\n    return x\r\n\r\n\r\n" for name in ("first", "second", "third"))
UNCLEAR = "# ... existing code ...\n    x = 2\n    return x\n# ... existing code ...\n"
TAGGED = f"<code>{SCOPES}</code>\n<update>{UNCLEAR}</update>"
MERCURY = f"<|original_code|>\n{SCOPES}\n<|/original_code|>\n<|update_snippet|>\n{UNCLEAR}\n<|/update_snippet|>"
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": TAGGED}]},
    "/v1/apply/chat/completions": {"messages": [{"role": "user", "content": TAGGED}]},
    "/v1/apply/completions": {"messages": [{"role": "user", "content": MERCURY}]},
    "/v1/completions": {"prompt": TAGGED},
}
PYTHON = {"apply_service": {"path": "a.py"}}


def texts_of(answer: dict[str, Any]) -> list[str]:
    return [choice["text"] if "text" in choice else choice["message"]["content"] for choice in answer["choices"]]


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("n", [2, 3, 5])
def test_each_choice_is_the_whole_file_of_a_reading(path: str, n: int) -> None:
    with layered(program_run) as http:
        answer = http.post(path, json=BODIES[path] | PYTHON | {"n": n})
        request = {"original": SCOPES, "update": UNCLEAR, "path": "a.py"}
        native = [http.post("/v1/apply", json=request | {"reading": f"{i}"}) for i in range(1, n + 1)]
    assert answer.status_code == 200, answer.text
    wanted = [one.json()["merged_code"] for one in native if one.status_code == 200]
    assert len(wanted) == min(n, 4), "as many as there are"
    texts = texts_of(answer.json())
    assert [text.strip() for text in texts] == [text.strip() for text in wanted]
    assert [choice["index"] for choice in answer.json()["choices"]] == list(range(len(wanted)))
    assert {choice["finish_reason"] for choice in answer.json()["choices"]} == {"stop"}
    assert answer.headers["X-Apply-Doubt"].startswith("doubt: the shown lines fit")


def test_without_other_choices_a_doubt_refuses_as_ever() -> None:
    """So it does where one choice is asked for."""
    path, body = next(iter(BODIES.items()))
    doubt = Verdict("doubt", "error", "20% sure")
    alone = ScriptedRun(result=make_result(verdicts=(doubt,), confidence=0.2))
    with layered(alone) as http:
        refused = http.post(path, json=CHAT | {"n": 3})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "check_failed")
    with layered(program_run) as http:
        refused = http.post(path, json=body | PYTHON | {"n": 1})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "check_failed")


def test_an_edit_with_one_reading_has_one_choice() -> None:
    run = ScriptedRun()
    with layered(run) as http:
        answer = http.post("/v1/chat/completions", json=CHAT | {"n": 5})
    assert texts_of(answer.json()) == ["new\n"]
    assert len(run.requests) == 1


@pytest.mark.parametrize("is_raised", [True, False])
def test_a_reading_with_an_error_is_no_choice(is_raised: bool) -> None:
    """Of a check, or because the request wants one for a warning."""

    def run(request: ApplyRequest, deadline: Deadline) -> Generator[ApplyEvent]:
        for event in program_run(request, deadline):
            if request.reading is not None and "third" in event.result.merged_code.partition("x = 2")[0]:  # type: ignore[union-attr]
                if is_raised:
                    raise CheckFailed("syntax: it does not parse", value=["syntax"])
                broken = replace(event.result, verdicts=(Verdict("syntax", "error", "no"),))  # type: ignore[union-attr]
                event = replace(event, result=broken)  # type: ignore[call-arg]
            yield event

    path, body = next(iter(BODIES.items()))
    with layered(program_run) as http:
        whole = texts_of(http.post(path, json=body | PYTHON | {"n": 3}).json())
    with layered(run) as http:
        answer = http.post(path, json=body | PYTHON | {"n": 3}).json()
    assert texts_of(answer) == [text for text in whole if "third" not in text.partition("x = 2")[0]]
    assert len(answer["choices"]) == 2


@pytest.mark.parametrize("path", BODIES)
def test_a_stream_has_one_choice(path: str) -> None:
    with layered(program_run) as http:
        refused = http.post(path, json=BODIES[path] | {"n": 2, "stream": True})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "unsupported_parameter")
    with layered(ScriptedRun()) as http:
        assert http.post("/v1/chat/completions", json=CHAT | {"n": 1, "stream": True}).status_code == 200


def test_choices_count_against_the_rate_limit(tmp_path: Any) -> None:
    keys = write_keys(tmp_path, more="rate_limit = 4\n")
    with layered(ScriptedRun(), keys_file=keys) as http:
        codes = [
            http.post("/v1/chat/completions", json=CHAT | {"n": 3}, headers=bearer(ALICE)).status_code for _ in "ab"
        ]
    assert codes == [200, 429]

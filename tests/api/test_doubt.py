"""Answers in doubt, dialect by dialect: those whose clients see no verdict refuse what is more likely wrong than right,
and say why, and tell in headers how sure the rest is; a quote that is not found is answered with the lines that come
nearest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apply_service.api.openai import EVEN
from apply_service.cli import main
from apply_service.merge.rank.chooser import load
from apply_service.merge.rank.doubt import find_doubt
from apply_service.protocols import EditJob
from apply_service.types import Certainty, LineOp, Prediction, Reading, Verdict
from tests.api.layers import layered
from tests.api.test_batch import pipeline_run
from tests.batch.test_edits import block
from tests.doubles import ScriptedRun, make_result

FIRST = (LineOp("keep", 0, None, "a = 1"), LineOp("take", None, 0, "b = 2"))
OTHER = (LineOp("drop", 0, None, "a = 1"), LineOp("take", None, 0, "b = 2"))
FILE = "first = 1\nsecond = compute(1, 2)\nthird = 3\n"
LOST = block("second = compute(1, 3)\nthird = 4", "second = 2")


def doubted_run(chance: float) -> ScriptedRun:
    """A pipeline whose answer is right with this probability, with what the policy says of that."""
    prediction = Prediction(
        FIRST,
        ("b = 2",),
        Certainty.LIKELY,
        ("no anchor",),
        probability=chance,
        readings=(Reading(FIRST, {}, chance), Reading(OTHER, {}, 0.01)),
    )
    found = find_doubt(EditJob("a = 1", "b = 2", "", "a.py", "python", prediction), prediction.text)
    assert found is not None
    verdicts = (Verdict("no_op", "pass"), Verdict("syntax", "warning", "no \r\nX-Own: 1 \u2028 parse"), found)
    return ScriptedRun(tokens=(), result=make_result(verdicts=verdicts, confidence=chance))


def asked(original: str, update: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """The same edit in every dialect whose clients see no verdicts: path and body."""
    tagged = f"<code>{original}</code>\n<update>{update}</update>"
    mercury = f"<|original_code|>\n{original}<|/original_code|>\n<|update_snippet|>\n{update}<|/update_snippet|>"
    predicted = {"prediction": {"type": "content", "content": original}}
    return {
        "Morph": ("/v1/apply/chat/completions", {"messages": [{"role": "user", "content": tagged}]}),
        "Morph's and Relace's code apply": ("/v1/code/apply", {"initial_code": original, "edit_snippet": update}),
        "Relace": ("/v1/code/apply", {"initialCode": original, "editSnippet": update}),
        "OpenAI": ("/v1/chat/completions", {"messages": [{"role": "user", "content": update}], **predicted}),
        "completions": ("/v1/completions", {"prompt": tagged}),
        "Mercury": ("/v1/apply/completions", {"messages": [{"role": "user", "content": mercury}]}),
    }


DIALECTS = tuple(asked("", ""))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_that_is_more_likely_wrong_than_right_is_refused(dialect: str, stream: bool) -> None:
    path, body = asked("a = 1\n", "b = 2\n# ... existing code ...\n")[dialect]
    refuse = EVEN
    assert load().thresholds.refuse < EVEN, "below it the verdict is an error for everybody"
    with layered(doubted_run(refuse)) as http:
        answer = http.post(path, json=body | {"stream": stream})
    assert answer.status_code == 200
    assert answer.headers["X-Apply-Confidence"] == "0.5000"
    assert answer.headers["X-Apply-Doubt"].startswith("doubt: no anchor; ")
    assert answer.headers["X-Apply-Doubt"].endswith("; 50% sure; syntax: no ??X-Own: 1 ? parse")
    with layered(doubted_run(refuse - 0.01)) as http:
        refused = http.post(path, json=body | {"stream": stream})
        accepted = body | {"stream": stream, "apply_service": {"on_verdict": {"doubt": "warn"}}}
        assert http.post(path, json=accepted).status_code == 200
    assert refused.status_code == (422 if "code/apply" in path else 400)
    error = refused.json()
    if isinstance(error["error"], dict):
        error = error["error"]
    assert (error["code"], error["value"]) == ("check_failed", ["doubt"])
    assert "no anchor; " in error["message"]
    assert f"; {round(100 * (refuse - 0.01))}% sure" in error["message"]
    assert "another reading would remove line 1" in error["message"]
    assert '"on_verdict"' in error["remedy"]


@pytest.mark.parametrize(
    ("changes", "confidence"),
    [
        ({"confidence": None, "strategy": "exact", "certainty": Certainty.CERTAIN}, "1.0000"),
        ({"confidence": None, "strategy": "model"}, "unknown"),
        ({"confidence": None, "strategy": "exact", "certainty": Certainty.LIKELY}, "unknown"),
        ({"confidence": 0.98765, "strategy": "exact"}, "0.9877"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_without_a_doubt_says_so(
    dialect: str, stream: bool, changes: dict[str, object], confidence: str
) -> None:
    path, body = asked("a = 1\n", "b = 2\n# ... existing code ...\n")[dialect]
    with layered(ScriptedRun(tokens=(), result=make_result(verdicts=(), **changes))) as http:
        answer = http.post(path, json=body | {"stream": stream})
    assert (answer.headers["X-Apply-Confidence"], answer.headers["X-Apply-Doubt"]) == (confidence, "none")


def test_the_native_dialect_hands_out_the_answer_with_its_verdict() -> None:
    with layered(doubted_run(0.01)) as http:
        answer = http.post("/v1/apply", json={"original": "a = 1\n", "update": "b = 2\n"})
    assert answer.status_code == 200
    assert [(one["check"], one["severity"]) for one in answer.json()["verdicts"]][-1] == ("doubt", "error")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_quote_that_is_not_found_is_answered_with_the_nearest_lines(dialect: str) -> None:
    path, body = asked(FILE, LOST)[dialect]
    with layered(pipeline_run) as http:
        refused = http.post(path, json=body | {"apply_service": {"strategy": "exact"}})
    assert refused.status_code == (422 if "code/apply" in path else 400)
    error = refused.json()
    if isinstance(error["error"], dict):
        error = error["error"]
    assert error["code"] == "needs_more_context"
    assert "second = compute(1, 2)" in str(error)


LAZY = {
    "original": "app.get('/');\napp.listen(80);\n",
    "update": "// ...\napp.listen(8080);\n",
    "path": "app.js",
    "strategy": "exact",
}


@pytest.mark.parametrize("way", ["API", "command line"])
def test_the_percentage_of_a_doubt_is_the_answers_confidence(
    way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if way == "API":
        with layered(pipeline_run) as http:
            answer = http.post("/v1/apply", json=LAZY).json()
    else:
        (tmp_path / "app.js").write_text(LAZY["original"])
        (tmp_path / "edit.txt").write_text(LAZY["update"])
        main(["apply", str(tmp_path / "app.js"), str(tmp_path / "edit.txt"), "--strategy", "exact", "--json"])
        answer = json.loads(capsys.readouterr().out)
    (doubt,) = [one for one in answer["verdicts"] if one["check"] == "doubt"]
    assert doubt["message"].endswith(f"; {int(100 * answer['confidence'])}% sure")

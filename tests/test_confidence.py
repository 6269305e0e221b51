"""What an answer says of its own confidence: counted or raw, and of which kind."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from apply_service.api.app import create_app
from apply_service.engine.record import Calibration, ProbabilityMap
from apply_service.pipeline import apply, confidence_in, read_edit, run
from apply_service.service import Service
from apply_service.settings import Settings
from apply_service.strategies import Outcome
from apply_service.target import Runtime, Target
from apply_service.types import ApplyRequest, Verdict
from tests.fake_engine import FakeEngine, scripted
from tests.plain_bytes import END, N_VOCAB, PlainBytes

ORIGINAL = "import os\n\n\ndef one():\n    return 1\n\n\ndef two():\n    return 2\n"
UPDATE = "# ... existing code ...\n\ndef one():\n    return 11\n\n\ndef two():\n# ... existing code ...\n"
REQUEST = ApplyRequest(original=ORIGINAL, update=UPDATE, path="numbers.py", strategy="model")
PREDICTION = read_edit(REQUEST, "python").prediction
CALIBRATION = Calibration(
    weights_sha256="",
    threshold=0.5,
    answer=ProbabilityMap(0.0, {"agrees": 1.0}, ((0.0, 0.25), (1.0, 0.625))),
    hunk=ProbabilityMap(0.0, {"agrees": 1.0}, ((0.0, 0.5), (1.0, 0.75))),
)
RAW = math.exp(20) / (math.exp(20) + N_VOCAB - 1)
"""Of every choice of a target whose choice is 20 above all others."""


def runtime(calibration: Calibration | None) -> Runtime:
    job = read_edit(REQUEST, "python")
    logits = scripted(len(PlainBytes().encode_prompt(job)), [*job.prediction.text.encode(), END], N_VOCAB)
    target = Target("embedded", FakeEngine(logits, max_draft=255), PlainBytes(), calibration=calibration)
    return Runtime(load=lambda _: target)


def test_a_model_without_a_calibration_gives_raw_probabilities() -> None:
    result = apply(REQUEST, runtime(None))
    assert result.confidence_kind == "raw"
    assert result.confidence == pytest.approx(RAW, rel=1e-6)
    assert [hunk.confidence for hunk in result.hunks] == [pytest.approx(RAW, rel=1e-6)]


def test_a_calibrated_model_gives_what_was_counted() -> None:
    result = apply(REQUEST, runtime(CALIBRATION))
    assert (result.confidence_kind, result.confidence) == ("calibrated", 0.625)
    assert [hunk.confidence for hunk in result.hunks] == [0.75]


@pytest.mark.parametrize("change", [{"temperature": 0.5}, {"constrain": "none"}])
def test_what_was_not_counted_stays_raw(change: dict[str, Any]) -> None:
    result = apply(replace(REQUEST, **change), runtime(CALIBRATION))
    assert result.confidence_kind == "raw"
    assert result.confidence == pytest.approx(RAW, rel=1e-3)


def test_a_program_says_how_often_its_merge_is_right() -> None:
    result = apply(replace(REQUEST, strategy="exact"), runtime(CALIBRATION))
    assert (result.confidence, result.confidence_kind) == (PREDICTION.probability, "calibrated")


def test_findings_of_the_text_count() -> None:
    clean_only = replace(CALIBRATION, answer=ProbabilityMap(0.0, {"clean": 1.0}, ((0.0, 0.1), (1.0, 0.9))))
    target = runtime(clean_only).load("embedded").info
    outcome = Outcome("", "model", target=target, agreement=True, confidence=0.5)

    def answer(*checks: Verdict) -> float | None:
        return confidence_in(REQUEST, PREDICTION, outcome, checks).answer

    assert answer() == answer(Verdict("syntax", "pass")) == 0.9
    assert answer(Verdict("syntax", "pass"), Verdict("no_op", "warning")) == 0.1


def test_the_least_probabilities_have_a_confidence_too() -> None:
    by_odds = replace(CALIBRATION, answer=ProbabilityMap(0.0, {"log_odds": 1.0}))
    outcome = Outcome("", "model", target=runtime(by_odds).load("embedded").info, confidence=0.0)
    found = confidence_in(REQUEST, PREDICTION, outcome, ()).answer
    assert found is not None
    assert 0 < found < 0.001


def test_the_api_says_which() -> None:
    for calibration, kind in ((None, "raw"), (CALIBRATION, "calibrated")):
        chosen = runtime(calibration)
        with Service(lambda request, deadline, runtime=chosen: run(request, runtime, deadline)) as service:
            http = TestClient(create_app(service, Settings()))
            answer = http.post("/v1/apply", json={"original": ORIGINAL, "update": UPDATE, "strategy": "model"}).json()
        assert answer["confidence_kind"] == kind
        assert [hunk["confidence"] for hunk in answer["hunks"]] == [
            pytest.approx(0.75 if kind == "calibrated" else RAW, rel=1e-6)
        ]


def test_a_reading_that_the_caller_chose_has_no_confidence_nor_have_its_hunks() -> None:
    body = "    x = 1\n    y = 2\n    z = 3\n"
    original = "".join(f"def {name}():\n{body}\n\n" for name in "abc")
    marker = "# ... existing code ...\n"
    request = ApplyRequest(original=original, update=f"{marker}{body.replace('2', '20')}{marker}", path="m.py")
    program = replace(runtime(None), decides={"embedded": frozenset()})
    doubted = apply(request, program)
    assert [hunk.confidence for hunk in doubted.hunks] == [doubted.confidence]
    chosen = apply(replace(request, reading=doubted.readings[0].id), program)
    assert (chosen.confidence, [hunk.confidence for hunk in chosen.hunks]) == (None, [None])
    assert [verdict.check for verdict in chosen.verdicts if not verdict.is_pass] == []

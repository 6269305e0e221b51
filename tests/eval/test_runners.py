"""Our own service as a contestant: alone, and what goes wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apply_eval.runners import OwnService, RequestOptions, alone, request_of
from apply_service.errors import ContextLimitExceeded, EngineFailure, UnknownDrafter
from apply_service.pipeline import read_edit
from apply_service.target import Runtime, Target
from apply_service.text.fidelity import normalise
from apply_service.types import ApplyRequest, TokenEvent
from tests.eval.rows import record
from tests.fake_engine import ScriptedEngine
from tests.plain_bytes import END, PlainBytes

RECORD = record("a")
OPTIONS = RequestOptions(strategy="model")


def runtime(answer: str = RECORD.after) -> Runtime:
    """A target that writes `answer` to the one record."""
    prompt = PlainBytes().encode_prompt(read_edit(request_of(RECORD, OPTIONS), "python"))
    engine = ScriptedEngine([*normalise(answer).encode(), END], prompt_length=len(prompt))
    target = Target("embedded", engine, PlainBytes())
    return Runtime(load=lambda _: target)


def test_alone() -> None:
    answer = alone("merged_edit", runtime(), options=OPTIONS, drafter="merged_edit").answer(RECORD)
    assert answer.text == RECORD.after
    assert answer.n_tokens == len(RECORD.after) + 1
    assert answer.ttft_s is not None
    assert 0 < answer.ttft_s <= answer.latency_s
    assert (answer.strategy, answer.rejections) == ("model", answer.rejections)


def test_an_edit_may_be_asked_for_by_its_subject_alone() -> None:
    told = request_of(replace(RECORD, subject="rename x"), replace(OPTIONS, by_subject=True))
    assert (told.update, told.instruction) == ("", "rename x")
    shown = request_of(replace(RECORD, subject="rename x"), OPTIONS)
    assert (shown.update, shown.instruction) == (RECORD.update, "")


def test_the_drafter_that_was_asked_for_drafts() -> None:
    none = alone("none", runtime(), options=OPTIONS, drafter="none").answer(RECORD)
    drafted = alone("original", runtime(), options=OPTIONS, drafter="original").answer(RECORD)
    assert none.passes == none.n_tokens
    assert drafted.passes is not None
    assert none.passes is not None
    assert drafted.passes < none.passes
    assert set(drafted.accepted_by_source) <= {"original", "output"}
    with pytest.raises(UnknownDrafter):
        alone("x", runtime(), options=OPTIONS, drafter="x").answer(RECORD)


def test_findings_are_named_once() -> None:
    answer = alone("d", runtime(RECORD.before), options=OPTIONS, drafter="none").answer(RECORD)
    assert "no_op" in answer.findings
    assert len(set(answer.findings)) == len(answer.findings)


def test_events_that_end_without_an_answer_are_a_failure() -> None:
    runner = OwnService("x", lambda _: iter([TokenEvent("a")]), options=OPTIONS, drafter=None)
    with pytest.raises(EngineFailure):
        runner.answer(RECORD)


def test_refusals_go_through() -> None:
    def refuse(_: ApplyRequest):  # type: ignore[no-untyped-def]
        raise ContextLimitExceeded("too long")
        yield

    with pytest.raises(ContextLimitExceeded):
        OwnService("x", refuse, options=OPTIONS, drafter=None).answer(RECORD)


def test_requests_carry_what_the_run_was_told() -> None:
    options = RequestOptions(strategy="exact", constrain="none", seed=7, timeout_s=9.0)
    request = request_of(record("b", language="klingon"), options, drafter="original", model="m")
    assert (request.strategy, request.constrain, request.seed, request.timeout_s) == ("exact", "none", 7, 9.0)
    assert (request.drafter, request.model, request.language, request.path) == ("original", "m", None, "b.py")
    assert request_of(RECORD, options).language == "python"
    assert request_of(RECORD, options).temperature == 0.0

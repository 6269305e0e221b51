"""One request from parse to result, on a target without a network."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import pytest

from apply_service import deadline, pipeline
from apply_service.errors import (
    AlteredBytes,
    ApplyError,
    BadEncoding,
    Cancelled,
    CheckFailed,
    ContextLimitExceeded,
    DeadlineExceeded,
    EmptyUpdate,
    InstructionUnsupported,
    InvalidField,
    NulByte,
    StaleBase,
    Truncated,
    UnknownDrafter,
    UnknownEditFormat,
    UnknownModel,
    UnsupportedParameter,
)
from apply_service.pipeline import apply, is_there_already, read_edit, run_alone
from apply_service.protocols import Constraint, EditJob
from apply_service.target import Decider, Runtime, Target
from apply_service.types import ApplyRequest, FinalEvent, FinishReason, TokenEvent
from tests.clocks import set_clocks
from tests.doubles import CancelledWhen
from tests.fake_engine import FakeEngine, ScriptedEngine, scripted
from tests.plain_bytes import END, N_VOCAB, PlainBytes

ORIGINAL = "import os\n\n\ndef one():\n    return 1\n\n\ndef two():\n    return 2\n"
UPDATE = "# ... existing code ...\n\ndef one():\n    return 11\n\n\ndef two():\n# ... existing code ...\n"
MERGED = ORIGINAL.replace("return 1\n", "return 11\n")
REQUEST = ApplyRequest(original=ORIGINAL, update=UPDATE, path="numbers.py")
DIFF = "--- a/numbers.py\n+++ b/numbers.py\n@@ -4,2 +4,2 @@\n def one():\n-    return 1\n+    return 11\n"


def runtime_writing(answer: str, *, request: ApplyRequest = REQUEST) -> tuple[Runtime, FakeEngine]:
    """A target that writes `answer`, whatever the merger predicts."""
    prompt = PlainBytes().encode_prompt(read_edit(request, "python"))
    engine = ScriptedEngine([*answer.encode(), END], prompt_length=len(prompt))
    return Runtime(load=only("embedded", Target("embedded", engine, PlainBytes()))), engine


def only(name: str, target: Target) -> Callable[[str], Target]:
    def load(wanted: str) -> Target:
        if wanted != name:
            raise UnknownModel("no such model", value=wanted, limit=[name])
        return target

    return load


def no_model(name: str) -> Target:
    raise AssertionError(f"{name} was loaded for nothing")


def test_the_target_decides_and_the_answer_says_so() -> None:
    runtime, engine = runtime_writing(MERGED)
    result = apply(replace(REQUEST, strategy="model", diff=True), runtime)
    assert result.merged_code == MERGED
    assert (result.strategy, result.finish_reason, result.model) == ("model", FinishReason.STOP, "embedded")
    assert result.agreement is True
    assert (result.format, result.drafter) == ("lazy_snippet", "merged_edit+suffix")
    assert result.source_sha256 == hashlib.sha256(ORIGINAL.encode()).hexdigest()
    assert result.result_sha256 == hashlib.sha256(MERGED.encode()).hexdigest()
    assert [span.origin for span in result.spans] == ["original", "update", "original"]
    assert result.diff is not None
    assert "+    return 11" in result.diff
    assert result.stats.passes == 1
    assert engine.n_open == 0
    assert all(verdict.is_pass for verdict in result.verdicts)


def test_a_target_that_disagrees_wins_and_agreement_is_false() -> None:
    other = MERGED.replace("11", "111")
    runtime, _ = runtime_writing(other)
    result = apply(replace(REQUEST, strategy="model"), runtime)
    assert result.merged_code == other
    assert result.agreement is False
    assert result.spans[1].origin == "model"


@pytest.mark.parametrize("drafter", ["none", "original", "merged_edit"])
def test_every_pass_is_counted_with_its_source(drafter: str) -> None:
    runtime, _ = runtime_writing(MERGED.replace("11", "111"))
    stats = apply(replace(REQUEST, strategy="model", drafter=drafter), runtime).stats
    assert len(stats.pass_counts) == stats.passes
    assert sum(count.n_new for count in stats.pass_counts) == stats.completion_tokens
    assert sum(count.n_drafted for count in stats.pass_counts) == stats.drafted_tokens
    assert sum(count.n_accepted for count in stats.pass_counts) == stats.accepted_tokens
    assert sum(count.n_accepted < count.n_drafted for count in stats.pass_counts) == stats.rejections
    assert {count.source for count in stats.pass_counts if count.n_accepted} == set(stats.accepted_by_source)
    assert all((count.source == "") == (count.n_drafted == 0) for count in stats.pass_counts)


def test_streamed_text_is_the_answer_piece_by_piece() -> None:
    runtime, _ = runtime_writing(MERGED)
    events = list(run_alone(replace(REQUEST, strategy="model"), runtime))
    assert [type(event) for event in events[-1:]] == [FinalEvent]
    assert "".join(event.text for event in events if isinstance(event, TokenEvent)) == MERGED


@pytest.mark.parametrize("strategy", ["auto", "exact"])
def test_a_format_that_determines_the_result_needs_no_model(strategy: str) -> None:
    result = apply(replace(REQUEST, update=DIFF, strategy=strategy), Runtime(load=no_model))  # type: ignore[arg-type]
    assert result.merged_code == MERGED
    assert (result.strategy, result.format, result.model) == ("exact", "unified_diff", None)


OLD = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"


@pytest.mark.parametrize("strategy", ["auto", "exact"])
@pytest.mark.parametrize(
    "update",
    [
        ORIGINAL,
        f"# ... existing code ...\n\n{OLD}# ... existing code ...\n",
        "import os\n# ... existing code ...\ndef two():\n    return 2\n",
    ],
)
def test_an_edit_that_is_already_there_needs_no_model(update: str, strategy: str) -> None:
    request = replace(REQUEST, update=update, strategy=strategy)  # type: ignore[arg-type]
    result = apply(request, Runtime(load=no_model))
    assert (result.merged_code, result.strategy) == (ORIGINAL, "exact")
    assert [verdict.check for verdict in result.verdicts if not verdict.is_pass] == ["no_op"]


@pytest.mark.parametrize(
    "text", ['"""\n    title\n    ~~~~~\n"""\nimport os\n', DIFF, "Here is the code:\n\n```\na = 1\n```\n", "...\n"]
)
def test_the_whole_file_as_it_is_needs_no_model_whatever_it_looks_like(text: str) -> None:
    result = apply(ApplyRequest(text.replace("\n", "\r\n"), text), Runtime(load=no_model))
    assert (result.merged_code, result.strategy, result.certainty) == (text.replace("\n", "\r\n"), "exact", "certain")
    assert [verdict.check for verdict in result.verdicts if not verdict.is_pass] == ["no_op"]


MADE_BLOCK = "<<<<<<< SEARCH\ndef one():\n    return 1\n=======\ndef one():\n    return 11\n>>>>>>> REPLACE\n"


@pytest.mark.parametrize("strategy", ["auto", "exact"])
@pytest.mark.parametrize("update", [DIFF, MADE_BLOCK])
def test_a_hunk_that_is_made_already_needs_no_model(update: str, strategy: str) -> None:
    request = replace(REQUEST, original=MERGED, update=update, strategy=strategy)  # type: ignore[arg-type]
    result = apply(request, Runtime(load=no_model))
    assert (result.merged_code, result.strategy) == (MERGED, "exact")
    assert [verdict.check for verdict in result.verdicts if not verdict.is_pass] == ["doubt", "no_op"]


@pytest.mark.parametrize(
    ("update", "is_old"),
    [
        ("# ... existing code ...\n", False),
        ("def two():\n    return 2\n# ... existing code ...\nimport os\n", False),  # another order
        ("import os\ndef two():\n    return 2\n", False),  # with nothing between: what was there goes
        ("def one():\n    return 1\n# two is removed\n", False),
        ("turn 1\n", False),
        ("return 2\n", False),  # not as it stands there
        ("    return 2", True),
    ],
)
def test_an_edit_is_there_where_each_stretch_is(update: str, is_old: bool) -> None:
    assert is_there_already(update, ORIGINAL) is is_old


def test_strategy_model_asks_the_target_even_for_a_diff() -> None:
    request = replace(REQUEST, update=DIFF, strategy="model")
    runtime, _ = runtime_writing(MERGED, request=request)
    assert apply(request, runtime).strategy == "model"


def test_auto_falls_back_on_a_certain_merge_with_a_warning() -> None:
    runtime, _ = runtime_writing("def broken(:\n" + MERGED)
    result = apply(REQUEST, runtime)
    assert (result.strategy, result.merged_code) == ("fallback", MERGED)
    assert [v.severity for v in result.verdicts if v.check == "fallback"] == ["warning"]


def test_strategy_model_never_falls_back() -> None:
    broken = "def broken(:\n" + MERGED
    runtime, _ = runtime_writing(broken)
    result = apply(replace(REQUEST, strategy="model"), runtime)
    assert result.merged_code == broken
    assert any(v.check == "syntax" and v.severity == "error" for v in result.verdicts)


def test_a_verdict_can_be_made_to_fail() -> None:
    runtime, _ = runtime_writing("def broken(:\n" + MERGED)
    with pytest.raises(CheckFailed) as caught:
        apply(replace(REQUEST, strategy="model", on_verdict={"syntax": "fail"}), runtime)
    assert 'on_verdict {"syntax": "warn"}' in caught.value.remedy, "the error comes without verdicts to look at"


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_an_output_that_stops_early_is_truncated_not_a_success(share: float) -> None:
    original = ORIGINAL * 30
    request = replace(REQUEST, original=original, strategy="model", format="lazy_snippet")
    runtime, _ = runtime_writing(original[: int(len(original) * share)], request=request)
    with pytest.raises(Truncated):
        apply(request, runtime)
    assert apply(replace(request, on_verdict={"truncation": "warn"}), runtime).strategy == "model"


def test_a_fallback_says_nothing_good_of_the_rejected_text() -> None:
    runtime, _ = runtime_writing("def broken(:\n" + MERGED)
    result = apply(REQUEST, runtime)
    assert (result.strategy, result.agreement) == ("fallback", None)
    assert result.confidence == read_edit(REQUEST, "python").prediction.probability, "the merge's own"
    with pytest.raises(CheckFailed):
        apply(replace(REQUEST, on_verdict={"fallback": "fail"}), runtime)


def test_a_target_that_never_ends_falls_back_too() -> None:
    prompt = PlainBytes().encode_prompt(read_edit(REQUEST, "python"))
    engine = ScriptedEngine([65] * 5000, prompt_length=len(prompt))
    runtime = Runtime(load=only("embedded", Target("embedded", engine, PlainBytes())))
    assert apply(REQUEST, runtime).strategy == "fallback"
    with pytest.raises(Truncated):
        apply(replace(REQUEST, strategy="model"), runtime)


def instruction_findings(instruction: str, **changes: Any) -> list[str]:
    runtime, _ = runtime_writing(MERGED)
    result = apply(replace(REQUEST, instruction=instruction, **changes), runtime)
    return [verdict.message for verdict in result.verdicts if verdict.check == "instruction"]


@pytest.mark.parametrize("changes", [{"strategy": "exact"}, {"strategy": "model"}, {"update": DIFF}])
def test_an_instruction_beside_an_update_is_no_finding(changes: dict[str, Any]) -> None:
    assert instruction_findings("I am changing what one() returns", **changes) == []


@pytest.mark.parametrize("changes", [{"strategy": "exact"}, {"strategy": "model"}, {"update": DIFF}])
def test_an_order_of_the_instruction_that_the_result_lacks_is_said(changes: dict[str, Any]) -> None:
    (said,) = instruction_findings("Change one() and remove two()", **changes)
    assert said == "the instruction says to remove `two`, which the result still has"


def test_line_ends_come_back() -> None:
    crlf = ORIGINAL.replace("\n", "\r\n")
    request = replace(REQUEST, original=crlf, strategy="model")
    runtime, _ = runtime_writing(MERGED, request=request)
    assert apply(request, runtime).merged_code == MERGED.replace("\n", "\r\n")


def test_a_new_file_is_its_snippet() -> None:
    result = apply(ApplyRequest(original="", update="x = 1\n", path="new.py"), Runtime(load=no_model))
    assert (result.merged_code, result.strategy) == ("x = 1\n", "exact")


BAD: list[tuple[dict[str, object], type[ApplyError], object]] = [
    ({"update": "  \n"}, EmptyUpdate, "  \n"),
    ({"update": "a\0b"}, NulByte, 1),
    ({"original": "\0"}, NulByte, 0),
    ({"drafter": "psychic"}, UnknownDrafter, "psychic"),
    ({"format": "telepathy"}, UnknownEditFormat, "telepathy"),
    ({"model": "gpt-9"}, UnknownModel, "gpt-9"),
    ({"base_sha256": "00"}, StaleBase, "00"),
    ({"model": "gpt-9", "update": DIFF}, UnknownModel, "gpt-9"),
    ({"strategy": "hope"}, InvalidField, "hope"),
    ({"constrain": "vibes"}, InvalidField, "vibes"),
    ({"temperature": 99.0}, InvalidField, 99.0),
    ({"max_tokens": 0}, InvalidField, 0),
    ({"update": "x\udc00"}, BadEncoding, "update"),
    ({"on_verdict": {"vibes": "fail"}}, InvalidField, ["vibes"]),
    ({"update": "", "instruction": "make it faster"}, InstructionUnsupported, "make it faster"),
    (
        {"update": "", "instruction": "make it faster", "strategy": "exact"},
        InstructionUnsupported,
        "make it faster",
    ),
]


@pytest.mark.parametrize(
    ("fields", "error", "value"), BAD, ids=[e.__name__ + str(i) for i, (_, e, _) in enumerate(BAD)]
)
def test_bad_input_is_a_typed_error(fields: dict[str, object], error: type[ApplyError], value: object) -> None:
    runtime, engine = runtime_writing(MERGED)
    with pytest.raises(error) as caught:
        apply(replace(REQUEST, **fields), runtime)  # type: ignore[arg-type]
    assert caught.value.value == value
    assert engine.n_open == 0


class Unconstrained(PlainBytes):
    """A format whose vocabulary can't be held to the sources."""

    def constraint(self, job: EditJob) -> Constraint | None:
        return None


class Instructed(PlainBytes):
    takes_instructions = True


@pytest.mark.parametrize(
    ("prompt_format", "instruction"),
    [(Unconstrained(), ""), (Instructed(), "name it better")],
    ids=["can't", "told to write"],
)
def test_a_constraint_that_cannot_hold_is_refused(prompt_format: PlainBytes, instruction: str) -> None:
    engine = FakeEngine(scripted(1, [END], N_VOCAB))
    runtime = Runtime(load=only("embedded", Target("embedded", engine, prompt_format)))
    with pytest.raises(UnsupportedParameter) as caught:
        apply(replace(REQUEST, constrain="sources", strategy="model", instruction=instruction), runtime)
    assert (caught.value.value, engine.n_open) == ("sources", 0)


def test_a_target_held_to_the_sources_writes_nothing_else() -> None:
    """Whatever it would rather write."""
    prompt = PlainBytes().encode_prompt(read_edit(REQUEST, "python"))
    wish = MERGED.replace("import os", "import sys")
    engine = FakeEngine(scripted(len(prompt), [*wish.encode(), END], N_VOCAB), context_limit=4_000)
    runtime = Runtime(load=only("embedded", Target("embedded", engine, PlainBytes())))
    free = apply(replace(REQUEST, constrain="none", strategy="model"), runtime)
    assert "import sys" in free.merged_code
    held = apply(replace(REQUEST, constrain="sources", strategy="model"), runtime)
    assert set(held.merged_code.split("\n")) <= {*ORIGINAL.split("\n"), *MERGED.split("\n")}


def test_a_right_base_is_accepted() -> None:
    runtime, _ = runtime_writing(MERGED)
    digest = hashlib.sha256(ORIGINAL.encode()).hexdigest().upper()
    assert apply(replace(REQUEST, base_sha256=digest, strategy="model"), runtime).merged_code == MERGED


def test_reaching_the_limit_is_an_error_not_half_a_file() -> None:
    runtime, engine = runtime_writing(MERGED)
    with pytest.raises(Truncated) as caught:
        apply(replace(REQUEST, max_tokens=20, strategy="model"), runtime)
    assert (caught.value.value, caught.value.limit) == (20, 20)
    assert engine.n_open == 0


def test_over_the_context_is_an_error_before_any_pass() -> None:
    engine = FakeEngine(scripted(1, [END], N_VOCAB), context_limit=100)
    runtime = Runtime(load=only("embedded", Target("embedded", engine, PlainBytes())))
    with pytest.raises(ContextLimitExceeded):
        apply(replace(REQUEST, strategy="model"), runtime)
    assert engine.n_steps == 0
    result = apply(REQUEST, runtime)
    assert (result.strategy, result.merged_code, result.model) == ("fallback", MERGED, None)
    assert any(v.check == "fallback" and "context" in v.message for v in result.verdicts)


def test_deadline_and_cancellation_free_the_session() -> None:
    runtime, engine = runtime_writing(MERGED)
    with pytest.raises(DeadlineExceeded):
        apply(replace(REQUEST, timeout_s=0.0, strategy="model"), runtime)
    with pytest.raises(Cancelled):
        list(run_alone(replace(REQUEST, strategy="model"), runtime, CancelledWhen(lambda: True)))
    assert engine.n_open == 0


@pytest.mark.parametrize("stage", ["read_edit", "finish"])
def test_parsing_and_merging_are_within_the_deadline(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now, real = [1000.0], getattr(pipeline, stage)

    def slow(*arguments: Any) -> Any:
        now[0] += 20
        return real(*arguments)

    set_clocks(monkeypatch, pipeline, deadline, monotonic=lambda: now[0], perf_counter=lambda: now[0])
    monkeypatch.setattr(pipeline, stage, slow)
    runtime, _ = runtime_writing(MERGED)
    with pytest.raises(DeadlineExceeded) as caught:
        apply(replace(REQUEST, timeout_s=10.0), runtime)
    assert (caught.value.value, caught.value.limit) == (10.0, 10.0)
    apply(replace(REQUEST, timeout_s=30.0), runtime)


def test_loading_a_model_is_not_within_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    runtime, _ = runtime_writing(MERGED)

    def load(name: str) -> Decider:
        now[0] += 60
        return runtime.load(name)

    set_clocks(monkeypatch, pipeline, deadline, monotonic=lambda: now[0], perf_counter=lambda: now[0])
    once = cache(load)
    result = apply(replace(REQUEST, strategy="model", timeout_s=10.0), replace(runtime, load=once))
    assert result.strategy == "model"


@pytest.mark.parametrize("late", ["text_hunks", "unified_diff_text", "confident_hunks"])
def test_every_stage_counts_into_the_times(late: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now, real = [0.0], getattr(pipeline, late)

    def slow(*arguments: Any) -> Any:
        now[0] += 5
        return real(*arguments)

    runtime, _ = runtime_writing(MERGED)
    clock = time.perf_counter
    set_clocks(monkeypatch, pipeline, perf_counter=lambda: clock() + now[0])
    monkeypatch.setattr(pipeline, late, slow)
    times = apply(replace(REQUEST, diff=True), runtime).timings_s
    assert times["total_s"] >= times["answer_s"] >= 5


def test_closing_the_generator_frees_the_session() -> None:
    runtime, engine = runtime_writing(MERGED * 200)
    request = replace(REQUEST, strategy="model", drafter="none")
    events = run_alone(request, runtime)
    next(events)
    assert engine.n_open == 1
    events.close()
    assert engine.n_open == 0


# -- bytes -------------------------------------------------------------------------------------------------------------
MARKED_DIFF = "--- a/f.py\n+++ b/f.py\n@@ -1,2 +1,2 @@\n-\ufeffa = 1\n+\ufeffa = 2\n b = 1\n"


@pytest.mark.parametrize(("mark", "encoding"), [("\ufeff", "utf-8"), ("", "utf-8-sig")])
def test_the_byte_order_mark_of_a_diff_is_the_file_s(mark: str, encoding: str) -> None:
    request = ApplyRequest(f"{mark}a = 1\nb = 1\n", MARKED_DIFF, path="f.py", encoding=encoding, strategy="exact")
    result = apply(request, Runtime(load=no_model))
    assert result.merged_code == f"{mark}a = 2\nb = 1\n"
    assert result.result_sha256 == hashlib.sha256("\ufeffa = 2\nb = 1\n".encode()).hexdigest()
    assert result.certainty == "certain"


def test_a_diff_changes_the_line_ends_that_it_says() -> None:
    request = ApplyRequest("a\r\nb\r\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+b\n", strategy="exact")
    assert apply(request, Runtime(load=no_model)).merged_code == "a\r\nb\n"


@pytest.mark.parametrize("strategy", ["exact", "model"])
def test_no_strategy_alters_bytes_outside_the_edit(
    strategy: Literal["exact", "model"], monkeypatch: pytest.MonkeyPatch
) -> None:
    restore = pipeline.restore
    monkeypatch.setattr(pipeline, "restore", lambda *given: restore(*given).replace("import os\n", "import os\r\n"))
    with pytest.raises(AlteredBytes) as refused:
        apply(replace(REQUEST, strategy=strategy), runtime_writing(MERGED)[0])
    assert refused.value.value == 1

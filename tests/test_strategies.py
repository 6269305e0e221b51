"""Who decides, row by row of the table in docs/how-it-works.md, and what the answer says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from apply_service.engine.record import KINDS, Calibration, Kind, ProbabilityMap, Thresholds
from apply_service.errors import InstructionUnsupported, NeedsMoreContext, Truncated
from apply_service.merge.regions import cut_job, find_regions
from apply_service.pipeline import apply, read_edit, run_alone
from apply_service.prompts.constraint import Masks
from apply_service.protocols import Constraint, EditJob, StopFinder, TokenSet
from apply_service.strategies import kind_of
from apply_service.target import Runtime, Target
from apply_service.types import ApplyRequest, Certainty, FinalEvent, TokenEvent
from tests.fake_engine import FakeEngine, ScriptedEngine, scripted
from tests.plain_bytes import END, N_VOCAB, PlainBytes

ORIGINAL = "import os\n\n\ndef one():\n    return 1\n\n\ndef two():\n    return 2\n"
MERGED = ORIGINAL.replace("return 1\n", "return 11\n")
CERTAIN = ApplyRequest(
    original=ORIGINAL,
    update="# ... existing code ...\n\ndef one():\n    return 11\n\n\ndef two():\n# ... existing code ...\n",
    path="numbers.py",
)
LIKELY = replace(CERTAIN, update="def one():\n    return 11\n")
GUESS = replace(CERTAIN, update="x = 1\n")
DETERMINED = replace(CERTAIN, update="@@ -4,2 +4,2 @@\n def one():\n-    return 1\n+    return 11\n")


def job_of(request: ApplyRequest) -> EditJob:
    return read_edit(request, "python")


def wanting(text: str, request: ApplyRequest, *, margin: float = 20.0, **facts: object) -> tuple[Runtime, FakeEngine]:
    """A target that wants to write `text`."""
    n_prompt = len(PlainBytes().encode_prompt(job_of(request)))
    engine = FakeEngine(scripted(n_prompt, [*text.encode(), END], N_VOCAB, margin=margin))
    target = Target("embedded", engine, PlainBytes(), **facts)  # type: ignore[arg-type]
    return Runtime(load=lambda _: target), engine


def no_model(name: str) -> Target:
    raise AssertionError(f"{name} was loaded for nothing")


@pytest.mark.parametrize(
    ("request_", "certainty"), [(CERTAIN, "certain"), (LIKELY, "likely"), (GUESS, "guess"), (DETERMINED, "certain")]
)
def test_the_edits_of_this_page_are_what_they_are_called(request_: ApplyRequest, certainty: str) -> None:
    assert job_of(request_).prediction.certainty == certainty


# -- exact -------------------------------------------------------------------------------------------------------------
def test_exact_where_the_format_leaves_no_choice() -> None:
    result = apply(DETERMINED, Runtime(load=no_model))
    assert (result.strategy, result.merged_code, result.model) == ("exact", MERGED, None)


def test_exact_by_request_but_a_guess_is_refused() -> None:
    assert apply(replace(LIKELY, strategy="exact"), Runtime(load=no_model)).strategy == "exact"
    with pytest.raises(NeedsMoreContext, match="nothing says where the code goes"):
        apply(replace(GUESS, strategy="exact"), Runtime(load=no_model))


# -- confirmed ---------------------------------------------------------------------------------------------------------
def test_a_certain_merge_is_confirmed_by_one_scoring_pass() -> None:
    runtime, engine = wanting(MERGED, CERTAIN, margin=8.0)
    events = list(run_alone(CERTAIN, replace(runtime, confirm_threshold=0.5)))
    assert not [event for event in events if isinstance(event, TokenEvent)]
    assert isinstance(events[-1], FinalEvent)
    result = events[-1].result
    assert (result.strategy, result.merged_code, result.model) == ("confirmed", MERGED, "embedded")
    assert (result.agreement, result.drafter, result.certainty) == (True, None, Certainty.CERTAIN)
    n_tokens = len(MERGED.encode()) + 1
    stats = result.stats
    passes = -(-n_tokens // 64) + 1  # the first shares its rows with the prompt
    assert (stats.completion_tokens, stats.rejections, stats.passes, engine.n_steps) == (n_tokens, 0, passes, passes)
    assert engine.n_open == 0
    assert result.confidence == job_of(CERTAIN).prediction.probability
    assert [hunk.confidence for hunk in result.hunks] == [pytest.approx(result.confidence, abs=0.03)]


def test_a_target_that_thinks_otherwise_decides_token_by_token() -> None:
    other = MERGED.replace("11", "12")
    runtime, engine = wanting(other, CERTAIN)
    result = apply(CERTAIN, runtime)
    assert (result.strategy, result.merged_code, result.agreement) == ("model", other, False)
    assert result.drafter == "merged_edit+suffix"
    n_tokens, stats = len(other.encode()) + 1, result.stats
    assert stats.completion_tokens == n_tokens
    assert stats.drafted_tokens > stats.accepted_tokens + n_tokens - 2, "what was scored counts as drafted for nothing"
    assert stats.prompt_tokens == len(PlainBytes().encode_prompt(job_of(CERTAIN)))
    assert len(stats.pass_counts) == stats.passes
    assert engine.n_open == 0


def test_the_threshold_says_how_little_a_target_must_think_of_it() -> None:
    runtime, _ = wanting(MERGED.replace("11", "12"), CERTAIN)
    assert apply(CERTAIN, replace(runtime, confirm_threshold=0.0)).strategy == "confirmed"
    assert apply(CERTAIN, replace(runtime, confirm_threshold=1e-12)).strategy == "confirmed"
    assert apply(CERTAIN, replace(runtime, confirm_threshold=1e-6)).strategy == "model"


class EndsInItsText(PlainBytes):
    """Its output is complete at the last byte of the text, as with a closing tag; the end token is never written."""

    def stop_finder(self, job: EditJob) -> StopFinder:
        n_left = len(job.prediction.text.encode())

        def find(new_ids: Sequence[int]) -> int | None:
            nonlocal n_left
            n_left -= len(new_ids)
            return len(new_ids) + n_left - 1 if n_left <= 0 else None

        return find

    def decode_output(self, ids: Sequence[int]) -> str:
        assert END not in ids
        return self.decode(ids)


def test_a_text_that_is_complete_before_its_end_token_is_scored() -> None:
    runtime, engine = wanting(MERGED, CERTAIN, margin=8.0)
    target = Target("embedded", engine, EndsInItsText())
    result = apply(CERTAIN, replace(runtime, load=lambda _: target, confirm_threshold=0.5))
    assert (result.strategy, result.merged_code) == ("confirmed", MERGED)
    assert result.stats.completion_tokens == len(MERGED.encode())


@pytest.mark.parametrize(("confirm", "strategy"), [(1e-12, "confirmed"), (1e-6, "model")])
def test_a_calibrated_model_brings_its_own_threshold(confirm: float, strategy: str) -> None:
    chance = ProbabilityMap(0.0, {})
    calibration = Calibration("0" * 64, 0.9, chance, chance, Thresholds(confirm=confirm))
    runtime, _ = wanting(MERGED.replace("11", "12"), CERTAIN, calibration=calibration)
    assert apply(CERTAIN, runtime).strategy == strategy
    assert apply(CERTAIN, replace(runtime, confirm_threshold=0.0)).strategy == "confirmed", "a setting overrides it"


def test_a_merge_that_the_target_may_not_write_is_decided_token_by_token() -> None:
    class Forbidding(PlainBytes):
        """Lets no output hold the digit 1."""

        constrains_by_default = True

        def constraint(self, job: EditJob) -> Constraint:
            return NoOnes()

    n_prompt = len(PlainBytes().encode_prompt(job_of(CERTAIN)))
    engine = FakeEngine(scripted(n_prompt, [*ORIGINAL.replace("1", "2").encode(), END], N_VOCAB, margin=20.0))
    target = Target("embedded", engine, Forbidding())
    assert apply(CERTAIN, Runtime(load=lambda _: target)).strategy == "model"


class NoOnes(Masks[None]):
    def __init__(self) -> None:
        super().__init__(None)

    def allowed(self, state: None) -> TokenSet:
        return np.array([token for token in range(N_VOCAB) if token != ord("1")], dtype=np.int64)

    def advance(self, state: None, token: int) -> None: ...


# -- a merge that is not certain ---------------------------------------------------------------------------------------
def test_a_likely_merge_that_the_target_would_write_is_confirmed() -> None:
    runtime, engine = wanting(MERGED, LIKELY)
    result = apply(LIKELY, runtime)
    assert (result.strategy, result.merged_code, result.agreement) == ("confirmed", MERGED, True)
    assert engine.n_steps == -(-(len(MERGED.encode()) + 1) // 64) + 1, "the merge alone was scored"


def test_a_target_that_wants_another_text_decides_token_by_token() -> None:
    other = MERGED.replace("11", "13")
    runtime, _ = wanting(other, LIKELY)
    result = apply(LIKELY, runtime)
    assert (result.strategy, result.merged_code) == ("model", other)
    assert apply(LIKELY, replace(runtime, choose_threshold=0.0)).strategy == "confirmed"


# -- model -------------------------------------------------------------------------------------------------------------
def test_a_guess_is_no_more_than_a_draft() -> None:
    merged = job_of(GUESS).prediction.text
    runtime, engine = wanting(merged, GUESS)
    assert apply(GUESS, runtime).strategy == "model"
    assert engine.n_steps == -(-(len(merged.encode()) + 1) // 64), "nothing was scored beforehand"


@pytest.mark.parametrize(
    "changes", [{"strategy": "model"}, {"temperature": 0.5}, {"max_tokens": 10_000, "strategy": "model"}]
)
def test_token_by_token_where_the_request_asks_for_it(changes: dict[str, object]) -> None:
    runtime, _ = wanting(MERGED, CERTAIN)
    result = apply(replace(CERTAIN, **changes), runtime)  # type: ignore[arg-type]
    assert (result.strategy, result.merged_code, result.drafter) == ("model", MERGED, "merged_edit+suffix")


def test_token_by_token_where_the_engine_knows_no_probabilities() -> None:
    n_prompt = len(PlainBytes().encode_prompt(job_of(CERTAIN)))
    target = Target("embedded", ScriptedEngine([*MERGED.encode(), END], prompt_length=n_prompt), PlainBytes())
    assert apply(CERTAIN, Runtime(load=lambda _: target)).strategy == "model"


def test_a_merge_past_the_limit_of_tokens_is_not_scored() -> None:
    runtime, _ = wanting(MERGED, CERTAIN)
    with pytest.raises(Truncated):
        apply(replace(CERTAIN, max_tokens=10, on_verdict={}), runtime)
    assert apply(replace(CERTAIN, max_tokens=len(MERGED.encode()) + 1), runtime).strategy == "confirmed"


# -- windowed ----------------------------------------------------------------------------------------------------------
LONG = "\n".join(f"def f{i}(x):\n    y = x + {i}\n    return y\n\n" for i in range(60))
LONG_CERTAIN = replace(
    CERTAIN,
    original=LONG,
    update="".join(f"# ...\ndef f{i}(x):\n    y = x * {i}\n    return y\n" for i in (20, 50)) + "# ...\n",
)
LONG_LIKELY = replace(LONG_CERTAIN, update="# ...\ndef f20(x):\n    y = x * 20\n# ...\n")


def knowing(request: ApplyRequest) -> Runtime:
    """A target that wants the merge of every part."""
    job = job_of(request)
    parts = [job, *(cut_job(job, region) for region in find_regions(job.prediction, job.original, "python"))]
    answers = [(PlainBytes().encode_prompt(one), [*one.prediction.text.encode(), END]) for one in parts]

    def logits(ids: Sequence[int]) -> npt.NDArray[np.float32]:
        row = np.zeros(N_VOCAB, np.float32)
        prompt, answer = next((p, a) for p, a in answers if list(ids[: len(p)]) == p)
        row[answer[min(len(ids) - len(prompt), len(answer) - 1)]] = 20.0
        return row

    target = Target("embedded", FakeEngine(logits, max_draft=255), PlainBytes())
    return Runtime(load=lambda _: target, windows="always")


def test_regions_of_a_certain_merge_are_confirmed_and_listed() -> None:
    result = apply(LONG_CERTAIN, knowing(LONG_CERTAIN))
    assert job_of(LONG_CERTAIN).prediction.certainty is Certainty.CERTAIN
    assert (result.strategy, len(result.windows), result.agreement) == ("confirmed", 2, True)
    assert result.merged_code == LONG.replace("x + 20\n", "x * 20\n").replace("x + 50\n", "x * 50\n")


def test_regions_of_a_likely_merge_are_confirmed_too() -> None:
    runtime = knowing(LONG_LIKELY)
    result = apply(LONG_LIKELY, runtime)
    assert (result.strategy, len(result.windows)) == ("confirmed", 1)
    assert result.drafter is None
    decided = apply(replace(LONG_LIKELY, strategy="model"), runtime)
    assert (decided.strategy, decided.drafter) == ("windowed", "merged_edit+suffix")


# -- fallback ----------------------------------------------------------------------------------------------------------
FAILURES = (MERGED.replace("def two():", "def two((:"), "x" * 5000)
"""A text that breaks the file, and one that never ends."""


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize(("request_", "told"), [(CERTAIN, ["fallback"]), (LIKELY, ["fallback", "doubt"])])
def test_the_merge_stands_in_for_a_target_that_fails_and_keeps_its_doubt(
    request_: ApplyRequest, told: list[str], failure: str
) -> None:
    runtime, engine = wanting(failure, request_)
    result = apply(request_, runtime)
    assert (result.strategy, result.merged_code) == ("fallback", MERGED)
    assert result.confidence == job_of(request_).prediction.probability
    assert [verdict.check for verdict in result.verdicts if verdict.severity == "warning"] == told
    assert engine.n_open == 0


def test_a_guess_stands_in_for_nothing() -> None:
    breaking, endless = (wanting(failure, GUESS)[0] for failure in FAILURES)
    result = apply(GUESS, breaking)
    assert (result.strategy, result.merged_code) == ("model", FAILURES[0])
    assert [verdict.check for verdict in result.verdicts if verdict.severity == "error"] == ["syntax"]
    with pytest.raises(Truncated):
        apply(GUESS, endless)


# -- what a target may decide ------------------------------------------------------------------------------------------
ALONE = replace(CERTAIN, update="", instruction="return 11 in one")


@pytest.mark.parametrize(("request_", "kind"), [(CERTAIN, "certain"), (LIKELY, "likely"), (GUESS, "guess")])
def test_a_target_is_not_asked_for_what_it_may_not_decide(request_: ApplyRequest, kind: Kind) -> None:
    merged = job_of(request_).prediction.text
    forbidden = Runtime(load=no_model, decides={"embedded": frozenset(KINDS) - {kind}})
    for asked in (request_, replace(request_, instruction="return 12 instead"), replace(request_, temperature=0.7)):
        result = apply(asked, forbidden)
        assert (result.strategy, result.merged_code, result.model) == ("exact", merged, None)
        assert result.confidence == job_of(asked).prediction.probability
    allowed = replace(wanting(merged.replace("1", "2"), request_)[0], decides={"embedded": frozenset({kind})})
    assert apply(request_, allowed).strategy == "model"


@pytest.mark.parametrize("request_", [CERTAIN, LIKELY, GUESS])
def test_a_request_for_the_model_is_always_its(request_: ApplyRequest) -> None:
    runtime = wanting(MERGED, request_)[0]
    result = apply(replace(request_, strategy="model"), replace(runtime, decides={"embedded": frozenset()}))
    assert (result.strategy, result.merged_code, result.drafter) == ("model", MERGED, "merged_edit+suffix")


def test_each_model_decides_what_its_own_record_says() -> None:
    two = Runtime(load=no_model, models=("a", "b"), decides={"a": frozenset(), "b": frozenset({"likely"})})
    assert not two.may_decide(None, "likely")
    assert two.may_decide("b", "likely")
    assert not two.may_decide("b", "guess")


def test_a_guess_that_nobody_may_decide_is_told_and_doubted_as_more_likely_wrong() -> None:
    result = apply(GUESS, Runtime(load=no_model, decides={"embedded": frozenset()}))
    (doubt,) = [verdict for verdict in result.verdicts if verdict.check == "doubt"]
    assert doubt.severity == "error"


def test_quotes_that_are_not_in_the_file_are_refused_where_nobody_may_guess() -> None:
    block = "<<<<<<< SEARCH\nnothing like it\n=======\nx = 1\n>>>>>>> REPLACE\n"
    asked = replace(CERTAIN, update=block)
    with pytest.raises(NeedsMoreContext):
        apply(asked, Runtime(load=no_model, decides={"embedded": frozenset()}))


def test_what_a_program_applied_as_its_format_demands_is_decided_by_nobody_else() -> None:
    block = "<<<<<<< SEARCH\n    return 1\n=======\n    return 11\n>>>>>>> REPLACE\n"
    for update in (DETERMINED.update, block):
        assert kind_of(job_of(replace(CERTAIN, update=update))) is None
        everything = Runtime(load=no_model, decides={"embedded": frozenset(KINDS)})
        result = apply(replace(CERTAIN, update=update), everything)
        assert (result.strategy, result.merged_code) == ("exact", MERGED)


def test_an_instruction_alone_without_a_model_that_may_follow_it_is_refused() -> None:
    with pytest.raises(InstructionUnsupported, match="embedded does not follow instructions"):
        apply(ALONE, Runtime(load=no_model, decides={"embedded": frozenset()}))


class Instruct(PlainBytes):
    """Of a model that follows instructions."""

    takes_instructions = True


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (MERGED, "from the instruction alone; found in neither the file nor the edit: line 5 (`return 11`)"),
        (MERGED.replace("def two", "def three"), "found in neither the file nor the edit: lines 5-8"),
        (ORIGINAL, "the model changed nothing"),
    ],
)
def test_what_a_model_made_of_an_instruction_alone_is_never_sure(text: str, told: str) -> None:
    n_prompt = len(Instruct().encode_prompt(job_of(ALONE)))
    engine = FakeEngine(scripted(n_prompt, [*text.encode(), END], N_VOCAB, margin=20.0))
    target = Target("embedded", engine, Instruct())
    result = apply(ALONE, Runtime(load=lambda _: target))
    assert result.merged_code == text
    (doubt,) = [verdict for verdict in result.verdicts if verdict.check == "doubt"]
    assert doubt.severity == "warning"
    assert told in doubt.message


@pytest.mark.parametrize("text", [MERGED, MERGED.replace("11", "12")])
def test_what_a_model_writes_in_the_place_of_a_determined_text_is_never_sure(text: str) -> None:
    asked = replace(DETERMINED, strategy="model")
    result = apply(asked, wanting(text, asked)[0])
    assert (result.strategy, result.merged_code) == ("model", text)
    found = [verdict.message for verdict in result.verdicts if verdict.check == "doubt"]
    assert len(found) == (text != MERGED)
    assert all("found in neither the file nor the edit: line 5 (`return 12`)" in message for message in found)


# -- the confidence of hunks -------------------------------------------------------------------------------------------
def test_a_hunk_has_the_chance_of_all_readings_that_change_it_so() -> None:
    result = apply(LIKELY, Runtime(load=no_model, decides={"embedded": frozenset()}))
    prediction = job_of(LIKELY).prediction
    (hunk,) = result.hunks
    alike = [
        one.probability
        for one in prediction.readings
        if one.text != prediction.text and "    return 11\n" in one.text and "    return 1\n" not in one.text
    ]
    assert hunk.confidence is not None
    assert prediction.probability is not None
    assert prediction.probability <= hunk.confidence <= min(1.0, prediction.probability + sum(alike) + 1e-9)

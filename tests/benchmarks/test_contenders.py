"""A timed run of ours counts what the engine did, alone and in a batch, and leaves nothing open."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from apply_eval.datasets import EditRecord, measure_edit
from apply_service.errors import EngineFailure
from apply_service.protocols import Part, Verification, Window
from apply_service.target import Target
from benchmarks.decoding.cases import make_case
from benchmarks.decoding.contenders import Case, EngineContender
from tests.fake_engine import FakeEngine, scripted
from tests.plain_bytes import END, N_VOCAB, PlainBytes

BEFORE = "".join(f"line_{i} = {i}\n" for i in range(20))
AFTER = BEFORE.replace("line_7 = 7\n", "line_7 = 70\n")
UPDATE = "# ... existing code ...\nline_6 = 6\nline_7 = 70\nline_8 = 8\n# ... existing code ...\n"
ANSWER = [*AFTER.encode(), END]


@pytest.fixture
def case() -> Case:
    record = EditRecord("one", BEFORE, AFTER, measure_edit(BEFORE, AFTER), update=UPDATE, path="a.py")
    return make_case(record, PlainBytes())


def engine_for(case: Case, *, max_open: int | None = None) -> FakeEngine:
    return FakeEngine(scripted(len(case.prompt_ids), ANSWER, N_VOCAB), max_draft=63, max_open=max_open)


def contender(engine: FakeEngine, drafter: str) -> EngineContender:
    return EngineContender(drafter, Target("fake", engine, PlainBytes()), drafter)


def test_a_whole_output_is_counted(case: Case) -> None:
    engine = engine_for(case)
    found = contender(engine, "merged_edit").run([case], "one", cap=None)
    assert (found.contender, found.batch, found.group) == ("merged_edit", 1, "one")
    assert (found.n_tokens, found.n_chars, found.n_exact) == (len(ANSWER), len(AFTER), 1)
    assert (found.passes, found.rejections) == (engine.n_steps, 0)
    assert found.accepted == found.n_tokens - (found.passes - 1)  # the last draft held the end
    assert found.end_to_end_s is not None
    assert 0 < found.decode_s < found.end_to_end_s
    assert 0 < found.first_token_s < found.end_to_end_s
    assert engine.n_open == 0


def test_a_capped_output_is_right_as_far_as_it_goes(case: Case) -> None:
    found = contender(engine_for(case), "none").run([case], "one", cap=10)
    assert (found.n_tokens, found.passes, found.drafted, found.n_exact) == (10, 10, 0, 1)
    assert found.end_to_end_s is None


def test_a_wrong_output_is_not_exact(case: Case) -> None:
    wrong = FakeEngine(scripted(len(case.prompt_ids), [*b"no", END], N_VOCAB))
    assert contender(wrong, "none").run([case], "one", cap=None).n_exact == 0


def test_a_batch_shares_its_passes(case: Case) -> None:
    engine = engine_for(case)
    found = contender(engine, "none").run([case] * 3, "group", cap=20)
    assert (found.batch, found.n_tokens, found.passes, found.n_exact) == (3, 60, 60, 3)
    assert engine.n_steps == 20


def test_a_batch_that_does_not_fit_is_an_error_and_leaves_nothing_open(case: Case) -> None:
    engine = engine_for(case, max_open=1)
    with pytest.raises(EngineFailure) as refused:
        contender(engine, "none").run([case] * 2, "group", cap=20)
    assert (refused.value.value, refused.value.limit) == (2, 1)
    assert engine.n_open == 0


def test_a_pass_that_fails_is_not_measured_one_by_one(case: Case) -> None:
    """The scheduler would go on with each edit alone, and the run would look like a slow one."""

    class Crowded(FakeEngine):
        def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]:
            if sum(isinstance(part, Window) for part in parts) > 1:
                raise RuntimeError("out of memory")
            return super().step(parts)

    engine = Crowded(scripted(len(case.prompt_ids), ANSWER, N_VOCAB), max_draft=63)
    with pytest.raises(RuntimeError, match="out of memory"):
        contender(engine, "none").run([case, case], "two", cap=None)
    assert engine.n_open == 0

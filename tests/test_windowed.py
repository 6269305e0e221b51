"""Long files: the target decides the touched regions, in shared passes, and everything else stays the original's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from apply_service.build import build_runtime
from apply_service.errors import Cancelled, ContextLimitExceeded
from apply_service.merge.regions import SCOPE_LINES, cut_job, find_regions
from apply_service.pipeline import apply, read_edit, run_alone
from apply_service.settings import Settings
from apply_service.target import Runtime, Target
from apply_service.types import ApplyRequest, FinalEvent, TokenEvent
from tests.doubles import CancelledWhen
from tests.fake_engine import FakeEngine
from tests.plain_bytes import END, N_VOCAB, PlainBytes

N_FUNCTIONS = 400
ORIGINAL = "\n".join(f"def f{i}(x):\n    y = x + {i}\n    return y\n\n" for i in range(N_FUNCTIONS))
MARKER = "# ... existing code ..."
CHANGED = "def f{0}(x):\n    y = x * {0}\n    return y"
UPDATE = "\n".join([MARKER, CHANGED.format(20), MARKER, CHANGED.format(300), MARKER, ""])
MERGED = ORIGINAL.replace("y = x + 20\n", "y = x * 20\n").replace("y = x + 300\n", "y = x * 300\n")
REQUEST = ApplyRequest(original=ORIGINAL, update=UPDATE, path="long.py", strategy="model")


class KnowingEngine(FakeEngine):
    """Writes the answer known for each prompt."""

    def __init__(self, answers: dict[bytes, list[int]], context_limit: int) -> None:
        self._answers = answers
        super().__init__(self._row, max_draft=255, context_limit=context_limit, max_rows=1024)

    def _row(self, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        for prompt, answer in self._answers.items():
            n_prompt = len(prompt) // 8
            if np.array(ids[:n_prompt], np.int64).tobytes() == prompt:
                row = np.zeros(N_VOCAB, np.float32)
                row[answer[min(len(ids) - n_prompt, len(answer) - 1)]] = 20.0
                return row
        raise AssertionError("a prompt that no answer is known for")


def knowing_runtime(request: ApplyRequest, *, windows: str = "context", context_limit: int = 8000) -> Runtime:
    job = read_edit(request, "python")
    regions = [find_regions(job.prediction, job.original, "python", scope_lines=n) for n in (SCOPE_LINES, 0)]
    jobs = [cut_job(job, region) for region in regions[0] + regions[1]]
    answers = {
        np.array(PlainBytes().encode_prompt(one), np.int64).tobytes(): [*one.prediction.text.encode(), END]
        for one in [job, *jobs]
    }
    target = Target("embedded", KnowingEngine(answers, context_limit), PlainBytes())
    return Runtime(load=lambda _: target, windows=windows)


def test_a_file_past_the_context_is_decided_in_windows_that_share_passes() -> None:
    runtime = knowing_runtime(REQUEST)
    result = apply(REQUEST, runtime)
    assert (result.strategy, result.merged_code, result.agreement) == ("windowed", MERGED, True)
    lines = ORIGINAL.split("\n")
    shown = ["\n".join(lines[window.start_line : window.end_line]) for window in result.windows]
    assert [("f20(" in text, "f300(" in text) for text in shown] == [(True, False), (False, True)]
    assert sum(len(text) for text in shown) < len(ORIGINAL) / 10
    engine = runtime.load("embedded").engine
    assert isinstance(engine, FakeEngine)
    assert engine.n_steps < result.stats.passes
    assert engine.n_open == 0
    assert result.confidence is not None
    assert all(hunk.confidence is not None for hunk in result.hunks)


def test_windows_can_be_switched_off_and_on() -> None:
    with pytest.raises(ContextLimitExceeded):
        apply(REQUEST, knowing_runtime(REQUEST, windows="never"))
    assert apply(REQUEST, knowing_runtime(REQUEST, context_limit=10**6)).strategy == "model"
    saved = apply(REQUEST, knowing_runtime(REQUEST, windows="always", context_limit=10**6))
    assert (saved.strategy, saved.merged_code) == ("windowed", MERGED)


@pytest.mark.parametrize(
    ("model_has", "asked", "strategy"), [("always", "auto", "windowed"), ("context", "auto", "model")]
)
def test_a_model_says_by_itself_whether_windows_save_time(model_has: str, asked: str, strategy: str) -> None:
    runtime = knowing_runtime(REQUEST, windows=asked, context_limit=10**6)
    target = replace(runtime.load("embedded"), windows=model_has)
    assert apply(REQUEST, replace(runtime, load=lambda _: target)).strategy == strategy
    assert apply(REQUEST, replace(runtime, load=lambda _: target, windows="never")).strategy == "model"


def test_the_text_of_a_window_is_never_streamed() -> None:
    """It is no beginning of the file's."""
    request = replace(REQUEST, update=f"{MARKER}\n{CHANGED.format(300)}\n{MARKER}\n")
    runtime = knowing_runtime(request)
    events = list(run_alone(request, runtime))
    assert [type(event) for event in events] == [FinalEvent]
    assert events[0].result.strategy == "windowed"
    whole = list(run_alone(request, knowing_runtime(request, context_limit=10**6)))
    assert isinstance(whole[0], TokenEvent)


def test_a_window_that_fails_leaves_nothing_behind() -> None:
    runtime = knowing_runtime(REQUEST)
    with pytest.raises(Cancelled):
        list(run_alone(REQUEST, runtime, CancelledWhen(lambda: True)))
    engine = runtime.load("embedded").engine
    assert isinstance(engine, FakeEngine)
    assert engine.n_open == 0


def test_a_short_file_is_never_cut_to_save_time() -> None:
    short = replace(REQUEST, original="\n".join(ORIGINAL.split("\n")[:55]), update=UPDATE.split(MARKER)[1].strip())
    short = replace(short, update=f"{MARKER}\ndef f2(x):\n    y = x * 2\n    return y\n{MARKER}\n")
    assert apply(short, knowing_runtime(short, windows="always")).strategy == "model"


def test_a_region_past_the_context_is_an_error_and_no_half_answer() -> None:
    with pytest.raises(ContextLimitExceeded):
        apply(REQUEST, knowing_runtime(REQUEST, context_limit=200))


@pytest.mark.parametrize("windows", ["context", "always"])
def test_a_scope_past_the_context_is_cut_to_what_changes(windows: str) -> None:
    body = "".join(f"    value_{i} = '{'x' * 40}'\n" for i in range(70))
    original = f"class A:\n{body}\n\n" + "x = 1\n" * 100
    new = f"    value_35 = '{'x' * 40}y'"
    update = f"class A:\n    {MARKER}\n{new}\n    {MARKER}\n"
    request = replace(REQUEST, original=original, update=update)
    result = apply(request, knowing_runtime(request, windows=windows, context_limit=3000))
    assert result.merged_code == original.replace(f"    value_35 = '{'x' * 40}'", new)
    (window,) = result.windows
    assert window.end_line - window.start_line < 30


def test_an_instruction_has_no_windows() -> None:
    request = ApplyRequest(original=ORIGINAL, instruction="rename f20", strategy="model")
    runtime = knowing_runtime(REQUEST)
    target = replace(runtime.load("embedded"), prompt_format=FollowsInstructions())
    with pytest.raises(ContextLimitExceeded):
        apply(request, replace(runtime, load=lambda _: target))


class FollowsInstructions(PlainBytes):
    takes_instructions = True


@cache
def embedded() -> Runtime:
    return build_runtime(Settings())


def test_twenty_thousand_lines_with_the_embedded_model() -> None:
    original = "\n".join(f"def f{i}(x):\n    y = x + {i}\n    return y\n\n" for i in range(4000))
    request = replace(REQUEST, original=original)
    result = apply(request, embedded())
    assert result.strategy == "windowed"
    assert result.merged_code == original.replace("x + 20\n", "x * 20\n").replace("x + 300\n", "x * 300\n")


def test_the_embedded_model_saves_time_by_default_and_the_answer_lists_its_windows() -> None:
    """300 lines fit the context whole."""
    original = "\n".join(ORIGINAL.split("\n")[:300])
    request = replace(REQUEST, original=original, update=f"{MARKER}\n{CHANGED.format(20)}\n{MARKER}\n")
    result = apply(request, embedded())
    assert (result.strategy, result.merged_code) == ("windowed", original.replace("x + 20\n", "x * 20\n"))
    (window,) = result.windows
    assert window.start_line < original.split("\n").index("    y = x + 20") < window.end_line
    assert window.end_line - window.start_line < 30
    whole = apply(request, replace(embedded(), windows="never"))
    assert (whole.strategy, whole.merged_code, whole.windows) == ("model", result.merged_code, ())
    assert result.stats.completion_tokens * 5 < whole.stats.completion_tokens


def test_drafts_change_nothing_in_windows() -> None:
    drafted, plain = (apply(replace(REQUEST, drafter=name), embedded()) for name in ("merged_edit", "none"))
    assert drafted.strategy == plain.strategy == "windowed"
    assert drafted.merged_code == plain.merged_code
    assert drafted.stats.completion_tokens == plain.stats.completion_tokens
    assert drafted.stats.passes * 3 < plain.stats.passes

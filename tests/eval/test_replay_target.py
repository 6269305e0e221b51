"""`replay:SHAPE`: the whole path of a request with a target that has no opinion of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from apply_eval.replay import Replay, ReplayEngine
from apply_eval.target import open_any
from apply_service.errors import UnknownModel
from apply_service.pipeline import apply, read_edit
from apply_service.settings import Settings
from apply_service.target import Runtime, Target
from apply_service.types import ApplyRequest

MODEL = "replay:tiny-2m"
ORIGINAL = "def first():\n    return 1\n\n\ndef second():\n    return 2\n"
UPDATE = "# ... existing code ...\n\ndef second():\n    return 22\n"
MERGED = ORIGINAL.replace("return 2\n", "return 22\n")
REQUEST = ApplyRequest(original=ORIGINAL, update=UPDATE, path="a.py", strategy="model")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    settings = Settings(device="cpu", kv_cache_mb=16, state_dir=str(tmp_path_factory.mktemp("state")))
    return open_any(MODEL, settings)


@pytest.fixture
def runtime(target: Target) -> Runtime:
    return Runtime(load=lambda _: target, models=(MODEL,))


def test_the_predicted_merge_is_replayed_where_nobody_knows_the_answer(runtime: Runtime) -> None:
    result = apply(REQUEST, runtime)
    assert result.merged_code == MERGED
    assert (result.model, result.strategy) == (MODEL, "model")
    assert result.stats.acceptance_rate == 1


def test_an_answer_that_was_handed_in_wins_over_the_predicted_merge(runtime: Runtime, target: Target) -> None:
    engine, prompt_format = target.engine, target.prompt_format
    assert isinstance(engine, ReplayEngine)
    assert isinstance(prompt_format, Replay)
    wanted = MERGED.replace("return 22", "return 22  # twenty-two")
    prompt_ids = prompt_format.encode_prompt(read_edit(REQUEST, "python"))
    engine.answers.expect(prompt_ids, prompt_format.encode_output(wanted))
    result = apply(REQUEST, runtime)
    assert result.merged_code == wanted
    assert result.stats.rejections > 0
    assert result.agreement is False


def test_a_replay_needs_no_model_where_the_format_decides(runtime: Runtime) -> None:
    request = replace(REQUEST, update="<<<<<<< SEARCH\n    return 2\n=======\n    return 3\n>>>>>>> REPLACE\n")
    result = apply(replace(request, strategy="auto"), runtime)
    assert result.model is None


def test_an_unknown_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownModel):
        open_any("replay:none-such", Settings(state_dir=str(tmp_path)))

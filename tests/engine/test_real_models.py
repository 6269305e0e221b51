"""Pretrained weights: small passes are exact, and no drafter changes an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from apply_service.build import build_runtime
from apply_service.formats import lazy_snippet
from apply_service.protocols import EditContext, EditJob
from apply_service.registry import COPY_DRAFTERS
from apply_service.settings import Settings
from apply_service.target import Target, in_process, open_decoding
from apply_service.types import ApplyRequest
from tests.decoding.alone import decode_alone
from tests.engine.real_models import FOLDER

SMALL = FOLDER / "smollm2-135m"
EDITS = (
    ("def a():\n    return 1\n\n\ndef b():\n    return 2\n", "def b():\n    return 3\n"),
    ("# limits\nlow = 1\nhigh = 9\n", "# ... existing code ...\nhigh = 12\nmiddle = 5\n"),
)
DRAFTERS = (*COPY_DRAFTERS, "prompt_lookup", "suffix", "merged_edit+suffix")
N_TOKENS = 48

pytestmark = [
    pytest.mark.real_models,
    pytest.mark.slow,
    pytest.mark.skipif(not SMALL.is_dir(), reason="make real-models MODELS=smollm2-135m"),
]


def write(
    target: Target, original: str, update: str, drafter: str, temperature: float
) -> tuple[list[int], list[float]]:
    """The first ids of an answer and their log probabilities."""
    prediction = lazy_snippet.predict(original, update, EditContext("a.py", "python"))
    job = EditJob(original, update, "", "a.py", "python", prediction)
    request = ApplyRequest(original, update, path="a.py", temperature=temperature, seed=7, max_tokens=N_TOKENS)
    with open_decoding(job, request, target, drafter) as decoding:
        steps = list(decode_alone(decoding))
        return decoding.output_ids, [logprob for step in steps for logprob in step.logprobs or ()]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_no_drafter_changes_an_answer(temperature: float, tmp_path: Path) -> None:
    """Ids and log probabilities are equal to the last bit."""
    settings = Settings(model=str(SMALL), dtype="bfloat16", state_dir=str(tmp_path))
    target = in_process(build_runtime(settings).load(str(SMALL)))
    assert target.info.determinism == "bitwise"
    for original, update in EDITS:
        plain = write(target, original, update, "none", temperature)
        assert 1 < len(plain[0]) <= N_TOKENS
        if not temperature:  # a text right from the first token, no tag before it
            assert original.startswith(target.prompt_format.open_stream().push(plain[0]).split("\n", 1)[0])
        for drafter in DRAFTERS:
            assert write(target, original, update, drafter, temperature) == plain, drafter

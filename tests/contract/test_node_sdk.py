"""The real OpenAI SDK for Node against a running server with the embedded model; needs Node and `make node-clients`."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.contract.edits import PYTHON, PYTHON_MERGED, PYTHON_UPDATE, TAGGED

FOLDER = Path(__file__).parent / "node"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def answers(url: str) -> Any:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node on this machine")
    if not (FOLDER / "node_modules" / "openai").is_dir():
        pytest.skip("the SDK is not installed: make node-clients")
    edit = json.dumps({"original": PYTHON, "update": PYTHON_UPDATE, "tagged": TAGGED})
    done = subprocess.run(
        [node, "contract.mjs", url, edit], cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("way", ["whole", "predicted", "relace", "text"])
def test_whole_answers(answers: Any, way: str) -> None:
    assert answers[way] == PYTHON_MERGED


@pytest.mark.parametrize("way", ["streamedTags", "streamedPrediction"])
def test_streams(answers: Any, way: str) -> None:
    assert answers[way]["text"] == PYTHON_MERGED
    assert answers[way]["finish"] == "stop"
    assert answers[way]["usage"]["completion_tokens"] > 0


def test_what_comes_along(answers: Any) -> None:
    assert answers["strategy"] == "confirmed"
    assert answers["details"]["accepted_prediction_tokens"] > 0
    assert {"embedded", "auto", "Fast-Apply"} <= set(answers["ids"])


def test_errors_are_the_sdks_own(answers: Any) -> None:
    assert answers["plain"] == {"isOfKind": True, "status": 400, "code": "not_an_edit"}
    assert answers["unknown"] == {"isOfKind": True, "status": 404, "code": "model_not_found"}

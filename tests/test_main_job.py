"""The main job with the embedded model: command line and server agree byte for byte, drafts change nothing, most drafts
are accepted."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from apply_eval.datasets import EditRecord, read_records
from apply_service.api.app import create_app
from apply_service.build import build_runtime, open_service
from apply_service.errors import ContextLimitExceeded
from apply_service.pipeline import apply, read_edit, run_alone
from apply_service.settings import Settings
from apply_service.target import Runtime, open_decoding
from apply_service.text.fidelity import normalise
from apply_service.types import ApplyRequest
from tests.decoding.alone import decode_alone

SHIPPED = Path(__file__).parents[1] / "eval" / "apply_eval" / "fixtures" / "own_edits.jsonl"
DRAFTERS = ("none", "original", "original_snippet", "merged_edit")


@cache
def runtime() -> Runtime:
    return build_runtime(Settings())


def small_edits(path: Path, *, max_lines: int, limit: int) -> list[EditRecord]:
    records = [r for r in read_records(path) if r.before.count("\n") < max_lines]
    assert len(records) >= limit, f"{path} has {len(records)} small edits"
    return sorted(records, key=lambda record: record.id)[:limit]


def request_of(record: EditRecord, **fields: object) -> ApplyRequest:
    return ApplyRequest(original=record.before, update=record.update, path=record.path, **fields)  # type: ignore[arg-type]


def by_command_line(record: EditRecord, folder: Path) -> bytes:
    source = folder / Path(record.path or "file").name
    source.write_bytes(record.before.encode())
    update = folder / "update.txt"
    update.write_bytes(record.update.encode())
    done = subprocess.run(
        [sys.executable, "-m", "apply_service.cli", "apply", str(source), "--update", str(update)],
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode in (0, 1), done.stderr.decode()
    assert source.read_bytes() == record.before.encode()
    return done.stdout


def check_same_everywhere(records: list[EditRecord], folder: Path) -> None:
    settings = Settings()
    with open_service(runtime(), settings) as service, TestClient(create_app(service, settings)) as client:
        for record in records:
            body = {"original": record.before, "update": record.update, "path": Path(record.path or "file").name}
            answer = client.post("/v1/apply", json=body)
            assert answer.status_code == 200, answer.text
            merged = answer.json()["merged_code"]
            assert by_command_line(record, folder) == merged.encode()
            streamed = client.post("/v1/apply", json={**body, "stream": True})
            final = [line for line in streamed.text.splitlines() if line.startswith("data:")][-1]
            assert json.loads(final.removeprefix("data:"))["merged_code"] == merged


def test_command_line_and_server_agree_on_shipped_edits(tmp_path: Path) -> None:
    check_same_everywhere(small_edits(SHIPPED, max_lines=100, limit=2), tmp_path)


@pytest.mark.slow
def test_command_line_and_server_agree_on_ten_real_edits(extra_data: Path, tmp_path: Path) -> None:
    check_same_everywhere(small_edits(extra_data / "real_diffs_dev.jsonl", max_lines=100, limit=10), tmp_path)


TINY = ApplyRequest(
    original="import os\n\n\ndef area(w, h):\n    return w * h\n\n\ndef name():\n    return os.name\n",
    update="# ...\n\ndef area(w, h):\n    if w < 0:\n        return 0\n    return w * h\n\n\ndef name():\n",
    path="shapes.py",
    strategy="model",
    seed=5,
)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("constrain", ["sources", "none"])
def test_drafts_change_nothing_with_the_embedded_model(temperature: float, constrain: Any) -> None:
    request = replace(TINY, temperature=temperature, constrain=constrain, max_tokens=150)
    outputs = [decoded_ids(replace(request, drafter=drafter)) for drafter in DRAFTERS]
    assert len(outputs[0]) > 40
    assert all(ids == outputs[0] for ids in outputs)


def decoded_ids(request: ApplyRequest) -> list[int]:
    job = read_edit(request, None)
    decoding = open_decoding(job, request, runtime().load("embedded"), request.drafter or "merged_edit")
    for _ in decode_alone(decoding):
        pass
    return decoding.output_ids


def test_the_embedded_model_accepts_its_drafts() -> None:
    accepted = drafted = 0
    for record in small_edits(SHIPPED, max_lines=100, limit=4):
        stats = apply(request_of(record, strategy="model"), runtime()).stats
        accepted, drafted = accepted + stats.accepted_tokens, drafted + stats.drafted_tokens
    assert accepted / drafted > 0.8


def test_streamed_text_is_the_merged_text() -> None:
    record = small_edits(SHIPPED, max_lines=60, limit=1)[0]
    *tokens, final = run_alone(request_of(record, strategy="model"), runtime())
    assert "".join(event.text for event in tokens) == normalise(final.result.merged_code)  # type: ignore[union-attr]


def test_over_the_context_of_the_embedded_model_is_a_typed_error() -> None:
    original = "".join(f"value_{i} = compute({i})\n" for i in range(2000))
    added = "".join(f"more_{i} = compute({i})\n" for i in range(2000))
    update = f"# ... existing code ...\nvalue_7 = compute(7)\n{added}# ... existing code ...\n"
    with pytest.raises(ContextLimitExceeded) as caught:
        apply(ApplyRequest(original=original, update=update, strategy="model", path="v.py"), runtime())
    assert isinstance(caught.value.value, int)
    assert caught.value.limit == runtime().load("embedded").engine.context_limit

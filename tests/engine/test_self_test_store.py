"""Records of self-tests: found again by the same model here, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import torch

from apply_service.engine.self_test import SelfTest, fingerprint, keep_self_test, read_self_test
from tests.engine.tiny_models import tiny_model

FOUND = SelfTest((4, 8), 4, {4: 0.0, 8: 0.0, 1: 0.5}, {4: 0.0, 8: 0.0, 1: 0.0})


def test_a_record_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    record = tmp_path / "new" / "a.json"
    assert read_self_test(record) is None
    keep_self_test(record, FOUND)
    assert read_self_test(record) == FOUND
    assert [one.name for one in record.parent.iterdir()] == ["a.json"]


def test_another_weight_threads_or_dtype_is_another_model(tmp_path: Path) -> None:
    model = tiny_model("llama")
    prints = {fingerprint(model, (4,)), fingerprint(model, (4, 8))}
    prints.add(fingerprint(tiny_model("llama", dtype=torch.bfloat16), (4,)))
    with torch.no_grad():
        next(model.parameters()).view(-1)[0] += 1
    prints.add(fingerprint(model, (4,)))
    n_threads = torch.get_num_threads()
    torch.set_num_threads(n_threads + 1)
    try:
        prints.add(fingerprint(model, (4,)))
    finally:
        torch.set_num_threads(n_threads)
    assert len(prints) == 5


def test_a_broken_record_is_measured_anew(tmp_path: Path) -> None:
    record = tmp_path / "a.json"
    keep_self_test(record, FOUND)
    for text in ("{", "[]", '{"buckets": 3}', ""):
        record.write_text(text)
        assert read_self_test(record) is None


def test_a_folder_that_cannot_be_made_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    record = tmp_path / "file" / "tests" / "a.json"
    keep_self_test(record, FOUND)
    assert read_self_test(record) is None

"""Records of self-tests: found again by the same model here, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import torch

from apply_service.engine.self_test import SelfTest
from apply_service.engine.self_test_store import SelfTestStore, fingerprint
from tests.engine.tiny_models import tiny_model

FOUND = SelfTest((4, 8), 4, {4: 0.0, 8: 0.0, 1: 0.5}, {4: 0.0, 8: 0.0, 1: 0.0})


def test_a_record_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    store, model = SelfTestStore(tmp_path / "new"), tiny_model("llama")
    key = fingerprint(model, (4, 8))
    assert store.get(key) is None
    store.put(key, FOUND)
    assert store.get(key) == FOUND
    assert store.get(fingerprint(model, (4,))) is None


def test_another_weight_threads_or_dtype_is_another_model(tmp_path: Path) -> None:
    model = tiny_model("llama")
    prints = {fingerprint(model, (4,)), fingerprint(tiny_model("llama", dtype=torch.bfloat16), (4,))}
    with torch.no_grad():
        next(model.parameters()).view(-1)[0] += 1
    prints.add(fingerprint(model, (4,)))
    n_threads = torch.get_num_threads()
    torch.set_num_threads(n_threads + 1)
    try:
        prints.add(fingerprint(model, (4,)))
    finally:
        torch.set_num_threads(n_threads)
    assert len(prints) == 4


def test_a_broken_record_is_measured_anew(tmp_path: Path) -> None:
    store = SelfTestStore(tmp_path)
    store.put("a", FOUND)
    (record,) = tmp_path.iterdir()
    for text in ("{", "[]", '{"buckets": 3}', ""):
        record.write_text(text)
        assert store.get("a") is None


def test_a_folder_that_cannot_be_made_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = SelfTestStore(tmp_path / "file" / "tests")
    store.put("a", FOUND)
    assert store.get("a") is None

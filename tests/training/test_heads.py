"""Heads are trained along recorded samples as they will draft, and the service loads what is left."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from apply_service.build import build_runtime
from apply_service.decoding.verify import Decoding
from apply_service.drafting.drafter import NoDraft
from apply_service.engine.heads.base import Head
from apply_service.pipeline import read_edit
from apply_service.protocols import SamplingParams
from apply_service.settings import Settings
from apply_service.target import open_decoding
from apply_service.types import ApplyRequest
from tests.clocks import set_clocks
from tests.decoding.alone import decode_alone
from tests.engine.test_heads import PROMPT
from tests.engine.tiny_models import save_tiny
from training import train_gpu
from training.batch import Array, Batch, Place
from training.finetune import digest_of_tokenizer
from training.heads import KINDS, LearningHead, frequent_ids, main, with_prompts
from training.recorded import Recorded


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small model, and samples as they are recorded for it: two packed texts in which each
    word tells the next."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("heads")
    model, rng = save_tiny(folder / "model"), np.random.default_rng(1)

    def group() -> list[tuple[Array, Array, Array]]:
        positions = np.concatenate([np.arange(80), np.arange(60)])
        weights = (positions > 5).astype(np.float32)
        return [(100 + (rng.integers(12) + np.arange(140)) % 12, positions, weights) for _ in range(3)]

    origin = {"tokenizer": digest_of_tokenizer(model)}
    Recorded([[group() for _ in range(8)]], [group()], 0, origin).write(folder / "batches.safetensors.xz")
    return folder


def train(kind: str, prepared: Path, run: Path, *, steps: int, more: tuple[str, ...] = ()) -> list[dict[str, float]]:
    """The lines of scores.jsonl."""
    options = [kind, "--model", str(prepared / "model"), "--batches", str(prepared / "batches.safetensors.xz")]
    options += ["--run", str(run), "--steps", str(steps), "--score-steps", "99", "--device", "cpu", "--depth", "3"]
    rate = "0.003" if kind == "medusa" else "0.02"
    assert main([*options, "--vocabulary", "512", "--lr", rate, *more]) == 0
    return [json.loads(line) for line in (run / "scores.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_learns_and_the_service_drafts_with_it(kind: str, prepared: Path, tmp_path: Path) -> None:
    first, *_, last = train(kind, prepared, tmp_path, steps=30)
    for depth in range(3):
        assert last[f"right_{depth}"] > first[f"right_{depth}"] + 0.05, (depth, first, last)
    name = "medusa" if kind == "medusa" else "eagle3"
    model = str(prepared / "model")
    made = build_runtime(Settings(model=model, drafter=name, draft_head=str(tmp_path / "head")))
    request = ApplyRequest(original="def add(a, b):\n", update="", instruction="Say more.", max_tokens=60)
    request = replace(request, strategy="model", temperature=0.3, seed=2)
    outputs = []
    for drafter in ("none", name):
        decoding = open_decoding(read_edit(request, None), request, made.load(model), drafter)
        for _ in decode_alone(decoding):
            pass
        outputs.append(decoding.output_ids)
    assert outputs[0] == outputs[1]
    assert decoding.stats.drafted_tokens > 0


def test_pieces_make_the_same_run(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train("eagle3", prepared, tmp_path / "whole", steps=3)
    with monkeypatch.context() as patched:
        times = iter([0.0, 0.0])
        set_clocks(patched, train_gpu, monotonic=lambda: next(times, 1e9))
        train("eagle3", prepared, tmp_path / "pieces", steps=3)
    (tmp_path / "pieces" / "checkpoint.safetensors").unlink()  # another machine, where only the parts are
    train("eagle3", prepared, tmp_path / "pieces", steps=3)
    whole, pieces = ((tmp_path / name / "head" / "model.safetensors").read_bytes() for name in ("whole", "pieces"))
    assert whole == pieces


@pytest.mark.parametrize("kind", ["eagle3", "p-eagle"])
def test_it_trains_at_each_depth_what_it_will_draft_there(kind: str, prepared: Path) -> None:
    """The tokens of a draft, laid out as a text: what training sees at depth j is token j of that draft."""
    known = list(range(0, 480, 2))
    made = LearningHead(kind, prepared / "model", "cpu", known, depth=4)
    engine, head = made.engine, made.head
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    head.targets = torch.tensor(known)
    engine.watch(head.watched)
    decoding = Decoding(engine, PROMPT, NoDraft(), 40, frozenset())
    steps = decode_alone(decoding)
    for _ in range(6):
        next(steps)
    session = decoding.session
    assert session is not None
    assert isinstance(head, Head)
    drafted = list(head.open(session, SamplingParams()).write(decoding.output_ids, 4))
    text = [*PROMPT, *decoding.output_ids, *drafted, 0, 0]
    weights = torch.zeros(len(text))
    anchor = session.length - 1
    for depth, token in enumerate(drafted):
        chosen = torch.zeros_like(weights)
        chosen[anchor + depth + 2] = 1
        told = list(made.learn(torch.tensor(text), chosen))[depth]
        if len(told.logits):  # the model's choice may be a token that the head does not know
            assert known[int(told.logits[0].argmax())] == token
    n_told = sum(len(one.logits) for one in made.learn(torch.tensor(text), weights + 1))
    assert n_told > 0
    steps.close()


def test_a_draft_vocabulary_has_the_frequent_tokens(prepared: Path) -> None:
    recorded = Recorded.read(prepared / "batches.safetensors.xz")
    some, more = frequent_ids(recorded, 9, 512), frequent_ids(recorded, 10_000, 512)
    assert len(some) == 9
    assert some == sorted(some)
    assert set(some) < set(range(100, 112))
    assert set(some) < set(more) == set(range(512))


def test_prompts_teach_half_and_padding_does_not() -> None:
    weights = np.array([[0, 0, 1, 0, 2, 0], [0, 0.1, 0, 0, 0, 1]], np.float32)
    batch = Batch(weights.astype(np.int64), weights.astype(np.int64), weights, Place())
    assert with_prompts(batch).weights.tolist() == [
        [0.5, 0.5, 1, 0.5, 2, 0],
        [0.5, np.float32(0.1), 0.5, 0.5, 0.5, 1],
    ]

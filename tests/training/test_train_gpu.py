"""The run on a GPU, proven on a CPU: recorded batches are those of the stream, pieces make the run that one piece
makes, and nothing but torch, safetensors, tokenizers and numpy is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from apply_service.errors import FileNotReadable
from apply_service.prompts.compact import Compact
from tests.benchmarks.test_gpu import BLOCKER
from tests.clocks import set_clocks
from tests.training.edits import make_edits
from tests.training.test_train import write_edits
from training import train_gpu
from training.batches import Place, StreamOptions, generate
from training.parts import join_parts, split_file
from training.record import main as record
from training.recorded import Recorded
from training.train import MODEL_DIR, Trainer, TrainOptions
from training.train_gpu import main, step_of

ROOT = Path(__file__).parent.parent.parent
STEPS = ["--steps", "4", "--score-steps", "2", "--device", "cpu", "--layers", "3"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with edits, and two chunks of batches recorded from them."""
    folder = tmp_path_factory.mktemp("train")
    data = write_edits(folder / "edits.jsonl", make_edits(60))
    options = ["--chunks", "2", "--held-out-chunks", "1", "--batch-tokens", "4096", "--max-lines", "20"]
    assert record(["--data", str(data), *options, "--out", str(folder / "batches.safetensors.xz")]) == 0
    return folder


def stream(folder: Path) -> StreamOptions:
    return StreamOptions(folder / "edits.jsonl", MODEL_DIR, batch_tokens=4096, last_lines=20)


def test_recorded_batches_are_those_of_the_stream(prepared: Path) -> None:
    recorded = Recorded.read(prepared / "batches.safetensors.xz")
    n_batches = sum(map(len, recorded.chunks))
    for found, wanted in zip(
        islice(recorded.batches(Place()), n_batches), generate(stream(prepared), Place()), strict=False
    ):
        assert all(np.array_equal(a, b) for a, b in zip(found[:3], wanted[:3], strict=True))
        assert found.following == wanted.following


def test_the_stream_begins_again_after_its_last_chunk_and_goes_on_from_any_place(prepared: Path) -> None:
    recorded = Recorded.read(prepared / "batches.safetensors.xz")
    n_batches = sum(map(len, recorded.chunks))
    every = list(islice(recorded.batches(Place()), 2 * n_batches))
    assert np.array_equal(every[n_batches].ids, every[0].ids)
    assert every[n_batches - 1].following == Place(2)
    rest = islice(recorded.batches(every[2].following), n_batches)
    assert all(np.array_equal(a.ids, b.ids) for a, b in zip(rest, every[3:], strict=False))
    assert recorded.held_out_batches()


def run(prepared: Path, folder: Path, *more: str) -> Path:
    arguments = ["--run", str(folder), "--batches", str(prepared / "batches.safetensors.xz"), *STEPS, *more]
    assert main(arguments) == 0
    return folder / "checkpoint.safetensors"


def piece_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the runner says that time is up after two steps."""
    times = iter([0.0, 0.0, 0.0, 1e9])
    set_clocks(monkeypatch, train_gpu, monotonic=lambda: next(times, 1e9))


def test_pieces_make_the_run_that_one_piece_makes(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_num_threads(1)
    whole = load_file(run(prepared, tmp_path / "whole"))
    with monkeypatch.context() as patched:
        piece_of_two(patched)
        half = load_file(run(prepared, tmp_path / "pieces"))
    assert any(not torch.equal(half[name], value) for name, value in whole.items())
    (tmp_path / "pieces" / "checkpoint.safetensors").unlink()  # another machine, where only the parts are
    again = load_file(run(prepared, tmp_path / "pieces"))
    assert whole.keys() == again.keys()
    assert all(torch.equal(whole[name], value) for name, value in again.items())
    log, pieces = ((tmp_path / name / "scores.jsonl").read_text().splitlines() for name in ("whole", "pieces"))
    assert [scores_of(line) for line in pieces] == [scores_of(line) for line in log]
    assert len(log) == 3


def scores_of(line: str) -> list[str]:
    """A line of the log without its times."""
    return [part for part in line.strip("{}").split(", ") if "minutes" not in part and "tokens_per_s" not in part]


def test_a_compiler_that_fails_leaves_an_eager_run(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> torch.Tensor:
        raise RuntimeError("no such instruction")

    compact = Compact.from_directory(MODEL_DIR)
    batch = next(Recorded.read(prepared / "batches.safetensors.xz").batches(Place()))
    eager = Trainer(TrainOptions(tmp_path / "eager", 1.0, steps=4, n_layers=3), compact)
    wanted = eager.step(batch)
    monkeypatch.setattr(torch, "compile", lambda *_, **__: broken)
    trainer = Trainer(TrainOptions(tmp_path / "compiled", 1.0, steps=4, n_layers=3, compiled=True), compact)
    assert (eager.is_compiled, trainer.is_compiled) == (False, True)
    assert step_of(trainer, batch) == wanted
    assert not trainer.is_compiled
    assert trainer.progress.step == 1
    monkeypatch.setattr(trainer.network, "logits", broken)
    trainer.leave_compiler()
    with pytest.raises(RuntimeError, match="no such instruction"):
        step_of(trainer, batch)


def test_it_runs_without_what_makes_samples(prepared: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLOCKER)
    paths = os.pathsep.join(map(str, (tmp_path, ROOT, ROOT / "eval")))
    command = [sys.executable, "-m", "training.train_gpu", "--run", str(tmp_path / "run"), *STEPS, "--steps", "1"]
    command += ["--batches", str(prepared / "batches.safetensors.xz")]
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "the run is complete" in done.stdout


def test_parts_are_small_and_put_together_again_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(range(256)) * 10)
    parts = split_file(path, tmp_path / "parts", max_bytes=1000)
    assert [part.stat().st_size for part in parts] == [1000, 1000, 560]
    join_parts(tmp_path / "parts", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    parts[1].write_bytes(b"x" * 1000)
    with pytest.raises(FileNotReadable, match="not those of one file"):
        join_parts(tmp_path / "parts", tmp_path / "third")
    assert not (tmp_path / "third").exists()
    parts[1].unlink()
    with pytest.raises(FileNotReadable):
        join_parts(tmp_path / "parts", tmp_path / "third")


def test_without_batches_the_command_that_makes_them_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="train-gpu-prepare"):
        main(["--run", str(tmp_path), *STEPS])

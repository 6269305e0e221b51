"""An adapter is trained on packed samples, in pieces that make one run, and the service loads what it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from apply_service.engine.loading import add_adapter
from apply_service.errors import FileNotReadable
from apply_service.pipeline import read_edit
from apply_service.prompts.by_model import open_prompt_format
from apply_service.types import ApplyRequest
from tests.benchmarks.test_gpu import BLOCKER
from tests.clocks import set_clocks
from tests.engine.tiny_models import save_tiny
from tests.training.edits import BODY, make_edits
from tests.training.test_train import write_edits
from training import finetune_record, train_gpu
from training.batch import Place
from training.finetune import CHANGED, COPIED, WRONG, Adapted, Finetuner, main, rows_of
from training.finetune_record import encode
from training.finetune_record import main as record
from training.recorded import Recorded

pytest.importorskip("peft")
ROOT = Path(__file__).parent.parent.parent
STEPS = ["--steps", "4", "--score-steps", "2", "--device", "cpu", "--rank", "4"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small model, edits, a snippet for each of some, and samples recorded from them."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("finetune")
    save_tiny(folder / "model")
    edits = make_edits(60)
    data = write_edits(folder / "edits.jsonl", edits)
    snippets = [{**vars_of(edit), "update": edit.after} for edit in edits[:20]]
    (folder / "written.jsonl").write_text("".join(json.dumps(row) + "\n" for row in snippets))
    options = ["--model", str(folder / "model"), "--data", str(data), "--written", str(folder / "written.jsonl")]
    options += ["--chunks", "2", "--held-out-chunks", "1", "--pack-tokens", "4096", "--batch-packs", "2"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(finetune_record, "CHUNK", 6)
        assert record([*options, "--out", str(folder / "batches.safetensors.xz")]) == 0
    return folder


def vars_of(edit: Any) -> dict[str, Any]:
    return {name: getattr(edit, name) for name in ("repo", "path", "language", "before", "after")}


def run(prepared: Path, folder: Path, *more: str) -> Path:
    arguments = ["--model", str(prepared / "model"), "--run", str(folder)]
    assert main([*arguments, "--batches", str(prepared / "batches.safetensors.xz"), *STEPS, *more]) == 0
    return folder


def test_an_answer_is_weighed_by_what_must_be_decided(prepared: Path) -> None:
    prompt_format = open_prompt_format(str(prepared / "model"))
    right = BODY.replace("return file.read()", "return file.read().strip()").replace(
        "self.root = root", "self.base = root"
    )
    update = BODY.replace("return file.read()", "return file.read().strip()")
    job = read_edit(ApplyRequest(BODY, update, path="a.py"), "python")
    assert job.prediction.text == update  # it lacks the second change
    ids, positions, weights = encode(prompt_format, job, right)
    n_prompt = len(prompt_format.encode_prompt(job))
    assert not weights[:n_prompt].any()
    assert positions.tolist() == list(range(len(ids)))
    answer = ids[n_prompt:].tolist()
    assert prompt_format.decode_output(answer) == right
    texts = {
        float(weight): prompt_format.decode(
            [token for token, own in zip(answer, weights[n_prompt:], strict=True) if own == weight]
        )  # type: ignore[attr-defined]
        for weight in np.unique(weights[n_prompt:])
    }
    assert list(texts) == [np.float32(COPIED), CHANGED, WRONG]
    assert "strip" in texts[CHANGED]
    assert "base" in texts[WRONG]
    assert "strip" not in texts[WRONG]


def test_a_packed_sample_learns_as_it_would_alone(prepared: Path, tmp_path: Path) -> None:
    """No text of a row sees another: the losses are those of each sample in a row of its own."""
    trainer = Finetuner(
        Adapted(prepared / "model", 4, "cpu", dtype=torch.float32), tmp_path, steps=1, lr=1e-3, device="cpu"
    )
    batches = islice(Recorded.read(prepared / "batches.safetensors.xz").batches(Place()), 4)
    row = max((row for batch in batches for row in rows_of(batch)), key=lambda row: np.sum(row[1] == 0))
    starts = [*np.flatnonzero(row[1] == 0).tolist(), len(row[0])]
    assert len(starts) > 2
    together, weights = trainer.losses(row)
    alone = [
        trainer.losses(tuple(part[a:b] for part in row))[0]  # type: ignore[arg-type]
        for a, b in pairwise(starts)
    ]
    assert torch.allclose(together, torch.cat(alone), atol=1e-4)
    assert len(weights) == len(together)


def test_pieces_make_the_run_that_one_piece_makes_and_the_loss_falls(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(prepared, tmp_path / "whole", "--steps", "12", "--lr", "5e-3")
    with monkeypatch.context() as patched:
        times = iter([0.0, 0.0, 0.0, 1e9])
        set_clocks(patched, train_gpu, monotonic=lambda: next(times, 1e9))
        half = run(prepared, tmp_path / "pieces", "--steps", "12", "--lr", "5e-3")
    assert len((half / "scores.jsonl").read_text().splitlines()) < 6
    (half / "checkpoint.safetensors").unlink()  # another machine, where only the parts are
    pieces = run(prepared, tmp_path / "pieces", "--steps", "12", "--lr", "5e-3")
    for name in ("checkpoint.safetensors", "adapter/adapter_model.safetensors"):
        one, other = load_file(whole / name), load_file(pieces / name)
        assert one.keys() == other.keys()
        assert all(torch.equal(value, other[key]) for key, value in one.items())
    scores = [json.loads(line)["held_out_loss"] for line in (whole / "scores.jsonl").read_text().splitlines()]
    assert scores[-1] < scores[0]


def test_samples_of_another_tokenizer_are_refused(prepared: Path, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    arguments = ["--model", str(tmp_path), "--batches", str(prepared / "batches.safetensors.xz"), *STEPS]
    with pytest.raises(SystemExit, match=f"^{FileNotReadable.code}: the samples are of another"):
        main([*arguments, "--run", str(tmp_path / "run")])


def test_an_adapter_names_its_base_and_no_folder(prepared: Path, tmp_path: Path) -> None:
    adapter = run(prepared, tmp_path, "--steps", "1", "--base", "someone/model") / "adapter"
    config = json.loads((adapter / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "someone/model"
    assert str(prepared) not in json.dumps(config)
    assert config["target_modules"] == sorted(config["target_modules"])
    model = AutoModelForCausalLM.from_pretrained(prepared / "model")
    before = model.model.layers[0].mlp.up_proj.weight.clone()
    add_adapter(model, adapter)  # as the service does
    assert not torch.equal(model.model.layers[0].mlp.up_proj.weight, before)
    assert {value.dtype for value in load_file(adapter / "adapter_model.safetensors").values()} == {torch.bfloat16}


def test_it_runs_without_what_makes_samples(prepared: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLOCKER)
    paths = os.pathsep.join(map(str, (tmp_path, ROOT, ROOT / "eval", *filter(None, [os.environ.get("PYTHONPATH")]))))
    command = [sys.executable, "-m", "training.finetune", "--run", str(tmp_path / "run")]
    command += [
        "--model",
        str(prepared / "model"),
        "--batches",
        str(prepared / "batches.safetensors.xz"),
        *STEPS,
        "--steps",
        "1",
    ]
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "the run is complete" in done.stdout

"""`make train-gpu`: train on a CUDA device, in pieces of under ten minutes that go on exactly where the last one ended.

    python -m training.train_gpu [--steps 4000] [--piece-s 540] [--run runs/train-gpu]

Needs torch, safetensors, tokenizers and numpy, and the batches that `make train-gpu-prepare` recorded.  bfloat16 where
it suffices, the forward compiled.  A piece ends with a checkpoint, and with the same in parts of at most 15 MiB in
`parts/`, from which the next one goes on where there is no checkpoint (on another machine).  The rate follows the
steps, not the clock, so pieces of any length make the same run.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from apply_service.errors import ApplyError
from apply_service.prompts.compact import Compact
from training.batch import Batch
from training.checkpoint import Progress
from training.parts import MANIFEST, join_parts, split_file
from training.recorded import Recorded
from training.train import MODEL_DIR, Trainer, TrainOptions

RUN = Path("runs/train-gpu")
END_S = 25.0
"""Kept for the checkpoint at the end of a piece."""
LOG_STEPS = 20


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    try:
        progress = run(options)
    except ApplyError as error:
        sys.exit(f"{error.code}: {error.message} ({error.value}); {error.remedy}")
    left = options.steps - progress.step
    print(f"{left} steps left; run the same command again" if left > 0 else "the run is complete")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m training.train_gpu", description=__doc__)
    add_piece_arguments(parser, run=RUN, steps=4_000, lr=TrainOptions.lr)
    parser.add_argument("--layers", type=int, default=TrainOptions.n_layers)
    parser.add_argument("--no-compile", action="store_true", help="eager forwards; a CPU has them anyway")
    parser.add_argument("--tokenizer-dir", type=Path, default=MODEL_DIR)
    options = parser.parse_args(arguments)
    options.batches = options.batches or options.run / "batches.safetensors.xz"
    return options


def add_piece_arguments(parser: argparse.ArgumentParser, *, run: Path | None, steps: int, lr: float) -> None:
    """The options of a command that trains in pieces, with its defaults."""
    parser.add_argument("--batches", type=Path, help="recorded batches; default: batches.safetensors.xz in --run")
    parser.add_argument("--run", type=Path, default=run, help="checkpoint and log; gone on with if there")
    parser.add_argument("--steps", type=int, default=steps, help="updates of the whole run")
    parser.add_argument("--piece-s", type=float, default=540.0, help="seconds that this call may take")
    parser.add_argument("--lr", type=float, default=lr)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--score-steps", type=int, default=250, help="updates between two scores on held-out batches")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))


def run(options: argparse.Namespace) -> Progress:
    """One piece.  Raises FileNotReadable: there are no recorded batches, or the parts of the checkpoint are damaged."""
    stop_s = time.monotonic() + options.piece_s - END_S
    recorded = Recorded.read(options.batches)
    return train_piece(open_trainer(options), recorded, options, score, stop_s)


class Trains(Protocol):
    """A run that is trained in pieces."""

    progress: Progress
    path: Path
    """Of its checkpoint."""

    @property
    def is_compiled(self) -> bool: ...
    def step(self, batch: Batch) -> float: ...
    def save(self) -> None: ...
    def leave_compiler(self) -> None: ...


Trainee = TypeVar("Trainee", bound=Trains)


def train_piece(
    trainer: Trainee,
    recorded: Recorded,
    options: argparse.Namespace,
    score: Callable[[Trainee, Sequence[Batch]], dict[str, float]],
    stop_s: float,
) -> Progress:
    """Steps until the run is complete or the clock says `stop_s`, then the checkpoint and its parts."""
    log = Log(options.run / "scores.jsonl")
    held_out = recorded.held_out_batches()
    if trainer.progress.step == 0:
        log.add(trainer.progress, None, score(trainer, held_out))
    batches = recorded.batches(trainer.progress.place)
    while trainer.progress.step < options.steps and time.monotonic() < stop_s:
        loss = step_of(trainer, next(batches))
        if not math.isfinite(loss):
            raise SystemExit(f"the loss is {loss} at step {trainer.progress.step}")
        step = trainer.progress.step
        if step % options.score_steps == 0 or step == options.steps:
            log.add(trainer.progress, loss, score(trainer, held_out))
        elif step % LOG_STEPS == 0:
            log.show(trainer.progress, loss)
    trainer.save()
    split_file(trainer.path, options.run / "parts")
    return trainer.progress


def open_trainer(options: argparse.Namespace) -> Trainer:
    """Where the last piece ended: its checkpoint, else its parts, else the start."""
    made = TrainOptions(
        run_dir=options.run,
        minutes=0.0,
        steps=options.steps,
        lr=options.lr,
        seed=options.seed,
        n_layers=options.layers,
        compiled=options.device == "cuda" and not options.no_compile,
    )
    bring_checkpoint(options.run)
    return Trainer(made, Compact.from_directory(options.tokenizer_dir), options.device)


def bring_checkpoint(run: Path) -> None:
    """Make the folder of a run, and put its checkpoint together where only the parts are."""
    run.mkdir(parents=True, exist_ok=True)
    checkpoint = run / "checkpoint.safetensors"
    if not checkpoint.exists() and (run / "parts" / MANIFEST).exists():
        join_parts(run / "parts", checkpoint)


def step_of(trainer: Trains, batch: Batch) -> float:
    """A step; from the moment on when the compiler fails its forward is eager: slower, but a run.  Returns the loss."""
    try:
        return trainer.step(batch)
    except Exception as error:  # a compiler raises anything; what is not its fault raises again
        if not trainer.is_compiled:
            raise
        print(f"not compiled any more: {type(error).__name__}: {str(error)[:2000]}", file=sys.stderr, flush=True)
    trainer.leave_compiler()
    return trainer.step(batch)


@torch.no_grad()
def score(trainer: Trainer, batches: Sequence[Batch]) -> dict[str, float]:
    """On held-out batches, each token given what is before it: the share of decisions (the output's control tokens, of
    any weight) whose best token is the right one, and their mean loss."""
    n_right, n_all, loss = 0, 0, 0.0
    for batch in batches:
        ids, positions = (torch.from_numpy(part).to(trainer.device) for part in (batch.ids, batch.positions))
        targets = ids[:, 1:]
        weights = torch.from_numpy(batch.weights[:, 1:]).to(trainer.device)
        places = ((weights > 0) & (targets >= trainer.compact.vocabulary.n_text)).nonzero()
        flat = places[:, 0] * ids.shape[1] + places[:, 1]
        with torch.autocast(trainer.device, torch.bfloat16, enabled=trainer.options.bf16):
            logits = trainer.network.logits(ids, positions, flat)
        wanted = targets[places[:, 0], places[:, 1]]
        n_right += int((logits.argmax(-1) == wanted).sum())
        n_all += len(wanted)
        loss += float(torch.nn.functional.cross_entropy(logits, wanted, reduction="sum"))
    return {"decisions_right": round(n_right / max(1, n_all), 6), "held_out_loss": round(loss / max(1, n_all), 6)}


class Log:
    """Scores as lines of a file, and everything on standard output."""

    def __init__(self, path: Path, show: Callable[..., None] = print) -> None:
        self._path = path
        self._show = show

    def add(self, progress: Progress, loss: float | None, found: dict[str, Any]) -> None:
        row = _row(progress, loss) | found
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        self._show(json.dumps(row), flush=True)

    def show(self, progress: Progress, loss: float) -> None:
        self._show(json.dumps(_row(progress, loss)), flush=True)


def _row(progress: Progress, loss: float | None) -> dict[str, Any]:
    rate = progress.tokens / max(progress.seconds, 1e-9)
    return {
        "step": progress.step,
        "tokens": progress.tokens,
        "minutes": round(progress.seconds / 60, 2),
        "tokens_per_s": round(rate),
        "loss": None if loss is None else round(loss, 6),
    }


if __name__ == "__main__":
    raise SystemExit(main())

"""`python -m training.train`: train the embedded model from scratch on this machine, bounded by minutes or steps.

Resumes by itself where its run directory holds a checkpoint.  Evaluates on held-out repositories as it goes; the
export is a command of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812

from apply_service.models import embedded_directory
from apply_service.prompts.compact import Compact
from training.batch import Batch
from training.checkpoint import Progress, load_checkpoint, save_checkpoint
from training.corpus import read_edits, split_by_repository
from training.initialisation import initialise
from training.model import Network, Shape
from training.optimizer import build_optimizers, set_rate
from training.sample_mix import SampleMix

if TYPE_CHECKING:
    # Making and scoring samples takes the merger; a step takes torch alone (`training.train_gpu`).
    from training.batches import StreamOptions
    from training.evaluate import EvalCase, Score

MODEL_DIR = embedded_directory()
WARM_UP = 20
CLIP = 1.0
TEXT_SHARE = 0.25
"""Share of the text tokens whose loss is computed; their weight makes up for it."""
SHORT_MIX = SampleMix(no_hints=0.5, unhinted_weight=1.0)
"""Half of the prompts without hints, where there is everything to learn."""
SHORT: Mapping[str, Any] = {
    "mix": SHORT_MIX,
    "lr": 1e-3,
    "batch_tokens": 4096,
    "max_lines": 60,
    "curriculum": 1500,
    "score_minutes": 2.5,
}
"""Options of a run of minutes: small files, and a rate so high that it wears the circuits down a little."""


@dataclass(frozen=True)
class TrainOptions:
    """What decides a run, besides its data."""

    run_dir: Path
    minutes: float
    steps: int | None = None
    lr: float = 1.5e-4
    seed: int = 0
    n_layers: int = 5
    circuits: bool = True
    """Whether the network starts with its circuits; without them it starts at random, and all of it learns."""
    bf16: bool = True
    compiled: bool = False
    """Whether the forward is compiled: minutes at the start, for runs on a GPU."""
    save_minutes: float = 4.0
    score_minutes: float = 8.0
    n_cases: int = 60


class Trainer:
    """One run: network, optimizers and where it stands."""

    def __init__(self, options: TrainOptions, compact: Compact, device: str = "cpu") -> None:
        self.options = options
        self.compact = compact
        self.device = device
        self.network = Network(Shape(compact.vocabulary.n_tokens, n_layers=options.n_layers))
        initialise(self.network, compact.vocabulary, seed=options.seed, circuits=options.circuits)
        self.network.to(device)
        self._logits = torch.compile(self.network.logits, dynamic=True) if options.compiled else self.network.logits
        self.optimizers = build_optimizers(self.network, lr=options.lr, has_circuits=options.circuits)
        self.progress = Progress()
        self.path = options.run_dir / "checkpoint.safetensors"
        if self.path.exists():
            self.progress = load_checkpoint(self.path, self.network, self.optimizers)

    @property
    def share_done(self) -> float:
        """How much of the budget is spent, 0 to 1."""
        if self.options.steps is not None:
            return self.progress.step / self.options.steps
        return self.progress.seconds / (60 * self.options.minutes)

    def save(self) -> None:
        save_checkpoint(self.path, self.network, self.optimizers, self.progress)

    @property
    def is_compiled(self) -> bool:
        return self._logits != self.network.logits

    def leave_compiler(self) -> None:
        """Forwards are eager from now on; what a step left that broke off is dropped."""
        self._logits = self.network.logits
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def step(self, batch: Batch) -> float:
        """One update; returns the loss."""
        start = time.perf_counter()
        set_rate(self.optimizers, rate_at(self.progress.step, self.share_done))
        loss = self._loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), CLIP)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        seconds = time.perf_counter() - start
        self.progress = self.progress.after(tokens=int(batch.ids.size), seconds=seconds, place=batch.following)
        return value

    def _loss(self, batch: Batch) -> torch.Tensor:
        """Weighted cross entropy of the output's tokens, a random share of the text among them."""
        rng = np.random.default_rng((self.options.seed, self.progress.step))
        targets, weights = batch.ids[:, 1:], batch.weights[:, 1:].copy()
        is_text = targets < self.compact.vocabulary.n_text
        weights[is_text] *= (rng.random(int(is_text.sum())) < TEXT_SHARE) / TEXT_SHARE
        rows, columns = np.nonzero(weights)
        flat = torch.from_numpy(rows * batch.ids.shape[1] + columns).to(self.device)
        ids, positions = (torch.from_numpy(part).to(self.device) for part in (batch.ids, batch.positions))
        with torch.autocast(self.device, torch.bfloat16, enabled=self.options.bf16):
            logits = self._logits(ids, positions, flat)
        losses = F.cross_entropy(logits, torch.from_numpy(targets[rows, columns]).to(self.device), reduction="none")
        weight = torch.from_numpy(weights[rows, columns]).to(self.device)
        return (losses * weight).sum() / weight.sum()


def rate_at(step: int, share_done: float) -> float:
    """Warm up, hold, and fall to a twentieth over the last 70%."""
    warm = min(1.0, (step + 1) / WARM_UP)
    return warm * min(1.0, max(0.05, (1 - share_done) / 0.7))


def run(options: TrainOptions, stream: StreamOptions, *, is_stopped: Callable[[], bool] = lambda: False) -> Progress:
    """Train until the budget is spent; checkpoints and a log of scores lie in the run directory."""
    from training.batches import BatchWorker
    from training.evaluate import score_cases, validation_cases

    options.run_dir.mkdir(parents=True, exist_ok=True)
    compact = Compact.from_directory(stream.tokenizer_dir)
    trainer = Trainer(options, compact)
    _, held_out = split_by_repository(read_edits(stream.data))
    cases = validation_cases(held_out, compact, n_cases=options.n_cases, seed=1)
    if trainer.progress.step == 0:
        _log(options.run_dir, trainer.progress, score_cases(trainer.network, cases), [])
    with BatchWorker(stream, trainer.progress.place) as batches:
        _loop(trainer, iter(batches), cases, is_stopped)
    return trainer.progress


def _loop(
    trainer: Trainer, batches: Iterator[Batch], cases: Sequence[EvalCase], is_stopped: Callable[[], bool]
) -> None:
    from training.evaluate import score_cases

    options, losses = trainer.options, list[float]()
    next_save, next_score = time.monotonic() + 60 * options.save_minutes, time.monotonic() + 60 * options.score_minutes
    while trainer.share_done < 1 and not is_stopped():
        losses.append(trainer.step(next(batches)))
        if not math.isfinite(losses[-1]):
            raise SystemExit(f"the loss is {losses[-1]} at step {trainer.progress.step}")
        if trainer.progress.step % 20 == 0:
            _print(trainer.progress, losses[-20:])
        if time.monotonic() > next_save:
            trainer.save()
            next_save = time.monotonic() + 60 * options.save_minutes
        if time.monotonic() > next_score:
            _log(options.run_dir, trainer.progress, score_cases(trainer.network, cases), losses)
            losses, next_score = [], time.monotonic() + 60 * options.score_minutes
    trainer.save()
    if not is_stopped():
        _log(options.run_dir, trainer.progress, score_cases(trainer.network, cases), losses)


def _print(progress: Progress, losses: Sequence[float]) -> None:
    rate = progress.tokens / max(progress.seconds, 1e-9)
    print(
        f"step {progress.step}  {progress.tokens / 1e6:.2f}M tokens  {progress.seconds / 60:.1f} min  "
        f"{rate:.0f} tok/s  loss {np.mean(losses):.4f}",
        flush=True,
    )


def _log(run_dir: Path, progress: Progress, score: Score, losses: Sequence[float]) -> None:
    row = {
        "step": progress.step,
        "tokens": progress.tokens,
        "minutes": round(progress.seconds / 60, 2),
        "loss": round(float(np.mean(losses)), 4) if losses else None,
        **score.as_dict(),
    }
    with (run_dir / "scores.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def read_mix(text: str) -> SampleMix:
    """`no_hints=0.5,text_weight=1` -> the mix with these values, the others at their defaults.  Raises
    argparse.ArgumentTypeError: no such value, or no number."""
    try:
        pairs = (part.partition("=") for part in text.split(",") if part)
        return replace(SampleMix(), **{name: float(value) for name, _, value in pairs})
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from error


def main() -> None:
    from training.batches import add_stream_arguments, stream_of

    parser = argparse.ArgumentParser(description="train the embedded model from scratch")
    add_stream_arguments(parser)
    parser.add_argument("--run", type=Path, default=Path("runs/embedded"), help="checkpoint and log; resumed if there")
    parser.add_argument("--minutes", type=float, default=5.0, help="training time in all, resumed time included")
    parser.add_argument("--steps", type=int, help="updates in all, instead of minutes")
    parser.add_argument("--lr", type=float, default=TrainOptions.lr)
    parser.add_argument("--layers", type=int, default=TrainOptions.n_layers)
    parser.add_argument("--mix", type=read_mix, default=SampleMix(), help="of samples: no_hints=0.5,text_weight=1 ...")
    parser.add_argument("--score-minutes", type=float, default=TrainOptions.score_minutes, help="between two scores")
    parser.add_argument("--short", action="store_true", help="the recipe for minutes: SHORT, unless said otherwise")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--fp32", action="store_true", help="for CPUs without bfloat16 instructions")
    if parser.parse_known_args()[0].short:
        parser.set_defaults(**SHORT)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())  # ends after the step under way, saved
    same = {name: getattr(arguments, name) for name in ("minutes", "steps", "lr", "seed", "score_minutes")}
    options = TrainOptions(run_dir=arguments.run, n_layers=arguments.layers, bf16=not arguments.fp32, **same)
    run(options, stream_of(arguments, arguments.mix), is_stopped=stopped.is_set)


if __name__ == "__main__":
    main()

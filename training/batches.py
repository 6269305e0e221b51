"""Batches of samples, in a fixed endless order, made by a worker process ahead of the training step.

The order is a function of (seed, place): a run that resumes from a saved place sees the very batches it would have
seen.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import queue
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from apply_service.models import embedded_directory
from apply_service.prompts.compact import Compact
from training.batch import Batch as Batch
from training.batch import Place as Place
from training.batch import padded
from training.corpus import read_edits, split_by_repository
from training.sample_mix import SampleMix
from training.samples import Sample, SampleMaker

CHUNK = 64
"""Samples that are sorted by length together."""
QUEUE_BATCHES = 8
WAIT_S = 10.0


@dataclass(frozen=True)
class StreamOptions:
    """What decides the batches."""

    data: Path
    tokenizer_dir: Path
    seed: int = 0
    batch_tokens: int = 8192
    max_tokens: int = 4096
    first_lines: int = 14
    last_lines: int = 130
    curriculum_samples: int = 3000
    mix: SampleMix = field(default_factory=SampleMix)

    def max_lines(self, sample: int) -> int:
        """The limit of original lines grows geometrically over the curriculum."""
        share = min(1.0, sample / max(1, self.curriculum_samples))
        growth: float = (self.last_lines / self.first_lines) ** share
        return round(self.first_lines * growth)


def add_stream_arguments(parser: argparse.ArgumentParser, *, batch_tokens: int = StreamOptions.batch_tokens) -> None:
    """The options of a command that makes batches."""
    parser.add_argument("--data", type=Path, default=Path(), help="windows (.jsonl.xz) or a local git repository")
    parser.add_argument("--tokenizer-dir", type=Path, default=embedded_directory())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-tokens", type=int, default=batch_tokens)
    parser.add_argument("--max-lines", type=int, default=StreamOptions.last_lines)
    parser.add_argument("--curriculum", type=int, default=StreamOptions.curriculum_samples, help="samples")


def stream_of(arguments: argparse.Namespace, mix: SampleMix | None = None) -> StreamOptions:
    """What the options of `add_stream_arguments` say."""
    return StreamOptions(
        arguments.data,
        arguments.tokenizer_dir,
        seed=arguments.seed,
        batch_tokens=arguments.batch_tokens,
        last_lines=arguments.max_lines,
        curriculum_samples=arguments.curriculum,
        mix=mix or SampleMix(),
    )


def generate(options: StreamOptions, place: Place) -> Iterator[Batch]:
    """All batches from `place` on."""
    compact = Compact.from_directory(options.tokenizer_dir)
    edits, _ = split_by_repository(read_edits(options.data))
    maker = SampleMaker(edits, compact, seed=options.seed, mix=options.mix)
    chunk, skip = place
    while True:
        yield from batches_of_chunk(maker, options, chunk, compact.vocabulary.pad)[skip:]
        chunk, skip = chunk + 1, 0


def batches_of_chunk(maker: SampleMaker, options: StreamOptions, chunk: int, pad: int) -> list[Batch]:
    """The batches of one chunk of samples, in their order."""
    indices = range(chunk * CHUNK, (chunk + 1) * CHUNK)
    made = (maker.make(index, max_lines=options.max_lines(index)) for index in indices)
    samples = [sample for sample in made if sample is not None and len(sample.ids) <= options.max_tokens]
    groups: list[list[Sample]] = []
    for sample in sorted(samples, key=lambda s: len(s.ids), reverse=True):
        if not groups or (len(groups[-1]) + 1) * len(groups[-1][0].ids) > options.batch_tokens:
            groups.append([])
        groups[-1].append(sample)
    random.Random(f"order {options.seed} {chunk}").shuffle(groups)
    last = len(groups) - 1
    places = [Place(chunk, at + 1) if at < last else Place(chunk + 1) for at in range(len(groups))]
    parts = [[(sample.ids, sample.positions, sample.weights) for sample in group] for group in groups]
    return [padded(group, pad, place) for group, place in zip(parts, places, strict=True)]


class BatchWorker:
    """`generate` in a process of its own, a few batches ahead.  A context manager."""

    def __init__(self, options: StreamOptions, place: Place) -> None:
        context = multiprocessing.get_context("spawn")
        self._queue: multiprocessing.Queue[Batch] = context.Queue(QUEUE_BATCHES)
        self._process = context.Process(target=put_batches, args=(options, place, self._queue), daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.join()

    def __iter__(self) -> Iterator[Batch]:
        while True:
            try:
                yield self._queue.get(timeout=WAIT_S)
            except queue.Empty:
                if not self._process.is_alive():
                    raise SystemExit(f"the batch worker ended with {self._process.exitcode}") from None


def put_batches(options: StreamOptions, place: Place, out: multiprocessing.Queue[Batch]) -> None:
    """The work of the process."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for batch in generate(options, place):
        out.put(batch)

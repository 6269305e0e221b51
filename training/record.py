"""`make train-gpu-prepare`: record batches for `training.train_gpu`, where the project is installed whole.

    python -m training.record --data FILE.jsonl.xz [--chunks 600] [--batch-tokens 65536] [--out FILE.safetensors.xz]

A chunk is 64 samples, about 65,000 tokens; they are kept as `training.batches` makes them, one after the other.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from apply_service.prompts.compact import Compact
from training.batch import Batch, Place, Unpadded, padded
from training.batches import StreamOptions, add_stream_arguments, batches_of_chunk, generate, stream_of
from training.corpus import read_edits, split_by_repository
from training.recorded import Recorded, unpadded
from training.samples import SampleMaker

OUT = Path("runs/train-gpu/batches.safetensors.xz")


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    recorded = record(stream_of(options), options.chunks, options.held_out_chunks)
    recorded.write(options.out)
    n_tokens = sum(len(ids) for chunk in recorded.chunks for group in chunk for ids, _, _ in group)
    print(f"{options.out}: {len(recorded.chunks)} chunks, {n_tokens:,} tokens, {options.out.stat().st_size:,} bytes")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m training.record", description=__doc__)
    add_stream_arguments(parser, batch_tokens=65_536)
    parser.add_argument("--chunks", type=int, default=600, help="of 64 samples each")
    parser.add_argument("--held-out-chunks", type=int, default=4, help="of repositories that are not trained on")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args(arguments)


def record(stream: StreamOptions, n_chunks: int, n_held_out: int) -> Recorded:
    """The first chunks of a stream, and some of held-out repositories.  Raises ValueError: a sample would not come back
    as it was."""
    compact = Compact.from_directory(stream.tokenizer_dir)
    pad = compact.vocabulary.pad
    chunks: list[list[Unpadded]] = [[] for _ in range(n_chunks)]
    chunk = 0
    for batch in generate(stream, Place()):
        if chunk >= n_chunks:
            break
        chunks[chunk].append(_kept(batch, pad))
        chunk = batch.following.chunk
    _, edits = split_by_repository(read_edits(stream.data))
    maker = SampleMaker(edits, compact, seed=stream.seed + 1, mix=stream.mix)
    held_out = [
        _kept(batch, pad) for chunk in range(n_held_out) for batch in batches_of_chunk(maker, stream, chunk, pad)
    ]
    origin = {"data": stream.data.name, "seed": stream.seed, "batch_tokens": stream.batch_tokens}
    return Recorded([chunk for chunk in chunks if chunk], held_out, pad, origin)


def _kept(batch: Batch, pad: int) -> Unpadded:
    group = unpadded(batch, pad)
    again = padded(group, pad, batch.following)
    pairs = ((again.ids, batch.ids), (again.positions, batch.positions), (again.weights, batch.weights))
    if not all(np.array_equal(a, b) for a, b in pairs):
        raise ValueError("a sample ends with padding")
    return group


if __name__ == "__main__":
    raise SystemExit(main())

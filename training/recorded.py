"""A stream of batches recorded in a file, for machines that cannot make samples: read, never made, here.

The file holds whole chunks of `training.batches.generate`, batch for batch, so a run over it sees the very batches that
it would have seen; after the last chunk it begins again.  Compressed safetensors; `training.record` writes it.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from apply_service.errors import FileNotReadable
from training.batch import Array, Batch, Place, Unpadded, padded


@dataclass(frozen=True)
class Recorded:
    """`chunks[c][b]` are the samples of a batch; `held_out` are batches of repositories that are not trained on."""

    chunks: Sequence[Sequence[Unpadded]]
    held_out: Sequence[Unpadded]
    pad: int
    origin: Mapping[str, Any]

    def batches(self, place: Place) -> Iterator[Batch]:
        """All batches from `place` on, without end."""
        chunk, skip = place
        while True:
            groups = self.chunks[chunk % len(self.chunks)]
            for at in range(skip, len(groups)):
                following = Place(chunk, at + 1) if at + 1 < len(groups) else Place(chunk + 1)
                yield padded(groups[at], self.pad, following)
            chunk, skip = chunk + 1, 0

    def held_out_batches(self) -> list[Batch]:
        """In a fixed order; their places mean nothing."""
        return [padded(group, self.pad, Place()) for group in self.held_out]

    def write(self, path: Path) -> None:
        """One file, whole or not at all."""
        arrays = _flat("train", [group for chunk in self.chunks for group in chunk]) | _flat("held_out", self.held_out)
        arrays["chunks"] = np.array([len(chunk) for chunk in self.chunks], np.int32)
        header = {"origin": json.dumps(dict(self.origin)), "pad": str(self.pad)}
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_bytes(lzma.compress(save(arrays, metadata=header), preset=2))
        partial.replace(path)

    @classmethod
    def read(cls, path: Path) -> Recorded:
        """Raises FileNotReadable: it is not there, or not such a file."""
        try:
            raw = lzma.decompress(path.read_bytes())
            arrays = load(raw)
            header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])["__metadata__"]
            groups, bounds = _groups("train", arrays), np.concatenate([[0], np.cumsum(arrays["chunks"])])
        except Exception as error:  # whatever the two formats trip over
            raise FileNotReadable(
                f"the recorded batches can't be read: {error}",
                value=str(path),
                remedy="make them where the project is installed whole: make train-gpu-prepare",
            ) from error
        chunks = [groups[int(a) : int(b)] for a, b in pairwise(bounds)]
        return cls(chunks, _groups("held_out", arrays), int(header["pad"]), json.loads(header["origin"]))


def unpadded(batch: Batch, pad: int) -> Unpadded:
    """Its samples; no sample ends with padding."""
    lengths = [int(np.flatnonzero(row != pad)[-1]) + 1 for row in batch.ids]
    return [(batch.ids[row, :n], batch.positions[row, :n], batch.weights[row, :n]) for row, n in enumerate(lengths)]


def _flat(name: str, groups: Sequence[Unpadded]) -> dict[str, Array]:
    """Small numbers, which compress well: positions as steps, weights as indices of the few there are."""
    samples = [sample for group in groups for sample in group]
    ids = [ids for ids, _, _ in samples]
    palette, codes = np.unique(_joined([weights for _, _, weights in samples], np.float32), return_inverse=True)
    if len(palette) > 256:
        raise ValueError(f"{len(palette)} different weights")
    return {
        f"{name}/ids": _joined(ids, np.uint16 if max(map(np.max, ids), default=0) < 2**16 else np.uint32),
        f"{name}/steps": _joined([np.diff(positions, prepend=0) for _, positions, _ in samples], np.int16),
        f"{name}/codes": codes.astype(np.uint8),
        f"{name}/palette": palette.astype(np.float32),
        f"{name}/lengths": np.array([len(ids) for ids, _, _ in samples], np.int32),
        f"{name}/batches": np.array([len(group) for group in groups], np.int32),
    }


def _joined(parts: Sequence[Array], kind: type) -> Array:
    joined = np.concatenate(parts) if parts else np.zeros(0)
    found: Array = joined.astype(kind)
    if not np.array_equal(found.astype(joined.dtype), joined):
        raise ValueError(f"numbers that {kind.__name__} can't hold")
    return found


def _groups(name: str, arrays: Mapping[str, Array]) -> list[Unpadded]:
    ends = np.cumsum(arrays[f"{name}/lengths"])[:-1]
    ids = np.split(arrays[f"{name}/ids"].astype(np.int64), ends)
    positions = [np.cumsum(part) for part in np.split(arrays[f"{name}/steps"].astype(np.int64), ends)]
    weights = np.split(arrays[f"{name}/palette"][arrays[f"{name}/codes"]], ends)
    samples = list(zip(ids, positions, weights, strict=True))
    bounds = np.concatenate([[0], np.cumsum(arrays[f"{name}/batches"])])
    return [samples[int(a) : int(b)] for a, b in pairwise(bounds)]

"""A prompt format over raw bytes: with `engine.fake` a public test double that needs no vocabulary and no weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from apply_service.prompts.constraint import SourceConstraint, source_lines
from apply_service.prompts.tagged import UntaggedOutput
from apply_service.prompts.tokenizer import Encoded, VocabularyBytes
from apply_service.protocols import CompletingConstraint, DraftSource, DraftSources, EditJob

ORIGINAL, UPDATE, MERGED, END = range(256, 260)
N_VOCAB = 260
BYTES = VocabularyBytes({byte: bytes([byte]) for byte in range(256)})


class PlainBytes(UntaggedOutput):
    """Prompt: ORIGINAL bytes UPDATE bytes MERGED; output: bytes END."""

    name = "plain_bytes"

    def __init__(self) -> None:
        super().__init__(END)

    def encode_prompt(self, job: EditJob) -> list[int]:
        return [ORIGINAL, *job.original.encode(), UPDATE, *job.update.encode(), MERGED]

    def encode_sources(self, job: EditJob) -> DraftSources:
        def source(name: Literal["predicted", "original", "update"], text: str) -> DraftSource:
            ids, starts = encode_bytes(text)
            return DraftSource(name, text, np.array([*ids, END], np.int64), np.append(starts, len(text)))

        predicted, original = source("predicted", job.prediction.text), source("original", job.original)
        places = np.arange(len(predicted.ids) + 1)
        return DraftSources(
            predicted=predicted,
            original=original,
            update=source("update", job.update),
            predicted_to_original=np.minimum(places, len(original.ids)),
            predicted_to_update=np.zeros_like(places),
            encode=lambda text: encode_bytes(text).ids,
            decode=decode_bytes,
        )

    def decode(self, ids: Sequence[int]) -> str:
        return decode_bytes(ids)

    def constraint(self, job: EditJob) -> CompletingConstraint | None:
        return SourceConstraint(BYTES, source_lines(job), end_id=END, encode=lambda text: list(text.encode()))


def encode_bytes(text: str) -> Encoded:
    """UTF-8 bytes as ids; all bytes of a character start where it does."""
    sizes = [len(char.encode()) for char in text]
    starts = np.repeat(np.arange(len(text)), sizes) if text else np.zeros(0, np.int64)
    return Encoded(list(text.encode()), np.append(starts, len(text)).astype(np.int64))


def decode_bytes(ids: Sequence[int]) -> str:
    return bytes(i for i in ids if i < 256).decode(errors="replace")

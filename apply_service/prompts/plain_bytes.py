"""A prompt format over raw bytes: with `engine.fake` a public test double that needs no vocabulary and no weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from apply_service.errors import Truncated
from apply_service.prompts.source_constraint import SourceConstraint, source_lines
from apply_service.prompts.token_lines import lines_of_tokens
from apply_service.prompts.tokenizer import Encoded, IncrementalDecoder
from apply_service.prompts.vocabulary_bytes import VocabularyBytes
from apply_service.protocols import CompletingConstraint, DraftSource, DraftSources, EditJob, StopFinder, TextStream

ORIGINAL, UPDATE, MERGED, END = range(256, 260)
N_VOCAB = 260
BYTES = VocabularyBytes({byte: bytes([byte]) for byte in range(256)})


class PlainBytes:
    """Prompt: ORIGINAL bytes UPDATE bytes MERGED; output: bytes END."""

    name = "plain_bytes"
    stop_ids = frozenset({END})
    takes_instructions = False
    constrains_by_default = False

    def encode_prompt(self, job: EditJob) -> list[int]:
        return [ORIGINAL, *job.original.encode(), UPDATE, *job.update.encode(), MERGED]

    def encode_sources(self, job: EditJob) -> DraftSources:
        predicted = _source("predicted", job.prediction.text)
        original, update = _source("original", job.original), _source("update", job.update)
        places = np.arange(len(predicted.ids) + 1)
        return DraftSources(
            predicted=predicted,
            original=original,
            update=update,
            predicted_to_original=np.minimum(places, len(original.ids)),
            predicted_to_update=np.zeros_like(places),
            encode=lambda text: encode_bytes(text).ids,
            decode=decode_bytes,
        )

    def decode_output(self, ids: Sequence[int]) -> str:
        if not ids or ids[-1] != END:
            raise Truncated("the output lacks its end token", remedy="allow more tokens")
        return decode_bytes(ids)

    def open_stream(self) -> TextStream:
        return IncrementalDecoder(decode_bytes)

    def lines_of(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        return lines_of_tokens(ids, decode_bytes)

    def stop_finder(self, job: EditJob) -> StopFinder | None:  # noqa: ARG002
        return None

    def constraint(self, job: EditJob) -> CompletingConstraint | None:
        return SourceConstraint(BYTES, source_lines(job), end_id=END, encode=lambda text: list(text.encode()))


def encode_bytes(text: str) -> Encoded:
    """UTF-8 bytes as ids; all bytes of a character start where it does."""
    sizes = [len(char.encode()) for char in text]
    starts = np.repeat(np.arange(len(text)), sizes) if text else np.zeros(0, np.int64)
    return Encoded(list(text.encode()), np.append(starts, len(text)).astype(np.int64))


def decode_bytes(ids: Sequence[int]) -> str:
    return bytes(i for i in ids if i < 256).decode(errors="replace")


def _source(name: Literal["predicted", "original", "update"], text: str) -> DraftSource:
    ids, starts = encode_bytes(text)
    return DraftSource(name, text, np.array([*ids, END], np.int64), np.append(starts, len(text)))

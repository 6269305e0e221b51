"""A prompt format over raw bytes: with `fake_engine` a test double that needs no vocabulary and no weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from apply_service.errors import Truncated
from apply_service.prompts.tokenizer import Encoded, IncrementalDecoder, lines_of_tokens
from apply_service.protocols import Constraint, DraftSource, DraftSources, EditJob, StopFinder, TextStream, TokenSet

ORIGINAL, UPDATE, MERGED, END = range(256, 260)
N_VOCAB = 260


class PlainBytes:
    """Prompt: ORIGINAL bytes UPDATE bytes MERGED; output: bytes END."""

    name = "plain_bytes"
    takes_instructions = False
    constrains_by_default = False
    stop_ids = frozenset({END})

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

    def decode_output(self, ids: Sequence[int]) -> str:
        if not ids or ids[-1] != END:
            raise Truncated("the output lacks its end token", remedy="allow more tokens")
        return self.decode(ids)

    def open_stream(self) -> TextStream:
        return IncrementalDecoder(self.decode)

    def lines_of(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        return lines_of_tokens(ids, self.decode)

    def stop_finder(self, job: EditJob) -> StopFinder | None:
        return None

    def constraint(self, job: EditJob) -> Constraint | None:
        update = [op.text for op in job.prediction.ops if op.update_line is not None and op.kind != "drop"]
        return ByteLines([*job.original.split("\n"), *update])


class ByteLines:
    """Every line of the output is one of `lines`: a constraint without a state."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = {line.encode() for line in lines}

    def _following(self, ids: Sequence[int]) -> set[int]:
        if END in ids:
            return {END}
        begun = bytes(ids).rpartition(b"\n")[2]
        units = [line + b"\n" for line in self._lines if (line + b"\n").startswith(begun)]
        return {unit[len(begun)] for unit in units} | ({END} if begun in self._lines or not begun else set())

    def masks(self, output_ids: Sequence[int], draft_ids: Sequence[int]) -> Sequence[TokenSet | None]:
        found = []
        for n_drafted in range(len(draft_ids) + 1):
            allowed = self._following([*output_ids, *draft_ids[:n_drafted]])
            found.append(np.array(sorted(allowed), np.int64) if allowed else None)  # None: after a forbidden draft
        return found

    def completed(self, output_ids: Sequence[int], draft_ids: Sequence[int], limit: int) -> Sequence[int]:
        return draft_ids


def encode_bytes(text: str) -> Encoded:
    """UTF-8 bytes as ids; all bytes of a character start where it does."""
    sizes = [len(char.encode()) for char in text]
    starts = np.repeat(np.arange(len(text)), sizes) if text else np.zeros(0, np.int64)
    return Encoded(list(text.encode()), np.append(starts, len(text)).astype(np.int64))


def decode_bytes(ids: Sequence[int]) -> str:
    return bytes(i for i in ids if i < 256).decode(errors="replace")

"""The embedded model's prompt format: an annotated listing in, an annotated listing out.

Prompt: `<|original|>` its lines, `<|update|>` its lines, `<|merge|>`; each line is a tag and its text, and the tags
tell what the predicted merge would do with it (`compact_hints`).  Output: for every operation of the merge its tag and
its line, dropped lines included, then `<|end|>`.  The tag is the target's decision; the text after it is determined,
which `line_constraint` makes a guarantee.  Text <-> ids only: nothing is merged here.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from apply_service.errors import Truncated
from apply_service.prompts.compact_hints import Hints, hints_of, no_hints, op_tag, with_added_lines
from apply_service.prompts.compact_lines import LineVocabulary
from apply_service.prompts.line_constraint import LineConstraint
from apply_service.protocols import (
    CompletingConstraint,
    DraftSource,
    DraftSources,
    EditJob,
    StopFinder,
    TextStream,
    TokenIds,
)
from apply_service.types import LineOp

Places = npt.NDArray[np.int64]


class Compact:
    """`PromptFormat` of the embedded model."""

    name = "compact"
    takes_instructions = False
    constrains_by_default = True

    def __init__(self, vocabulary: LineVocabulary) -> None:
        self.vocabulary = vocabulary
        self.stop_ids = frozenset({vocabulary.end})

    @classmethod
    def from_directory(cls, directory: Path) -> Compact:
        """Raises ModelNotLoadable where `tokenizer.json` is missing or lacks the format's control tokens."""
        return cls(LineVocabulary.from_file(directory / "tokenizer.json"))

    # -- prompt --------------------------------------------------------------------------------------------------------
    def encode_prompt(self, job: EditJob) -> list[int]:
        original, prediction = job.original.split("\n"), with_added_lines(job.prediction)
        hints = hints_of(self.vocabulary, prediction.ops, len(original), len(prediction.update_lines))
        return self.encode_listing(original, prediction.update_lines, hints)

    def encode_listing(self, original: Sequence[str], update: Sequence[str], hints: Hints | None) -> list[int]:
        """The prompt's ids; None gives no hints (training drops them at times)."""
        vocabulary = self.vocabulary
        hints = no_hints(vocabulary, len(original), len(update)) if hints is None else hints
        ids = [vocabulary.original]
        if hints.first is not None:
            ids.append(hints.first)
        _append_lines(ids, vocabulary.encode_lines(original), hints.original, hints.after_original)
        ids.append(vocabulary.update)
        _append_lines(ids, vocabulary.encode_lines(update), hints.update, hints.after_update)
        ids.append(vocabulary.merge)
        return ids

    # -- output --------------------------------------------------------------------------------------------------------
    def encode_ops(self, ops: Sequence[LineOp]) -> list[int]:
        """The output that carries out `ops`, end token included."""
        return [*_encode(self.vocabulary, ops).ids.tolist(), self.vocabulary.end]

    def decode_output(self, ids: Sequence[int]) -> str:
        if self.vocabulary.end not in ids:
            raise Truncated("the output lacks its end token", remedy="allow more tokens")
        stream = self.open_stream()
        return stream.push(ids) + stream.finish()

    def open_stream(self) -> TextStream:
        return ListingStream(self.vocabulary)

    def lines_of(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """A tag decides the line that it opens; that of a dropped line, and the end, the one that would come there."""
        lines: list[tuple[int, int]] = []
        n_begun, is_dropping = 0, False
        for token in ids:
            is_mark = self.vocabulary.is_tag(token) or token == self.vocabulary.end
            if is_mark:
                is_dropping = token == self.vocabulary.end or self.vocabulary.kind_of(token) == "drop"
            line = n_begun if is_mark or is_dropping else n_begun - 1
            lines.append((line, line))
            n_begun += is_mark and not is_dropping
        return lines

    def stop_finder(self, job: EditJob) -> StopFinder | None:  # noqa: ARG002
        return None

    def constraint(self, job: EditJob) -> CompletingConstraint | None:
        prediction = with_added_lines(job.prediction)
        pairs = ((op.original_line, op.update_line) for op in prediction.ops if op.kind == "both")
        matches = {original: update for original, update in pairs if original is not None and update is not None}
        original = job.original.split("\n")
        return LineConstraint(self.vocabulary, original, prediction.update_lines, matches)

    # -- drafts --------------------------------------------------------------------------------------------------------
    def encode_sources(self, job: EditJob) -> DraftSources:
        prediction = with_added_lines(job.prediction)
        ops = prediction.ops
        keeps = [LineOp("keep", i, None, line) for i, line in enumerate(job.original.split("\n"))]
        takes = [LineOp("take", None, i, line) for i, line in enumerate(prediction.update_lines)]
        predicted, original, update = (_encode(self.vocabulary, lines) for lines in (ops, keeps, takes))
        return DraftSources(
            predicted=predicted.source("predicted", self.vocabulary, is_ended=True),
            original=original.source("original", self.vocabulary),
            update=update.source("update", self.vocabulary),
            predicted_to_original=_alignment(predicted, original, [op.original_line for op in ops]),
            predicted_to_update=_alignment(predicted, update, [op.update_line for op in ops]),
            encode=self.vocabulary.encode_text,
            decode=self._decode_text,
        )

    def _decode_text(self, ids: Sequence[int]) -> str:
        return self.vocabulary.decode_bytes(ids).decode(errors="replace")


def _append_lines(ids: list[int], lines: Iterable[TokenIds], tags: Sequence[int], after: Sequence[int | None]) -> None:
    for line, tag, bare in zip(lines, tags, after, strict=True):
        ids.append(tag)
        ids += line.tolist()
        if bare is not None:
            ids.append(bare)


class _Listing(NamedTuple):
    """Encoded operations: `ids` [n_tokens], where each line starts [n_lines + 1], and the text of all lines, dropped
    ones included."""

    ids: TokenIds
    line_starts: Places
    text: str

    def source(
        self, name: Literal["predicted", "original", "update"], vocabulary: LineVocabulary, *, is_ended: bool = False
    ) -> DraftSource:
        ids = np.append(self.ids, vocabulary.end) if is_ended else self.ids
        starts = np.concatenate([[0], np.cumsum(vocabulary.byte_lengths(ids))])
        return DraftSource(name, self.text, ids, _chars_of_bytes(self.text, starts))


def _encode(vocabulary: LineVocabulary, ops: Sequence[LineOp]) -> _Listing:
    lines = vocabulary.encode_lines([op.text for op in ops])
    pieces: list[TokenIds] = []
    for op, line in zip(ops, lines, strict=True):
        pieces += (vocabulary.singles[op_tag(vocabulary, op)], line)
    starts = np.fromiter(accumulate((len(line) + 1 for line in lines), initial=0), np.int64, len(lines) + 1)
    ids = np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
    return _Listing(ids, starts, "".join(["\n" + op.text for op in ops]))


def _chars_of_bytes(text: str, places: Places) -> Places:
    """Byte offsets as character offsets; a place inside a character counts as its start."""
    if text.isascii():
        return places
    encoded = np.frombuffer(text.encode(), dtype=np.uint8)
    begins = np.append((encoded & 0xC0) != 0x80, True)
    return (np.cumsum(begins) - 1)[places]


def _alignment(predicted: _Listing, other: _Listing, lines: Sequence[int | None]) -> Places:
    """For every token of the predicted merge and its end [n_predicted + 1 with the end token]: the place in `other`.
    `lines[k]` is operation k's line there; where it has none the place is the next one's start."""
    base = np.zeros(len(lines), np.int64)
    moves = np.array([line is not None for line in lines], dtype=np.int64)
    limit = np.zeros(len(lines), np.int64)
    next_line = 0
    for at, line in enumerate(lines):
        here = next_line if line is None else line
        base[at] = other.line_starts[here]
        limit[at] = other.line_starts[min(here + 1, len(other.line_starts) - 1)]
        next_line = here if line is None else line + 1
    sizes = np.diff(predicted.line_starts)
    within = np.arange(len(predicted.ids)) - np.repeat(predicted.line_starts[:-1], sizes)
    places = np.minimum(np.repeat(base, sizes) + within * np.repeat(moves, sizes), np.repeat(limit, sizes))
    end = other.line_starts[next_line]
    return np.concatenate([places, [end, end]])


class ListingStream:
    """Output ids -> merged text, piece by piece: tags dropped, dropped lines left out, split characters held back."""

    def __init__(self, vocabulary: LineVocabulary) -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._is_dropping = False
        self._is_first = True
        self._is_over = False

    def push(self, ids: Sequence[int]) -> str:
        return self._write(self._decoder.decode(self._vocabulary.decode_bytes(self._written(ids))))

    def finish(self) -> str:
        return self._write(self._decoder.decode(b"", final=True))

    def _written(self, ids: Sequence[int]) -> Iterable[int]:
        vocabulary = self._vocabulary
        for token in ids:
            if token == vocabulary.end:
                self._is_over = True
            if self._is_over:
                return
            if vocabulary.is_tag(token):
                self._is_dropping = vocabulary.kind_of(token) == "drop"
            elif not self._is_dropping:
                yield token

    def _write(self, text: str) -> str:
        """Every line opens with a newline; the first one's is no part of the text."""
        if self._is_first and text:
            self._is_first = False
            return text.removeprefix("\n")
        return text

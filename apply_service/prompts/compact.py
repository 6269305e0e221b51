"""The embedded model's prompt format: an annotated listing in, an annotated listing out.

The prompt is `<|original|>` and its lines, `<|update|>` and its lines, then `<|merge|>`.  Each line is a tag and its
text. The tag says what the predicted merge does with the line (`Hints`).  The output has the tag and the line of each
operation of the merge, dropped lines included, then `<|end|>`.  The target decides the tags.  `LineConstraint`
determines the text after them.  Nothing is merged here.

A line is one tag and then the tokens of newline + line, so that it has the same tokens at any place.  A tag includes a
phase (its line number mod 64).  So a tag is nearly unique, and easy to copy from.  No file text can spell a control
token.
"""

from __future__ import annotations

import codecs
import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, chain
from pathlib import Path
from typing import Literal

import numpy as np

from apply_service.errors import ModelNotLoadable, Truncated
from apply_service.prompts.constraint import Masks
from apply_service.prompts.tokenizer import BYTE_ALPHABET, PIECES, BytePairs, Offsets
from apply_service.protocols import (
    Constraint,
    DraftSource,
    DraftSources,
    EditJob,
    StopFinder,
    TextStream,
    TokenIds,
    TokenSet,
)
from apply_service.types import LineOp, Prediction, keep_all


@dataclass(frozen=True, slots=True)
class Hints:
    """Tags of the prompt's lines.  `first` and `after_*[i]` are tags that stand alone; they are None if the next line
    has the same tag.

    Each line that the prediction uses is followed by the tag of the prediction's next operation.  So a target carries
    out the prediction if, after each line, it copies what follows that line in the prompt.
    """

    first: int | None
    original: tuple[int, ...]
    after_original: tuple[int | None, ...]
    update: tuple[int, ...]
    after_update: tuple[int | None, ...]


def hints_of(vocabulary: LineVocabulary, ops: Sequence[LineOp], n_original: int, n_update: int) -> Hints:
    """Return the hints for the prediction `ops`."""
    original, update = [vocabulary.pad] * n_original, [vocabulary.skip] * n_update
    after_original: list[int | None] = [None] * n_original
    after_update: list[int | None] = [None] * n_update
    tags = [*(_tag_of(vocabulary, op) for op in ops), vocabulary.end]
    for op, following, tag, next_tag in zip(ops, [*ops[1:], None], tags[:-1], tags[1:], strict=True):
        if op.original_line is not None:
            original[op.original_line] = tag
            is_next = following is not None and following.original_line is not None
            after_original[op.original_line] = None if is_next else next_tag
        if op.update_line is not None:
            update[op.update_line] = tag
            is_next = following is not None and following.update_line == op.update_line + 1
            after_update[op.update_line] = None if is_next else next_tag
    first = tags[0] if ops and ops[0].original_line is None else None
    return Hints(first, tuple(original), tuple(after_original), tuple(update), tuple(after_update))


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
        """Raise ModelNotLoadable if `tokenizer.json` is missing or lacks the format's control tokens."""
        return cls(LineVocabulary.from_file(directory / "tokenizer.json"))

    def encode_prompt(self, job: EditJob) -> list[int]:
        original, prediction = job.original.split("\n"), _with_added_lines(job.prediction)
        hints = hints_of(self.vocabulary, prediction.ops, len(original), len(prediction.update_lines))
        return self.encode_listing(original, prediction.update_lines, hints)

    def encode_listing(self, original: Sequence[str], update: Sequence[str], hints: Hints | None) -> list[int]:
        """Return the prompt's ids.  Without `hints`, the tags only give line numbers (training sometimes leaves hints
        out)."""
        vocabulary = self.vocabulary
        if hints is None:
            keeps = tuple(vocabulary.tag("keep", i) for i in range(len(original)))
            takes = tuple(vocabulary.tag("take", i) for i in range(len(update)))
            hints = Hints(None, keeps, (None,) * len(keeps), takes, (None,) * len(takes))
        ids = [vocabulary.original]
        if hints.first is not None:
            ids.append(hints.first)
        for lines, tags, after, end in (
            (original, hints.original, hints.after_original, vocabulary.update),
            (update, hints.update, hints.after_update, vocabulary.merge),
        ):
            for line, tag, bare in zip(vocabulary.encode_lines(lines), tags, after, strict=True):
                ids += [tag, *line.tolist()]
                if bare is not None:
                    ids.append(bare)
            ids.append(end)
        return ids

    def encode_ops(self, ops: Sequence[LineOp]) -> list[int]:
        """Return the output that carries out `ops`, end token included."""
        return [*self._encode(ops)[0].tolist(), self.vocabulary.end]

    def decode_output(self, ids: Sequence[int]) -> str:
        if self.vocabulary.end not in ids:
            raise Truncated("the model's answer is cut off", remedy="raise max_tokens")
        stream = self.open_stream()
        return stream.push(ids) + stream.finish()

    def open_stream(self) -> TextStream:
        return ListingStream(self.vocabulary)

    def lines_of(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return the first and last line that each token decides.

        A tag decides its own line.  The tag of a dropped line and the end token decide the next line.
        """
        vocabulary = self.vocabulary
        lines: list[tuple[int, int]] = []
        n_begun, is_dropping = 0, False
        for token in ids:
            is_mark = vocabulary.is_tag(token) or token == vocabulary.end
            if is_mark:
                is_dropping = token == vocabulary.end or vocabulary.kind_of(token) == "drop"
            line = n_begun if is_mark or is_dropping else n_begun - 1
            lines.append((line, line))
            n_begun += is_mark and not is_dropping
        return lines

    def stop_finder(self, job: EditJob) -> StopFinder | None:  # noqa: ARG002
        return None

    def constraint(self, job: EditJob) -> Constraint | None:
        prediction = _with_added_lines(job.prediction)
        pairs = ((op.original_line, op.update_line) for op in prediction.ops if op.kind == "both")
        matches = {original: update for original, update in pairs if original is not None and update is not None}
        return LineConstraint(self.vocabulary, job.original.split("\n"), prediction.update_lines, matches)

    # -- drafts --------------------------------------------------------------------------------------------------------
    def encode_sources(self, job: EditJob) -> DraftSources:
        prediction = _with_added_lines(job.prediction)
        ops = prediction.ops
        keeps = keep_all(job.original)
        takes = [LineOp("take", None, i, line) for i, line in enumerate(prediction.update_lines)]
        predicted, predicted_starts = self._encode(ops)
        original, original_starts = self._encode(keeps)
        update, update_starts = self._encode(takes)
        return DraftSources(
            predicted=self._source("predicted", ops, np.append(predicted, self.vocabulary.end)),
            original=self._source("original", keeps, original),
            update=self._source("update", takes, update),
            predicted_to_original=_alignment(predicted_starts, original_starts, [op.original_line for op in ops]),
            predicted_to_update=_alignment(predicted_starts, update_starts, [op.update_line for op in ops]),
            encode=self.vocabulary.encode_text,
            decode=lambda ids: self.vocabulary.decode_bytes(ids).decode(errors="replace"),
        )

    def _encode(self, ops: Sequence[LineOp]) -> tuple[TokenIds, Offsets]:
        """Return the tokens [n_tokens] of the operations, dropped lines included, and the start of each line
        [n_lines + 1]."""
        lines = self.vocabulary.encode_lines([op.text for op in ops])
        pieces: list[TokenIds] = [np.zeros(0, np.int64)]
        for op, line in zip(ops, lines, strict=True):
            pieces += (self.vocabulary.singles[_tag_of(self.vocabulary, op)], line)
        starts = accumulate((len(line) + 1 for line in lines), initial=0)
        return np.concatenate(pieces), np.fromiter(starts, np.int64, len(lines) + 1)

    def _source(
        self, name: Literal["predicted", "original", "update"], ops: Sequence[LineOp], ids: TokenIds
    ) -> DraftSource:
        text = "".join(["\n" + op.text for op in ops])
        starts = np.concatenate([[0], np.cumsum(self.vocabulary.byte_lengths[ids])])
        if not text.isascii():
            # Turns byte offsets into character offsets; an offset inside a character counts as the character's start.
            is_start = np.append((np.frombuffer(text.encode(), dtype=np.uint8) & 0xC0) != 0x80, True)
            starts = (np.cumsum(is_start) - 1)[starts]
        return DraftSource(name, text, ids, starts)


def _tag_of(vocabulary: LineVocabulary, op: LineOp) -> int:
    """Return the tag of an operation in the output."""
    line = op.update_line if op.original_line is None else op.original_line
    assert line is not None, "an operation names a line"
    return vocabulary.tag(op.kind, line)


def _with_added_lines(prediction: Prediction) -> Prediction:
    """Return the prediction with an update line for each line that it takes from the update or adds itself.

    The merger adds blank lines of its own.  Each is inserted before the update line that follows it in the merge.
    """
    added, following = [], len(prediction.update_lines)
    for op in reversed(prediction.ops):
        if op.kind == "take" and op.update_line is None:
            added.append(following)
        elif op.update_line is not None:
            following = op.update_line
    if not added:
        return prediction
    added.sort()
    lines, ops = list(prediction.update_lines), []
    for at in reversed(added):
        lines.insert(at, "")
    following = len(lines)
    for op in reversed(prediction.ops):
        if op.kind == "take" and op.update_line is None:
            following -= 1
            lines[following] = op.text
            op = op._replace(update_line=following)
        elif op.update_line is not None:
            following = op.update_line + bisect_right(added, op.update_line)
            op = op._replace(update_line=following)
        ops.append(op)
    return replace(prediction, ops=tuple(reversed(ops)), update_lines=tuple(lines))


def _alignment(predicted_starts: Offsets, other_starts: Offsets, lines: Sequence[int | None]) -> Offsets:
    """Return the place in the other source for each token of the predicted merge [n_predicted + 1, with the end token].

    `lines[k]` is the line of operation k in the other source.  If `lines[k]` is None, the place is the start of the
    next line.
    """
    base, moves, limit = (np.zeros(len(lines), np.int64) for _ in range(3))
    next_line = 0
    for at, line in enumerate(lines):
        here = next_line if line is None else line
        base[at], moves[at] = other_starts[here], line is not None
        limit[at] = other_starts[min(here + 1, len(other_starts) - 1)]
        next_line = here if line is None else line + 1
    sizes = np.diff(predicted_starts)
    within = np.arange(predicted_starts[-1]) - np.repeat(predicted_starts[:-1], sizes)
    places = np.minimum(np.repeat(base, sizes) + within * np.repeat(moves, sizes), np.repeat(limit, sizes))
    return np.append(places, [other_starts[next_line]] * 2)


class ListingStream:
    """Turns output ids into merged text, piece by piece, without tags and dropped lines.  Incomplete characters are
    held back."""

    def __init__(self, vocabulary: LineVocabulary) -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._is_dropping = False
        self._is_first = True
        self._is_over = False

    def push(self, ids: Sequence[int]) -> str:
        written = []
        for token in ids:
            self._is_over |= token == self._vocabulary.end
            if self._is_over:
                break
            if self._vocabulary.is_tag(token):
                self._is_dropping = self._vocabulary.kind_of(token) == "drop"
            elif not self._is_dropping:
                written.append(token)
        return self._without_first_newline(self._decoder.decode(self._vocabulary.decode_bytes(written)))

    def finish(self) -> str:
        return self._without_first_newline(self._decoder.decode(b"", final=True))

    def _without_first_newline(self, text: str) -> str:
        """Remove the first newline, because each line of the output begins with a newline."""
        is_first, self._is_first = self._is_first, self._is_first and not text
        return text.removeprefix("\n") if is_first else text


# -- the vocabulary, and the constraint that every line of the output is a line of a source ----------------------------
N_PHASES = 64
TagKind = Literal["keep", "both", "drop", "take"]
TAG_KINDS: tuple[TagKind, ...] = ("keep", "both", "drop", "take")
CONTROLS = ("<|original|>", "<|update|>", "<|merge|>", "<|end|>", "<|pad|>", "<|pass|>")
MAX_CACHED_LINES = 50_000
LOOK_AHEAD = 48
"""A single `take` can pass over at most this many update lines.  The number is below N_PHASES, so that a phase names
only one line."""


def control_tokens() -> list[str]:
    """Return all control tokens in the order of their ids."""
    return [*CONTROLS, *(f"<|{kind}:{phase}|>" for kind in TAG_KINDS for phase in range(N_PHASES))]


class LineVocabulary:
    """Turns lines into ids and back.  It caches the lines that it has seen, so only one thread at a time may use it."""

    def __init__(self, tokenizer_json: str) -> None:
        spec = json.loads(tokenizer_json)
        added = {token["content"]: int(token["id"]) for token in spec["added_tokens"]}
        missing = [name for name in control_tokens() if name not in added]
        if missing:
            raise ModelNotLoadable(
                f"the tokenizer lacks the control token {missing[0]}",
                remedy="use a model trained for the prompt format compact",
            )
        if spec["pre_tokenizer"]["pretokenizers"][0]["pattern"] != {"Regex": PIECES}:
            raise ValueError("it cuts text in another way")
        self._pairs = BytePairs(spec["model"])  # without control tokens, so that `<|end|>` in a file is plain text
        self.original, self.update, self.merge, self.end, self.pad, self.skip = (added[name] for name in CONTROLS)
        self.first_tag = added[f"<|{TAG_KINDS[0]}:0|>"]
        self.n_text = min(added.values())
        self.n_tokens = max(added.values()) + 1
        self._bytes = [b""] * self.n_tokens
        for text, token in spec["model"]["vocab"].items():
            self._bytes[token] = bytes(BYTE_ALPHABET[char] for char in text)
        self.byte_lengths = np.array([len(piece) for piece in self._bytes], dtype=np.int64)
        self._cache: dict[str, TokenIds] = {}

    @classmethod
    def from_file(cls, path: Path) -> LineVocabulary:
        """Read a `tokenizer.json`.  Raises ModelNotLoadable if the file is missing or has another format."""
        try:
            return cls(path.read_text(encoding="utf-8"))
        except (OSError, KeyError, ValueError) as error:
            raise ModelNotLoadable(
                f"this tokenizer does not fit the prompt format `compact`: {error}",
                value=str(path),
                remedy="put the tokenizer that the model was trained with into its folder",
            ) from error

    def tag(self, kind: TagKind, line: int) -> int:
        return self.first_tag + TAG_KINDS.index(kind) * N_PHASES + line % N_PHASES

    def is_tag(self, token: int) -> bool:
        return self.first_tag <= token < self.n_tokens

    def kind_of(self, tag: int) -> TagKind:
        return TAG_KINDS[(tag - self.first_tag) // N_PHASES]

    @cached_property
    def singles(self) -> list[TokenSet]:
        """For each token, the set with only this token."""
        return list(np.arange(self.n_tokens, dtype=np.int64)[:, None])

    def encode_lines(self, lines: Sequence[str]) -> list[TokenIds]:
        """Return the tokens of newline + line for each line.  A line seen before costs nothing."""
        new = [line for line in dict.fromkeys(lines) if line not in self._cache]
        if len(self._cache) + len(new) > MAX_CACHED_LINES:
            self._cache, new = {}, list(dict.fromkeys(lines))
        for line in new:
            self._cache[line] = np.array(self._pairs.encode("\n" + line), dtype=np.int64)
        return [self._cache[line] for line in lines]

    def encode_text(self, text: str) -> list[int]:
        """Return the tokens of a text that may begin inside a line.  From the first newline on, these are the tokens
        that `encode_lines` gives."""
        head, *lines = text.split("\n")
        return [*self._pairs.encode(head), *chain.from_iterable(tokens.tolist() for tokens in self.encode_lines(lines))]

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of the tokens; control tokens have no bytes."""
        return b"".join([self._bytes[token] for token in ids])


# -- the constraint --------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class ListingState:
    """The next line of each source, and the rest of the line that is being written."""

    original_at: int = 0
    update_at: int = 0
    line: Sequence[int] = ()
    line_at: int = 0
    is_over: bool = False
    is_lost: bool = False


class LineConstraint(Masks[ListingState]):
    """`constrain: sources`: allows the possible operations at the start of a line, and the line's tokens inside it.

    The constraint guarantees that no line is invented, and that no line of the original is lost without a `drop`.  Each
    token of the output advances a state.  Each request has its own constraint.  `matches` maps original lines to the
    update lines with which a prediction pairs them.
    """

    def __init__(
        self, vocabulary: LineVocabulary, original: Sequence[str], update: Sequence[str], matches: Mapping[int, int]
    ) -> None:
        super().__init__(ListingState())
        self._vocabulary = vocabulary
        self._original = [ids.tolist() for ids in vocabulary.encode_lines(original)]
        self._update = [ids.tolist() for ids in vocabulary.encode_lines(update)]
        self._original_text = [line.strip() for line in original]
        self._update_text = [line.strip() for line in update]
        self._matches = matches
        self._choices: dict[tuple[int, int], TokenSet] = {}

    def completed(self, output_ids: Sequence[int], draft_ids: Sequence[int], limit: int) -> Sequence[int]:
        state = self.state_after(output_ids)
        sure: list[int] = []
        while len(sure) < limit and not state.is_over:
            allowed = self.allowed(state)
            if allowed is None or len(allowed) != 1:
                break
            sure.append(int(allowed[0]))
            self.advance(state, sure[-1])
        return draft_ids if list(draft_ids[: len(sure)]) == sure else sure

    def allowed(self, state: ListingState) -> TokenSet | None:
        vocabulary = self._vocabulary
        if state.is_lost:
            return None
        if state.line_at < len(state.line):
            return vocabulary.singles[state.line[state.line_at]]
        if state.is_over:
            return vocabulary.singles[vocabulary.end]
        place = original_at, update_at = state.original_at, state.update_at
        if place not in self._choices:
            tags = [vocabulary.tag("take", line) for line in range(update_at, self._last_reached(update_at))]
            if original_at < len(self._original):
                tags += [vocabulary.tag(kind, original_at) for kind in ("keep", "both", "drop")]
            else:
                tags.append(vocabulary.end)
            self._choices[place] = np.array(sorted(tags), dtype=np.int64)
        return self._choices[place]

    def _last_reached(self, update_at: int) -> int:
        """Return the end of the update lines that can be taken from here on."""
        return min(update_at + LOOK_AHEAD, len(self._update))

    def advance(self, state: ListingState, token: int) -> None:
        vocabulary, at = self._vocabulary, state.original_at
        if state.is_lost or state.is_over:
            return
        if state.line_at < len(state.line):
            state.is_lost = token != state.line[state.line_at]
            state.line_at += 1
            return
        if not vocabulary.is_tag(token):
            state.is_over = token == vocabulary.end
            state.is_lost = not state.is_over or at < len(self._original)
            return
        kind, phase = vocabulary.kind_of(token), (token - vocabulary.first_tag) % N_PHASES
        reached = self._last_reached(state.update_at)
        state.line_at = 0
        if kind == "take":
            taken = state.update_at + (phase - state.update_at) % N_PHASES
            state.is_lost = taken >= reached
            if not state.is_lost:
                state.line, state.update_at = self._update[taken], taken + 1
            return
        state.is_lost = at >= len(self._original) or phase != at % N_PHASES
        if state.is_lost:
            return
        state.line, state.original_at = self._original[at], at + 1
        if kind == "both":
            # The pointer in the update moves past its copy of the line; it stays if there is no copy.
            rows, text = range(state.update_at, reached), self._original_text[at]
            past_alike = next((row + 1 for row in rows if self._update_text[row] == text), state.update_at)
            match = self._matches.get(at, -1)
            state.update_at = match + 1 if match >= state.update_at else past_alike

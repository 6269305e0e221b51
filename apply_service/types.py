"""Defines the values that travel through the service: `ApplyRequest` -> `Prediction` -> `ApplyEvent`s -> `ApplyResult`.

This module imports only the standard library.  So every layer, the command line and the typed client can use these
types without loading torch.  The parts of an answer go over the wire as they are: `api` makes their JSON, and its
documentation, from the fields here and the text below each.

Lines: everywhere in the service the lines of a text are `text.split("\n")`.  So a final newline gives an empty last
line, and an empty text is one empty line.  Text inside the service has LF line ends.  `text.fidelity` converts other
line ends on the way in, and restores them on the way out.

A *merger* is a program that merges an edit.  A *reading* is one way to merge it; a *chooser* is a fitted model that
ranks readings.  A line is *shown* if the update quotes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

Strategy = Literal["auto", "model", "exact"]
"""The strategies that a caller may ask for."""

RanStrategy = Literal["exact", "confirmed", "model", "windowed", "fallback"]
"""What decided the result; the README's table says when."""

ConfidenceKind = Literal["calibrated", "raw"]
"""What a confidence figure is: the measured share of such answers that is right, or the target's own probability."""

LineKind = Literal["keep", "both", "drop", "take"]
Origin = Literal["original", "update", "model"]
Severity = Literal["pass", "warning", "error"]


class Certainty(StrEnum):
    """How far a deterministic merger trusts its own answer."""

    CERTAIN = "certain"
    LIKELY = "likely"
    GUESS = "guess"


class FinishReason(StrEnum):
    """Why decoding ended.  Only `STOP` can become a successful result."""

    STOP = "stop"
    LENGTH = "length"


class LineOp(NamedTuple):
    """One step of a merge, in output order.

    `keep`: the original's line, not shown in the update.  `both`: the original's line, shown in the update as context
    (the original's wording wins).  `drop`: an original line that the edit removes.  `take`: a line of the update.  A
    `take` without `update_line` is a blank line around inserted text, or a line of the original that is indented anew.

    In a whole merge, the `original_line`s of keep, both and drop are exactly 0..n-1 in order.  The `update_line`s of
    both and take are strictly increasing wherever the edit keeps the order of the file.  Drops come before the takes
    that replace them.
    """

    kind: LineKind
    original_line: int | None
    update_line: int | None
    text: str
    """The line without its line end.  For a take it is the text to write, re-indented if the merger moved the line."""


def keep_all(text: str) -> tuple[LineOp, ...]:
    """Return the merge that leaves a text (LF line ends) unchanged."""
    return tuple(LineOp("keep", i, None, line) for i, line in enumerate(text.split("\n")))


class Merge(tuple[LineOp, ...]):
    """The operations of a finished merge.  A merge caches its text and its runs, because many readings ask for them."""

    @cached_property
    def text(self) -> str:
        """The merged text."""
        return "\n".join([op.text for op in self if op.kind != "drop"])

    @cached_property
    def shown(self) -> list[int]:
        """The indices of all operations except those that keep a line which is not shown."""
        return [k for k, op in enumerate(self) if op.kind != "keep"]

    @cached_property
    def changed(self) -> list[tuple[int, int]]:
        """The start and the end of each run of dropped and new lines."""
        places = [k for k in self.shown if self[k].kind != "both"]
        starts = [k for above, k in pairwise([-2, *places]) if k > above + 1]
        stops = [k + 1 for k, below in pairwise([*places, len(self) + 1]) if below > k + 1]
        return list(zip(starts, stops, strict=True))

    @cached_property
    def hidden(self) -> list[tuple[int, int]]:
        """The start and the end of each run of lines that stay and are not shown."""
        edges = pairwise([-1, *self.shown, len(self)])
        return [(above + 1, below) for above, below in edges if below > above + 1]


class Way(NamedTuple):
    """How a merger came to a reading."""

    maker: str = ""
    """How the snippet was aligned with the file: by lines (`line`, `group`, `fresh`), signs, words (`placed`), ..."""
    number: int | None = None
    """The number of this reading, if the maker gives several."""
    snippet: str = ""
    """How the snippet was changed before it was aligned: `noted`, `parted`, `mixed`, ..."""
    policy: str = ""
    """The rule that says which differences between shown lines and the file's lines are carelessness."""
    extras: tuple[str, ...] = ()
    """Further changes, in order."""
    other: Way | None = None
    """The way to another reading, whose changes this reading includes."""

    @property
    def is_whole_file(self) -> bool:
        """Whether the snippet is taken for the whole file, so that lines of the file beyond its edges are removed."""
        return self.other.is_whole_file if self.other is not None else self.extras[-1:] == ("cut",)

    def __str__(self) -> str:
        maker = self.maker if self.number is None else f"{self.maker}{self.number}"
        told = ":".join(part for part in (self.snippet, maker, "+".join([self.policy, *self.extras])) if part)
        return told if self.other is None else f"{told}&{self.other}"


class Reading(NamedTuple):
    """One of several ways to merge an edit."""

    ops: tuple[LineOp, ...]
    features: Mapping[str, float]
    """The numbers that a chooser may weigh.  All readings of an edit have the same names."""
    probability: float
    """The chance that the text is right, as the chooser estimates it."""
    way: Way = Way()

    @property
    def text(self) -> str:
        """The merged text."""
        return "\n".join([op.text for op in self.ops if op.kind != "drop"])


ON_THE_WIRE = {"use_attribute_docstrings": True, "extra": "forbid"}
"""The options by which pydantic reads and describes the parts of an answer."""


@dataclass(frozen=True, slots=True)
class LikePlace:
    """Lines of the file that a quote may mean."""

    __pydantic_config__ = ON_THE_WIRE

    first: int
    last: int
    """The first and the last line; 1-based, inclusive."""
    likeness: float
    """The share of the quote that is at this place, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A part of an edit whose quote is not in the file, or is there several times."""

    __pydantic_config__ = ON_THE_WIRE

    part: str
    """The name of the part: "edit 2", "hunk 1", "block 3"."""
    candidates: tuple[LikePlace, ...] = ()
    """Up to three places that the quote may mean, the most similar first."""
    quoted: str | None = None
    """The first line of the quote that differs from the most similar place; null if no line differs."""
    found: str | None = None
    """The line of the file at that point; null if the file has none."""
    line: int | None = None
    """The number of that line."""
    next: str | None = None
    """The smallest edit with the same meaning and a correct quote, ready to be sent as `update`; null if it is not
    clear which place is meant."""

    def as_dict(self) -> dict[str, object]:
        """Return the fields as in JSON."""
        return asdict(self) | {"candidates": [asdict(place) for place in self.candidates]}


@dataclass(frozen=True, slots=True)
class Prediction:
    """A program's merge of an edit: the draft for the target, a second opinion, and sometimes the answer.

    `update_lines[i]` is line i of the update (`update.split("\\n")`) as the merger uses it: re-indented, without diff
    prefix or trailing remark.  The `update_line`s of `ops` are indices into `update_lines`, and the text of a `take`
    equals the line at its index.  `unplaced` has the indices of lines that are not in the output (markers, fences,
    hints, remarks, an empty last line).  `determined` tells whether the format leaves no choice (strategy `exact`).
    """

    ops: tuple[LineOp, ...]
    update_lines: tuple[str, ...]
    certainty: Certainty
    reasons: tuple[str, ...] = ()
    determined: bool = False
    probability: float | None = None
    """The chance that `ops` is right; None if the format determines the result."""
    readings: tuple[Reading, ...] = ()
    """All readings, the chosen one first; empty if there is only one."""
    ends: tuple[str, ...] | None = None
    """The line ends of all written lines except the last, if the edit specifies them; None if the original decides."""
    failures: tuple[Failure, ...] = ()
    """The parts of the edit whose quotes do not fit."""
    is_made: bool = False
    """Whether the file already has the edit."""

    @property
    def text(self) -> str:
        """The predicted merge."""
        return "\n".join(op.text for op in self.ops if op.kind != "drop")

    @property
    def unplaced(self) -> tuple[int, ...]:
        used = {op.update_line for op in self.ops}
        return tuple(i for i in range(len(self.update_lines)) if i not in used)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one check found, or that it passed."""

    __pydantic_config__ = ON_THE_WIRE

    check: str
    """The check's name."""
    severity: Severity
    message: str = ""
    """What the check found; empty if it passed."""
    lines: tuple[int, int] | None = None
    """The first and last line that the verdict is about; 1-based, inclusive."""
    side: Literal["merged", "original"] = "merged"
    """The text that has these lines."""
    question: str = ""
    """The question to ask a person, for a doubt; `message` tells a model what to show."""

    @property
    def is_pass(self) -> bool:
        return self.severity == "pass"


DOUBT = "doubt"
"""The verdict on an answer that may be wrong."""


def is_refused(check: str, severity: str, on_verdict: Mapping[str, str]) -> bool:
    """Tell whether a finding forbids writing or returning a result.  An error does, unless the check's rule is `warn`.
    With the rule `fail`, a warning does too.
    """
    rule = on_verdict.get(check)
    return severity != "pass" and (rule == "fail" or (severity == "error" and rule != "warn"))


@dataclass(frozen=True, slots=True)
class Span:
    """Lines `start_line..end_line` (0-based, half-open) of the merged text, and where they come from."""

    __pydantic_config__ = ON_THE_WIRE

    start_line: int
    end_line: int
    origin: Origin
    """The file, the edit, or the model's own words."""


@dataclass(frozen=True, slots=True)
class LineRange:
    """Lines `start_line..end_line` (0-based, half-open) of the original."""

    __pydantic_config__ = ON_THE_WIRE

    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class OtherReading:
    """Another way to merge the edit.  A request with this reading's id as its `reading` gets this merge."""

    __pydantic_config__ = ON_THE_WIRE

    id: str
    """Twelve hexadecimal digits, computed from the reading's text."""
    probability: float
    """The chance that the reading is right, as the merger estimates it."""
    difference: str
    """What this reading would do to the file instead: "keep line 3 (`x = 1`) and leave out `x = 2`"."""
    diff: str | None = None
    """The unified diff from the original to this reading, if the request asks for diffs."""


@dataclass(frozen=True, order=True, slots=True)
class Position:
    """A place in the source, counted as in the Language Server Protocol, from 0."""

    __pydantic_config__ = ON_THE_WIRE

    line: int
    character: int
    """The number of UTF-16 code units before the place in its line."""


@dataclass(frozen=True, slots=True)
class TextRange:
    __pydantic_config__ = ON_THE_WIRE

    start: Position
    end: Position


@dataclass(frozen=True, slots=True)
class Utf8Columns:
    __pydantic_config__ = ON_THE_WIRE

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TextEdit:
    """A text edit in the form of the Language Server Protocol, and the byte columns of the same places."""

    __pydantic_config__ = ON_THE_WIRE

    range: TextRange
    """`start` and `end`, each `line` (0-based) and `character` (UTF-16 code units)."""
    newText: str  # noqa: N815 - the protocol's spelling
    """The text that replaces the range."""
    utf8_columns: Utf8Columns
    """`start` and `end`, each as the number of UTF-8 bytes before the place in its line."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """One stretch of changed lines (0-based, half-open, counted as in editors), and how likely it is right."""

    __pydantic_config__ = ON_THE_WIRE

    original_start: int
    """First line of the original; if lines are only added, the line after them."""
    original_end: int
    merged_start: int
    """First line of the merged text."""
    merged_end: int
    first_edit: int
    """The index in `edits` of the hunk's first edit."""
    end_edit: int
    """One past the index of the hunk's last edit."""
    confidence: float | None
    """The chance that the hunk is right; null if there is no figure.
    `confidence_kind` tells what kind of figure it is.
    If a program decided, it is the chance of all readings that change these lines in the same way.
    If a target decided, it follows from the target's lowest probability at a decision in these lines or the next."""


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """One edit of one file.  `original` is the file's text with its own line ends; `""` means a new file."""

    original: str
    update: str = ""
    instruction: str = ""
    path: str | None = None
    language: str | None = None
    format: str | None = None
    """The name of the edit format; if None, it is detected."""
    base: str | None = None
    """The text that the edit was written for, if `original` is newer.  The edit is then merged three-way."""
    base_sha256: str | None = None
    conflicts: Literal["error", "markers"] = "error"
    """What happens to lines that both the edit and the newer file changed."""
    encoding: str = "utf-8"
    strategy: Strategy = "auto"
    model: str | None = None
    drafter: str | None = None
    constrain: Literal["sources", "none"] | None = None
    """For model, drafter and constraint, None means the default of the service or of the prompt format."""
    temperature: float = 0.0
    seed: int = 0
    max_tokens: int | None = None
    """The maximum number of output tokens.  With None, it is a few more tokens than original and update have; an
    instruction without update gets as many as fit."""
    timeout_s: float | None = None
    """The time limit of the whole request, from its acceptance on."""
    on_verdict: Mapping[str, Literal["warn", "fail"]] = field(default_factory=dict)
    diff: bool = False
    reading: str | None = None
    """The id of the reading to return, or its number: 1 is the likeliest, and the others are numbered in the order of
    answers."""
    owner: str = ""
    """The name of the request's API key.  The prefix cache shares nothing between owners."""


class PassCount(NamedTuple):
    """One pass: its committed, drafted and accepted tokens, and the source of the draft (empty without a draft)."""

    n_new: int
    n_drafted: int
    n_accepted: int
    source: str


@dataclass(slots=True)
class DecodeStats:
    """Counts of one decode, for API, metrics and evaluation.

    A *pass* is one forward over generated positions.  A *rejection* is a pass that accepts fewer tokens than were
    drafted.
    """

    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    """How many of the prompt tokens the prefix cache held."""
    completion_tokens: int = 0
    prefill_passes: int = 0
    passes: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    rejections: int = 0
    accepted_by_source: dict[str, int] = field(default_factory=dict)
    pass_counts: list[PassCount] = field(default_factory=list)
    """Every pass in order; empty if a remote engine does not report them."""
    prefill_s: float = 0.0
    decode_s: float = 0.0
    draft_s: float = 0.0
    unknown: frozenset[str] = frozenset()
    """The names of counts that a remote server did not report.  They are 0 here and null in the answer."""

    @property
    def rejected_tokens(self) -> int:
        return self.drafted_tokens - self.accepted_tokens

    @property
    def acceptance_rate(self) -> float:
        """The share of drafted tokens that was accepted; 0 if nothing was drafted."""
        return self.accepted_tokens / self.drafted_tokens if self.drafted_tokens else 0.0

    @property
    def tokens_per_pass(self) -> float:
        return self.completion_tokens / self.passes if self.passes else 0.0

    @property
    def tokens_per_s(self) -> float:
        """Generated tokens per second of decoding, without prefill."""
        return self.completion_tokens / self.decode_s if self.decode_s else 0.0


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The terminal answer to a request that succeeded."""

    merged_code: str
    strategy: RanStrategy
    finish_reason: FinishReason
    format: str
    language: str | None
    model: str | None
    """The model that took part, if one did."""
    drafter: str | None
    certainty: Certainty
    reasons: tuple[str, ...]
    agreement: bool | None
    """Whether the target's text equals the predicted merge; None if no model took part."""
    determinism: Literal["bitwise", "tolerant"] | None
    verdicts: tuple[Verdict, ...]
    edits: tuple[TextEdit, ...]
    spans: tuple[Span, ...]
    confidence: float | None
    source_sha256: str
    result_sha256: str
    encoding: str
    seed: int
    stats: DecodeStats
    timings_s: Mapping[str, float]
    diff: str | None = None
    hunks: tuple[Hunk, ...] = ()
    windows: tuple[LineRange, ...] = ()
    """The lines that the target decided, with strategy `windowed`; all other lines are the original's bytes."""
    confidence_kind: ConfidenceKind | None = None
    """The kind of the figure in `confidence`; None if there is none."""
    readings: tuple[OtherReading, ...] = ()
    """Other readings that may be right, the likeliest first."""
    reading: str | None = None
    """The id of the reading that was applied; None if a model's text is not a reading of the edit."""
    failures: tuple[Failure, ...] = ()
    """The parts of the edit whose quotes do not fit."""
    already_applied: bool = False
    """Whether the file already has the edit, so that nothing changes."""


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """Provisional merged text, in order.  Only the final event is an answer."""

    text: str
    passes: tuple[PassCount, ...] = field(default=(), compare=False)
    """The passes since the event before; empty if a remote engine does not report them."""


@dataclass(frozen=True, slots=True)
class FinalEvent:
    result: ApplyResult


ApplyEvent = TokenEvent | FinalEvent
"""The events that `pipeline.run` yields: any number of token events, then one final event.  Errors are raised as
ApplyError."""

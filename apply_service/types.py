"""The values that travel through the service: `ApplyRequest` -> `Prediction` -> `ApplyEvent`s -> `ApplyResult`.

Nothing here does any work or imports more than the standard library, so that every layer, the command line and the
typed client share these types without paying for torch.

Lines: everywhere in the service `text.split("\n")` are the lines of a text, so the final newline is the empty last
line, and an empty text is one empty line.  Text inside the service has LF line ends; `edits.fidelity` takes other ends
off at the door and puts them back on the way out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple

Strategy = Literal["auto", "model", "exact"]
"""What a caller may ask for."""

RanStrategy = Literal["exact", "confirmed", "lattice", "model", "windowed", "fallback"]
"""What decided the result; the README's table says when."""

ConfidenceKind = Literal["calibrated", "raw"]
"""Whether a confidence is the share of such answers that was right when counted, or the target's own probability."""

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
    CANCELLED = "cancelled"
    DEADLINE = "deadline"


class LineOp(NamedTuple):
    """One step of a merge, in output order.

    `keep`: the original's line, not shown in the update.  `both`: the original's line, shown in the update as context
    (the original's wording wins).  `drop`: an original line that the edit removes.  `take`: a line of the update.  Over
    a whole merge the `original_line`s of keep, both and drop are exactly 0..n-1 in order; the `update_line`s of both
    and take rise strictly wherever the edit keeps the order of the file.  Drops come before the takes that replace
    them.
    """

    kind: LineKind
    original_line: int | None
    update_line: int | None
    text: str
    """The line itself, without line end; of a take as it is written (re-indented where the merger moved it)."""


class Reading(NamedTuple):
    """One way to read an edit that can be read in several ways."""

    ops: tuple[LineOp, ...]
    features: Mapping[str, float]
    """What a chooser may weigh; the same names in all readings of an edit."""
    probability: float
    """The chance that its text is right, as the chooser counted it."""
    name: str
    """The way in which the merger came to it."""

    @property
    def text(self) -> str:
        """The merged text."""
        return "\n".join([op.text for op in self.ops if op.kind != "drop"])


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a deterministic program makes of an edit: draft for the target, second opinion, and sometimes the answer.

    `update_lines[i]` is line i of the update (`update.split("\\n")`) as the merger reads it: re-indented, diff prefix
    off, trailing remark off; the `update_line`s of `ops` index into it, and a `take`'s text equals it.  `unplaced`
    are the indices of the lines that are no part of the output (markers, fences, hints, remarks, an empty last line).
    `determined` says that the format itself leaves no choice (strategy `exact`).
    """

    ops: tuple[LineOp, ...]
    update_lines: tuple[str, ...]
    certainty: Certainty
    reasons: tuple[str, ...] = ()
    determined: bool = False
    probability: float | None = None
    """The chance that `ops` is right; None where the format determines the result."""
    readings: tuple[Reading, ...] = ()
    """All readings, the chosen one first; empty where there is but one."""
    ends: tuple[str, ...] | None = None
    """The end of every written line but the last, where the edit tells them; None: they are the original's to give."""

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
    """What one check found, or that it passed.  `lines` is a 1-based inclusive range of the merged text (of the
    original where `side` says so)."""

    check: str
    severity: Severity
    message: str = ""
    lines: tuple[int, int] | None = None
    side: Literal["merged", "original"] = "merged"

    @property
    def is_pass(self) -> bool:
        return self.severity == "pass"


DOUBT = "doubt"
"""The verdict on an answer that may be wrong."""


def is_refused(check: str, severity: str, on_verdict: Mapping[str, str]) -> bool:
    """Whether a finding stands against a result, for all who write or hand it out as a whole: an error, unless `warn`
    accepts the check's findings; a warning too, where `fail` says so."""
    rule = on_verdict.get(check)
    return severity != "pass" and (rule == "fail" or (severity == "error" and rule != "warn"))


class Span(NamedTuple):
    """A half-open range of lines of the merged text and where its text comes from."""

    start_line: int
    end_line: int
    origin: Origin


class LineRange(NamedTuple):
    """A half-open range of lines of the original."""

    start_line: int
    end_line: int


class Position(NamedTuple):
    """A place in the source as the Language Server Protocol counts: 0-based line, UTF-16 code units into it."""

    line: int
    character: int


class TextEdit(NamedTuple):
    """Replace `start..end` (half open) of the original.  `utf8_start` and `utf8_end`: the same places' byte columns."""

    start: Position
    end: Position
    new_text: str
    utf8_start: int
    utf8_end: int


class Hunk(NamedTuple):
    """Lines `original_start..original_end` of the original became `merged_start..merged_end` of the merged text, by the
    answer's edits `first_edit..end_edit` (0-based, half-open; lines as editors count them).  `confidence`: from the
    least probability that the target gave to a choice of its own in these lines or the one after them, of the answer's
    `confidence_kind`; None where it made none there."""

    original_start: int
    original_end: int
    merged_start: int
    merged_end: int
    first_edit: int
    end_edit: int
    confidence: float | None


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """One edit of one file.  `original` is its text, line ends untouched; `""` means a new file."""

    original: str
    update: str = ""
    instruction: str = ""
    path: str | None = None
    language: str | None = None
    format: str | None = None
    """By name; None detects it."""
    base_sha256: str | None = None
    encoding: str = "utf-8"
    strategy: Strategy = "auto"
    model: str | None = None
    drafter: str | None = None
    constrain: Literal["sources", "none"] | None = None
    """Model, drafter and constraint: None takes the service's or the prompt format's own."""
    temperature: float = 0.0
    seed: int = 0
    max_tokens: int | None = None
    """None: as many as the original and the update have, and some; for an instruction alone all that fit."""
    timeout_s: float | None = None
    """For the whole request, from its acceptance on."""
    on_verdict: Mapping[str, Literal["warn", "fail"]] = field(default_factory=dict)
    diff: bool = False
    owner: str = ""
    """Whose request it is (the name of its API key); the prefix cache shares nothing between owners."""


class PassCount(NamedTuple):
    """One pass: how many tokens it committed, how many it was drafted and how many of these were accepted, and the
    source of the draft (empty where there was none)."""

    n_new: int
    n_drafted: int
    n_accepted: int
    source: str


@dataclass(slots=True)
class DecodeStats:
    """Counts of one decode, for API, metrics and evaluation.  A *pass* is one forward over generated positions, a
    *rejection* a pass that accepted fewer tokens than it drafted."""

    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    """Of these, how many the prefix cache held."""
    completion_tokens: int = 0
    prefill_passes: int = 0
    passes: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    rejections: int = 0
    accepted_by_source: dict[str, int] = field(default_factory=dict)
    pass_counts: list[PassCount] = field(default_factory=list)
    """Every pass in order; empty where the engine is elsewhere and does not tell."""
    prefill_s: float = 0.0
    decode_s: float = 0.0
    draft_s: float = 0.0
    unknown: frozenset[str] = frozenset()
    """Counts that a remote server did not report: 0 here, null in the answer."""

    @property
    def rejected_tokens(self) -> int:
        return self.drafted_tokens - self.accepted_tokens

    @property
    def acceptance_rate(self) -> float:
        """Accepted share of drafted tokens; 0 where nothing was drafted."""
        return self.accepted_tokens / self.drafted_tokens if self.drafted_tokens else 0.0

    @property
    def tokens_per_pass(self) -> float:
        return self.completion_tokens / self.passes if self.passes else 0.0

    @property
    def tokens_per_s(self) -> float:
        """Generated tokens a second of decoding, prefill not counted."""
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
    """None where no model took part."""
    drafter: str | None
    certainty: Certainty
    reasons: tuple[str, ...]
    agreement: bool | None
    """Whether the target's text equals the predicted merge; None where no model took part."""
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
    """With strategy `windowed`: the lines that the target decided; all others are the original's bytes."""
    confidence_kind: ConfidenceKind | None = None
    """None where there is no confidence."""
    invented_lines: int | None = None
    """Lines that the target wrote and no source has; None where it was not held to the sources."""


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """Provisional merged text, in order.  Only the final event is an answer."""

    text: str


@dataclass(frozen=True, slots=True)
class FinalEvent:
    result: ApplyResult


ApplyEvent = TokenEvent | FinalEvent
"""What `pipeline.run` yields: any number of token events, then one final event; an error is raised as ApplyError."""

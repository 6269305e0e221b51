"""Test doubles of the pipeline: runs whose behaviour the test scripts, and answers made by hand."""

import hashlib
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace

from apply_service.deadline import Deadline
from apply_service.types import (
    ApplyEvent,
    ApplyRequest,
    ApplyResult,
    Certainty,
    DecodeStats,
    FinalEvent,
    FinishReason,
    Hunk,
    PassCount,
    Position,
    Span,
    TextEdit,
    TextRange,
    TokenEvent,
    Utf8Columns,
    Verdict,
)


def make_result(merged: str = "new\n", **changes: object) -> ApplyResult:
    """A complete answer; `changes` replace fields."""
    values: dict[str, object] = {
        "merged_code": merged,
        "strategy": "model",
        "finish_reason": FinishReason.STOP,
        "format": "lazy_snippet",
        "language": "python",
        "model": "embedded",
        "drafter": "merged_edit",
        "certainty": Certainty.LIKELY,
        "reasons": ("anchor not unique",),
        "agreement": True,
        "determinism": "bitwise",
        "verdicts": (Verdict("no_op", "pass"), Verdict("syntax", "warning", "line 1 is odd", (1, 1))),
        "edits": (TextEdit(TextRange(Position(0, 0), Position(0, 3)), "new", Utf8Columns(0, 3)),),
        "hunks": (Hunk(0, 1, 0, 1, 0, 1, 0.75),),
        "spans": (Span(0, 1, "update"), Span(1, 2, "original")),
        "confidence": 0.75,
        "confidence_kind": "calibrated",
        "source_sha256": hashlib.sha256(b"old\n").hexdigest(),
        "result_sha256": hashlib.sha256(merged.encode()).hexdigest(),
        "encoding": "utf-8",
        "seed": 7,
        "stats": DecodeStats(
            prompt_tokens=20,
            completion_tokens=6,
            passes=2,
            drafted_tokens=8,
            accepted_tokens=5,
            rejections=1,
            accepted_by_source={"predicted": 5},
            prefill_s=0.25,
            decode_s=0.5,
        ),
        "timings_s": {"predict": 0.001, "decode": 0.5},
    }
    return ApplyResult(**(values | changes))  # type: ignore[arg-type]


@dataclass
class ScriptedRun:
    """A pipeline that yields `tokens`, then a final event with `result`, or raises `error`.

    `gate`, if given, is waited for before the end, in slices that poll `cancelled` as a real run does once a pass.
    """

    tokens: tuple[str, ...] = ("ne", "w\n")
    passes: tuple[PassCount, ...] = ()
    result: ApplyResult = field(default_factory=make_result)
    error: BaseException | None = None
    gate: threading.Event | None = None
    n_started: int = 0
    n_closed: int = 0
    n_polls: int = 0
    requests: list[ApplyRequest] = field(default_factory=list)
    started: threading.Event = field(default_factory=threading.Event)
    closed: threading.Event = field(default_factory=threading.Event)

    @property
    def edits(self) -> list[ApplyRequest]:
        """The requests but for whose they are."""
        return [replace(request, owner="") for request in self.requests]

    def __call__(self, request: ApplyRequest, deadline: Deadline) -> Generator[ApplyEvent]:
        self.n_started += 1
        self.requests.append(request)
        self.started.set()
        try:
            for token in self.tokens:
                yield TokenEvent(token, self.passes)
            while self.gate is not None and not self.gate.wait(0.002):
                self.n_polls += 1
                if deadline.is_over():
                    return
            if self.error is not None:
                raise self.error
            yield FinalEvent(self.result)
        finally:
            self.n_closed += 1
            self.closed.set()


class CancelledWhen(Deadline):
    """A deadline without end whose caller has gone away once `is_gone` says so; it is asked before every pass."""

    def __init__(self, is_gone: Callable[[], bool]) -> None:
        super().__init__()
        self._is_gone = is_gone

    @property
    def is_cancelled(self) -> bool:
        return self._is_gone()


def wait_for(condition: Callable[[], bool], timeout_s: float = 5.0) -> bool:
    """Whether the condition came true in time."""
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True

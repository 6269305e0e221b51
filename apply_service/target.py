"""A model ready to decide, and what it makes of an edit job: whole, or of several windows of one in shared passes.

The part of a request's path between the strategies, which say who decides, and the decoding, which knows no text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from apply_service.calibration import Calibration
from apply_service.decided import Decided, count_invented, least_by_line
from apply_service.decoding.scheduler import Need, NextPass
from apply_service.decoding.verify import Decoding, Step
from apply_service.drafting.chain import open_drafter
from apply_service.drafting.determined import Completed
from apply_service.errors import Truncated, UnsupportedParameter
from apply_service.prompts.walked_constraint import WalkedConstraint
from apply_service.protocols import (
    Constraint,
    DraftContext,
    DraftEngine,
    Drafter,
    EditJob,
    Engine,
    PromptFormat,
    SamplingParams,
)
from apply_service.types import ApplyRequest, FinishReason, TokenEvent

SPARE_TOKENS = 64
NO_DRAFTS = "none"


@dataclass(frozen=True, slots=True)
class Target:
    """A model ready to decide: its engine and the prompt format it was trained for."""

    name: str
    engine: Engine
    prompt_format: PromptFormat
    undrafted: str = ""
    """Why the target takes no drafts; empty where it does."""
    is_replay: bool = False
    """Whether it has random weights and writes what is known beforehand, to measure speed (`engine.replay`)."""
    open_draft_engine: Callable[[], DraftEngine] | None = None
    """Gives the configured draft model, loaded on first use; raises UnsupportedParameter where its tokenizer is not the
    target's.  None: none is configured."""
    calibration: Calibration | None = None
    """How often it is right when it is how sure; None: nobody counted."""

    @property
    def takes_instructions(self) -> bool:
        """Whether it can follow an instruction that comes without an update."""
        return self.prompt_format.takes_instructions

    @property
    def context_limit(self) -> int:
        """Tokens of prompt and output together."""
        return self.engine.context_limit

    @property
    def determinism(self) -> Literal["bitwise", "tolerant"]:
        """Whether drafts can change a bit of what it writes."""
        return self.engine.determinism

    def drafter_name(self, wanted: str) -> str:
        """The drafter that runs where `wanted` was asked for."""
        return "none" if self.undrafted else wanted

    def fits(self, job: EditJob, request: ApplyRequest) -> bool:
        """Whether the prompt and all that may be written fit the context."""
        decoding = open_decoding(job, request, self, "none")
        return len(decoding.prompt_ids) + decoding.max_new_tokens <= self.context_limit

    def decide(
        self, jobs: Sequence[EditJob], request: ApplyRequest, drafter: str, cancelled: Callable[[], bool]
    ) -> Deciding:
        """Let the target write every job, all in the same passes.  Raises as `decide_jobs`."""
        return decide_jobs(jobs, request, self, drafter, cancelled)


Deciding = Generator[TokenEvent | Need, tuple[Step | None, ...] | None, list[Decided]]
"""Yields provisional text and, whenever it needs a pass, who has part in it; wants what the pass committed for each
sent in (None: nothing yet), or an error thrown in.  A target elsewhere yields that it waits."""


def decide_jobs(
    jobs: Sequence[EditJob], request: ApplyRequest, target: Target, drafter: str, cancelled: Callable[[], bool]
) -> Deciding:
    """Let the target write every job, all in the same passes.  The text of a single job is streamed.

    Raises:
        Truncated: an output reached its limit.  ContextLimitExceeded, Cancelled, DeadlineExceeded: see `Decoding`.
    """
    with ExitStack() as stack:
        writings = [stack.enter_context(Writing(job, request, target, drafter, cancelled)) for job in jobs]
        while active := [writing for writing in writings if writing.decoding.finish_reason is None]:
            steps = yield NextPass(tuple(writing.decoding for writing in active))
            assert steps is not None, "whoever drives this sends what the pass did"
            for writing, step in zip(active, steps, strict=True):
                if (text := writing.take(step)) and len(jobs) == 1:
                    yield TokenEvent(text)
    return [writing.result() for writing in writings]


class Writing:
    """One job being written."""

    def __init__(
        self, job: EditJob, request: ApplyRequest, target: Target, drafter: str, cancelled: Callable[[], bool]
    ) -> None:
        self.decoding = open_decoding(job, request, target, drafter, cancelled)
        self._format = target.prompt_format
        self._job = job
        self._stream = target.prompt_format.open_stream()
        self._logprobs: list[float | None] = []

    def __enter__(self) -> Self:
        self.decoding.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.decoding.__exit__(kind, error, trace)

    def take(self, step: Step | None) -> str:
        """The text that a pass adds."""
        if step is None:
            return ""
        known: Sequence[float | None] = step.logprobs or [None] * len(step.ids)
        self._logprobs += [logprob if decided else None for logprob, decided in zip(known, step.decisions, strict=True)]
        text = self._stream.push(step.ids)
        return text if self.decoding.finish_reason is None else text + self._stream.finish()

    def result(self) -> Decided:
        """
        Raises:
            Truncated: the output did not end by itself.
        """
        decoding = self.decoding
        if decoding.finish_reason is not FinishReason.STOP:
            raise Truncated(
                "the output reached its token limit",
                value=len(decoding.output_ids),
                limit=decoding.max_new_tokens,
                remedy="raise max_tokens",
            )
        by_line = least_by_line(self._logprobs, self._format.lines_of(decoding.output_ids))
        merged = self._format.decode_output(decoding.output_ids)
        invented_lines = None if decoding.constraint is None else count_invented(merged, self._job)
        return Decided(merged, by_line, decoding.stats, invented_lines)


def open_decoding(
    job: EditJob, request: ApplyRequest, target: Target, drafter: str, cancelled: Callable[[], bool] = lambda: False
) -> Decoding:
    """A decoding ready to run: prompt, draft sources, constraint, limits."""
    prompt_format, engine = target.prompt_format, target.engine
    prompt_ids = prompt_format.encode_prompt(job)
    sources = prompt_format.encode_sources(job)
    left = engine.context_limit - len(prompt_ids)
    longest = len(sources.original.ids) + len(sources.update.ids) + SPARE_TOKENS if job.update.strip() else left
    room = max(len(sources.predicted.ids) + 1, min(longest, left))
    max_new_tokens = room if request.max_tokens is None else request.max_tokens
    context = DraftContext(sources, prompt_ids, target.open_draft_engine, max_new_tokens)
    constraint = _constraint(request, prompt_format, job)
    return Decoding(
        engine=engine,
        prompt_ids=prompt_ids,
        drafter=_open_drafter(target.drafter_name(drafter), context, constraint),
        max_new_tokens=max_new_tokens,
        stop_ids=prompt_format.stop_ids,
        sampling=SamplingParams(request.temperature, request.seed),
        constraint=constraint,
        find_stop=prompt_format.stop_finder(job),
        cancelled=cancelled,
        owner=request.owner,
        deadline=None if request.timeout_s is None else time.monotonic() + request.timeout_s,
    )


def _open_drafter(name: str, context: DraftContext, constraint: Constraint | None) -> Drafter:
    """The drafter, never against what the constraint leaves no choice about; `none` stays the oracle, undrafted."""
    made = open_drafter(name, context)
    if name == NO_DRAFTS or not isinstance(constraint, WalkedConstraint):
        return made
    return Completed(made, constraint.completed)


def _constraint(request: ApplyRequest, prompt_format: PromptFormat, job: EditJob) -> Constraint | None:
    if request.constrain == "none" or not (request.constrain or prompt_format.constrains_by_default):
        return None
    if job.instruction and prompt_format.takes_instructions:
        if request.constrain is None:
            return None
        raise UnsupportedParameter(
            "an instruction may ask for lines that no source has",
            value="sources",
            limit="none",
            remedy="leave `constrain` or the instruction out",
        )
    constraint = prompt_format.constraint(job)
    if constraint is None and request.constrain == "sources":
        raise UnsupportedParameter(
            f"the model's tokens can't be constrained to the sources (prompt format {prompt_format.name})",
            value="sources",
            limit="none",
            remedy="leave `constrain` out, or use another model",
        )
    return constraint

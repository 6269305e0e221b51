"""A model ready to decide, and what it makes of an edit job: whole, or of several windows of one in shared passes.

The part of a request's path between the strategies, which say who decides, and the decoding, which knows no text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Literal, Self

from apply_service.calibration import Calibration
from apply_service.deadline import Deadline
from apply_service.decider import Decided, Decider, Deciding, Reading, Scoring, count_invented, least_by_line
from apply_service.decoding.scheduler import NextPass
from apply_service.decoding.verify import Decoding, Forced, Step
from apply_service.drafting.chain import open_drafter
from apply_service.errors import Truncated, UnsupportedParameter
from apply_service.protocols import (
    CompletingConstraint,
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
    """How often an answer is right, by how sure the target is of it; None where that was never measured."""
    windows: str = "context"
    """When it decides the touched regions of a file alone, where nobody says otherwise: past its `context`, or `always`
    where that saves half of a long file."""

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
        self, jobs: Sequence[EditJob], request: ApplyRequest, drafter: str, deadline: Deadline, *, is_streamed: bool
    ) -> Deciding:
        """Let the target write every job, all in the same passes.  `is_streamed`: yield the text as it comes; of a
        single job only.

        Raises:
            Truncated: an output reached its limit.  ContextLimitExceeded, Cancelled, DeadlineExceeded: see `Decoding`.
        """
        with ExitStack() as stack:
            writings = [
                stack.enter_context(Writing(job, self, open_decoding(job, request, self, drafter, deadline)))
                for job in jobs
            ]
            yield from _written(writings, is_streamed=is_streamed)
        return [writing.result() for writing in writings]

    def score(self, readings: Sequence[Reading], request: ApplyRequest, deadline: Deadline) -> Scoring | None:
        """Put texts before the target, all in the same passes: how likely it finds each after the prompt of its job.

        Raises:
            ContextLimitExceeded, Cancelled, DeadlineExceeded: see `Decoding`.
        """
        return None if self.undrafted or self.is_replay else self._score(readings, request, deadline)

    def _score(self, readings: Sequence[Reading], request: ApplyRequest, deadline: Deadline) -> Scoring:
        with ExitStack() as stack:
            writings = []
            for job, prediction in readings:
                forced = Forced(
                    self.prompt_format.encode_sources(replace(job, prediction=prediction)).predicted.ids.tolist(),
                    _constraint(request, self.prompt_format, job),
                )
                if request.max_tokens is not None and len(forced.ids) > request.max_tokens:
                    return None
                prompt_ids = self.prompt_format.encode_prompt(job)
                decoding = _decoding(job, request, self, deadline, prompt_ids, forced, len(forced.ids), forced)
                writings.append(stack.enter_context(Writing(job, self, decoding, forced)))
            yield from _written(writings, is_streamed=False)
        if any(writing.decoding.finish_reason is not FinishReason.STOP for writing in writings):
            return None
        return [writing.result() for writing in writings]


def _written(
    writings: Sequence[Writing], *, is_streamed: bool
) -> Generator[TokenEvent | NextPass, tuple[Step | None, ...] | None]:
    """Run passes until all of them have ended."""
    while active := [writing for writing in writings if writing.decoding.finish_reason is None]:
        steps = yield NextPass(tuple(writing.decoding for writing in active))
        assert steps is not None, "whoever drives this sends what the pass did"
        for writing, step in zip(active, steps, strict=True):
            if (text := writing.take(step)) and is_streamed:
                yield TokenEvent(text)


class Writing:
    """One job being written.  `forced`: what it is made to write, where its text is only scored."""

    def __init__(self, job: EditJob, target: Target, decoding: Decoding, forced: Forced | None = None) -> None:
        self.decoding = decoding
        self._forced = forced
        self._format = target.prompt_format
        self._job = job
        self._stream = target.prompt_format.open_stream()
        self._logprobs: list[float | None] = []
        self._decisions: list[bool] = []

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
        self._logprobs += step.logprobs or [None] * len(step.ids)
        self._decisions += step.decisions
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
        decisions = self._decisions if self._forced is None else self._forced.decisions
        decided = [logprob if is_one else None for logprob, is_one in zip(self._logprobs, decisions, strict=True)]
        merged = self._format.decode_output(decoding.output_ids)
        return Decided(
            merged,
            least_by_line(decided, self._format.lines_of(decoding.output_ids)),
            decoding.stats,
            count_invented(merged, self._job) if self._is_constrained else None,
            self._total(decided),
        )

    @property
    def _is_constrained(self) -> bool:
        return (self.decoding.constraint if self._forced is None else self._forced.rules) is not None

    def _total(self, decided: Sequence[float | None]) -> float | None:
        if None in self._logprobs:
            return None
        if self._forced is not None and not self._forced.is_allowed:
            return -math.inf
        return math.fsum(logprob for logprob in decided if logprob is not None)


def open_decoding(
    job: EditJob, request: ApplyRequest, target: Target, drafter: str, deadline: Deadline | None = None
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
    made = open_drafter(target.drafter_name(drafter), context, constraint)
    return _decoding(job, request, target, deadline, prompt_ids, made, max_new_tokens, constraint)


def _decoding(
    job: EditJob,
    request: ApplyRequest,
    target: Target,
    deadline: Deadline | None,
    prompt_ids: Sequence[int],
    drafter: Drafter,
    max_new_tokens: int,
    constraint: Constraint | None,
) -> Decoding:
    return Decoding(
        engine=target.engine,
        prompt_ids=prompt_ids,
        drafter=drafter,
        max_new_tokens=max_new_tokens,
        stop_ids=target.prompt_format.stop_ids,
        sampling=SamplingParams(request.temperature, request.seed),
        constraint=constraint,
        find_stop=target.prompt_format.stop_finder(job),
        deadline=deadline or Deadline(),
        owner=request.owner,
    )


def _constraint(request: ApplyRequest, prompt_format: PromptFormat, job: EditJob) -> CompletingConstraint | None:
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


def in_process(decider: Decider) -> Target:
    """The target, where its engine runs in this process.

    Raises:
        UnsupportedParameter: it does not.
    """
    if isinstance(decider, Target):
        return decider
    raise UnsupportedParameter(
        "the model runs elsewhere; its engine can't be measured from here",
        value=decider.name,
        limit="a model that is loaded in this process",
        remedy="name a folder, a Hugging Face id, or a replay target",
    )

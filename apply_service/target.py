"""Provides the targets, which decide edit jobs, whole or cut into windows, and checks what a request asks of them.

In a request's path, `strategies` comes before and chooses who decides; `decoding` comes after and knows no text.
`Target` has weights in this process; `remote.target.RemoteTarget` asks a server.  Both are `Decider`s.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, MutableMapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from typing import Literal, NamedTuple, NoReturn, Protocol

from apply_service.deadline import Deadline
from apply_service.decoding.known import KnownText, Scored
from apply_service.decoding.scheduler import NextPass
from apply_service.decoding.verify import Decoding, Step
from apply_service.drafting.drafter import NoDraft, open_drafter
from apply_service.drafting.recent import RecentOutputs
from apply_service.engine.record import DEFAULT_THRESHOLDS, KINDS, Calibration, Kind, Thresholds
from apply_service.errors import ContextLimitExceeded, Truncated, UnsupportedParameter
from apply_service.protocols import (
    Constraint,
    DraftContext,
    DraftEngine,
    DraftHead,
    EditJob,
    Engine,
    PromptFormat,
    SamplingParams,
)
from apply_service.types import ApplyRequest, DecodeStats, FinishReason, PassCount, Prediction, TokenEvent, keep_all

SPARE_TOKENS = 64
CHARS_PER_TOKEN = 8
"""Code has two to four characters per token.  If a text has more than this many characters for each token of the
context, at first only its beginning is encoded."""

Candidate = tuple[EditJob, Prediction]
"""A job, and a text to score for the job: its own prediction or another one."""


class Decided(NamedTuple):
    """The text that the target wrote or scored for one job."""

    merged: str
    line_logprobs: Mapping[int, float]
    """The lowest log probability of a decision in each line of the text."""
    stats: DecodeStats
    logprob: float | None = None
    """The log probability of all decisions together; None if the engine does not know it."""

    @classmethod
    def of(
        cls,
        prompt_format: PromptFormat,
        ids: Sequence[int],
        logprobs: Sequence[float | None],
        decisions: Sequence[bool],
        stats: DecodeStats,
    ) -> Decided:
        """Make a `Decided` from the output.  `logprobs` and `decisions` give, for each token, its log probability and
        whether the target had a choice."""
        decided = [logprob if is_one else None for logprob, is_one in zip(logprobs, decisions, strict=True)]
        total = None if None in logprobs else math.fsum(logprob for logprob in decided if logprob is not None)
        return cls(prompt_format.decode_output(ids), least_by_line(decided, prompt_format.lines_of(ids)), stats, total)


Steps = tuple[Step | None, ...] | None
Deciding = Generator[TokenEvent | NextPass, Steps, list[Decided]]
"""A generator that yields provisional text, and a `NextPass` whenever it needs a pass.

The caller sends in what the pass committed for each decoding (None for nothing yet), or throws in an error.  A target
on another server blocks instead of asking for passes.
"""

Scoring = Generator[TokenEvent | NextPass, Steps, list[Decided] | None]
"""Like `Deciding`, but yields no text.  Returns None if the target can't score texts, or is not allowed to write these
texts."""


class TargetInfo(NamedTuple):
    """What is known of a target besides its decisions.  None means unknown, or not reported by its server."""

    name: str
    takes_instructions: bool = True
    """Whether it can follow an instruction that comes without an update."""
    context_limit: int | None = None
    """The maximum number of tokens of prompt and output together."""
    determinism: Literal["bitwise", "tolerant"] | None = None
    """`bitwise` if drafts cannot change any bit of the target's output, `tolerant` if they can; None if the target is
    on another server, where nothing is drafted."""
    calibration: Calibration | None = None
    """How often an answer is right, by how sure the target is of it; None if this was never measured."""
    windows: str = "context"
    """When the target decides only the touched regions of a file, unless the settings say otherwise.

    `context`: if the file exceeds its context.  `always`: also if that saves half of a long file.
    """


class Decider(Protocol):
    """A target that is ready to decide."""

    @property
    def info(self) -> TargetInfo: ...

    def decide(
        self, jobs: Sequence[EditJob], request: ApplyRequest, drafter: str, deadline: Deadline, *, is_streamed: bool
    ) -> Deciding:
        """Let the target write all jobs together.  `is_streamed`: yield the text as it comes (for a single job only).

        Raises:
            ContextLimitExceeded: a job is too long.
            Truncated: an output did not end by itself, or lacks what its format demands.
            ApplyError: the target gave no answer.
        """

    def score(self, candidates: Sequence[Candidate], request: ApplyRequest, deadline: Deadline) -> Scoring:
        """Return how likely the target finds these texts after the prompts of their jobs.  It writes nothing.  Raises
        the errors of `decide`."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """The state that all requests share.  Only one thread at a time may use it and its targets.

    `load` returns a target by name, and loads it on first use.
    """

    load: Callable[[str], Decider]
    models: tuple[str, ...] = ("embedded",)
    """The models that a request may name; the first is the default."""
    default_drafter: str = "merged_edit+suffix"
    has_draft_model: bool = False
    """Whether the targets can draft with a smaller model."""
    head: str | None = None
    """The draft head of the first model in `models`."""
    windows: str = "auto"
    confirm_threshold: float | None = None
    choose_threshold: float | None = None
    """This field and the next two are the settings of the same names.  `auto` and None leave the choice to the
    target."""
    decides: Mapping[str, frozenset[Kind]] = field(default_factory=dict)
    """What each model may decide under strategy `auto`, known before it is loaded.  A model that is missing here may
    decide everything."""

    def may_decide(self, model: str | None, kind: Kind) -> bool:
        """Tell whether this model, or the default one, may decide such an edit under strategy `auto`."""
        return kind in self.decides.get(model or self.models[0], KINDS)

    def thresholds_of(self, target: TargetInfo) -> Thresholds:
        """Return how likely this target must find a merge to accept it.  The settings come first, then the target's
        calibration, then the default."""
        found = DEFAULT_THRESHOLDS if target.calibration is None else target.calibration.thresholds
        confirm = found.confirm if self.confirm_threshold is None else self.confirm_threshold
        choose = found.choose if self.choose_threshold is None else self.choose_threshold
        return found._replace(confirm=confirm, choose=choose)


# -- a target in this process ------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Target:
    """A model ready to decide: its engine, and the prompt format it was trained for.  See `TargetInfo` for the rest."""

    name: str
    engine: Engine
    prompt_format: PromptFormat
    open_draft_engine: Callable[[], DraftEngine] | None = None
    """Returns the configured draft model, and loads it on first use.  The field is None if none is configured.

    Raises UnsupportedParameter if its tokenizer is not the target's.
    """
    calibration: Calibration | None = None
    windows: str = "context"
    head: DraftHead | None = None
    """The head that drafts inside its engine, if there is one."""
    recent: RecentOutputs | None = None
    """What the target wrote lately; None if it keeps nothing."""
    learnt: MutableMapping[str, tuple[float, float]] = field(default_factory=dict, compare=False)
    """What the target accepted of drafts so far (`DraftContext.learnt`)."""

    @property
    def info(self) -> TargetInfo:
        return TargetInfo(
            self.name,
            self.prompt_format.takes_instructions,
            self.engine.context_limit,
            self.engine.determinism,
            self.calibration,
            self.windows,
        )

    def decide(
        self, jobs: Sequence[EditJob], request: ApplyRequest, drafter: str, deadline: Deadline, *, is_streamed: bool
    ) -> Deciding:
        with ExitStack() as stack:
            writings = [
                Writing(self, stack.enter_context(open_decoding(job, request, self, drafter, deadline))) for job in jobs
            ]
            while active := [writing for writing in writings if writing.decoding.finish_reason is None]:
                steps = yield NextPass(tuple(writing.decoding for writing in active))
                assert steps is not None, "the caller sends the result of the pass"
                for writing, step in zip(active, steps, strict=True):
                    if (text := writing.take(step)) and is_streamed:
                        passes = writing.decoding.stats.pass_counts
                        yield TokenEvent(text, tuple(passes[writing.n_reported :]))
                        writing.n_reported = len(passes)
        for job, writing in zip(jobs, writings, strict=True):
            if self.recent is not None:
                self.recent.keep(request.owner, job.path, writing.decoding.output_ids)
        return [writing.result() for writing in writings]

    def score(self, candidates: Sequence[Candidate], request: ApplyRequest, deadline: Deadline) -> Scoring:
        prompt_format = self.prompt_format
        texts: list[KnownText] = []
        by_job: dict[int, tuple[EditJob, list[KnownText]]] = {}
        for job, prediction in candidates:
            self.refuse_hopeless(job)
            ids = prompt_format.encode_sources(replace(job, prediction=prediction)).predicted.ids.tolist()
            rules, find_stop = self.constraint(request, job), prompt_format.stop_finder(job)
            text = KnownText.of(ids, rules, prompt_format.stop_ids, find_stop)
            if text is None or (request.max_tokens is not None and len(ids) > request.max_tokens):
                return None
            texts.append(text)
            by_job.setdefault(id(job), (job, []))[1].append(text)
        with ExitStack() as stack:
            scored = [
                stack.enter_context(open_scored(job, readings, request, self, deadline))
                for job, readings in by_job.values()
            ]
            while active := [one for one in scored if one.finish_reason is None]:
                yield NextPass(tuple(active))
        counted = {id(text): stats for one in scored for text, stats in zip(one.texts, one.counted, strict=True)}
        found = []
        for text in texts:
            if text.logprobs is None:
                return None
            decided = Decided.of(prompt_format, text.ids, text.logprobs, text.decisions, counted[id(text)])
            found.append(decided if text.is_allowed else decided._replace(logprob=-math.inf))
        return found

    def refuse_hopeless(self, job: EditJob) -> None:
        """Raise ContextLimitExceeded if the beginning of the text alone exceeds the context.  Encoding the whole of a
        very long text would take a second per megabyte."""
        limit, n_chars = self.engine.context_limit, CHARS_PER_TOKEN * self.engine.context_limit
        while n_chars < max(len(job.original), len(job.update)):
            # The beginnings of the file and of the edit, with nothing merged.
            original, lines = job.original[:n_chars], "\n".join(job.prediction.update_lines)[:n_chars].split("\n")
            unmerged = replace(job.prediction, ops=keep_all(original), update_lines=tuple(lines))
            beginning = replace(job, original=original, update=job.update[:n_chars], prediction=unmerged)
            n_tokens = len(self.prompt_format.encode_prompt(beginning))
            if n_tokens > limit + SPARE_TOKENS:
                why = f"the first {n_chars} characters alone have {n_tokens} prompt tokens, above the context limit"
                remedy = "send a smaller file, or use a model with a longer context"
                raise ContextLimitExceeded(why, value=n_tokens, limit=limit, remedy=remedy)
            n_chars *= 4

    def constraint(self, request: ApplyRequest, job: EditJob) -> Constraint | None:
        """Return the constraint on the output.  Raises UnsupportedParameter if the requested one can't be applied."""
        is_wanted = request.constrain == "sources"
        if request.constrain == "none" or not (is_wanted or self.prompt_format.constrains_by_default):
            return None
        constraint = None
        if job.instruction and self.prompt_format.takes_instructions:
            why = (
                "`constrain` can't be used with an instruction, which may ask for lines found in neither file nor edit"
            )
            remedy = "leave out `constrain` or the instruction"
        else:
            constraint = self.prompt_format.constraint(job)
            why = f"no model with prompt format {self.prompt_format.name} can be held to lines of file and edit"
            remedy = "leave `constrain` out, or use another model"
        if constraint is None and is_wanted:
            raise UnsupportedParameter(why, value="sources", limit="none", remedy=remedy)
        return constraint


def open_decoding(
    job: EditJob, request: ApplyRequest, target: Target, drafter: str, deadline: Deadline | None = None
) -> Decoding:
    """Return a decoding that is ready to run: prompt, draft sources, constraint and limits.  Raises
    ContextLimitExceeded if the job has far too much text; opening the decoding's session may still raise it."""
    prompt_format = target.prompt_format
    target.refuse_hopeless(job)
    prompt_ids = prompt_format.encode_prompt(job)
    sources, constraint = prompt_format.encode_sources(job), target.constraint(request, job)
    left = target.engine.context_limit - len(prompt_ids)
    longest = len(sources.original.ids) + len(sources.update.ids) + SPARE_TOKENS if job.update.strip() else left
    room = max(len(sources.predicted.ids) + 1, min(longest, left))
    max_new_tokens = room if request.max_tokens is None else request.max_tokens
    sampling = SamplingParams(request.temperature, request.seed)
    context = DraftContext(
        sources,
        prompt_ids,
        target.open_draft_engine,
        max_new_tokens,
        target.learnt,
        sampling,
        target.head,
        () if target.recent is None else target.recent.of(request.owner, job.path),
    )
    return Decoding(
        engine=target.engine,
        prompt_ids=prompt_ids,
        drafter=open_drafter(drafter, context, constraint),
        max_new_tokens=max_new_tokens,
        stop_ids=prompt_format.stop_ids,
        sampling=sampling,
        constraint=constraint,
        find_stop=prompt_format.stop_finder(job),
        deadline=deadline or Deadline(),
        owner=request.owner,
    )


def open_scored(
    job: EditJob, texts: Sequence[KnownText], request: ApplyRequest, target: Target, deadline: Deadline
) -> Scored:
    """Return the possible merges (readings) of one job, ready to be scored.  Opening the session may raise
    ContextLimitExceeded."""
    return Scored(
        engine=target.engine,
        prompt_ids=target.prompt_format.encode_prompt(job),
        drafter=NoDraft(),
        max_new_tokens=max(len(text.ids) for text in texts),
        stop_ids=target.prompt_format.stop_ids,
        deadline=deadline,
        owner=request.owner,
        texts=texts,
    )


class Writing:
    """One job being written."""

    def __init__(self, target: Target, decoding: Decoding) -> None:
        self.decoding = decoding
        self._format = target.prompt_format
        self._stream = target.prompt_format.open_stream()
        self._logprobs: list[float | None] = []
        self._decisions: list[bool] = []
        self.n_reported = 0
        """The number of passes that token events have reported."""

    def take(self, step: Step | None) -> str:
        """Return the text that a pass adds."""
        if step is None:
            return ""
        self._logprobs += step.logprobs or [None] * len(step.ids)
        self._decisions += step.decisions
        text = self._stream.push(step.ids)
        return text if self.decoding.finish_reason is None else text + self._stream.finish()

    def result(self) -> Decided:
        """Return the text.  Raises Truncated if the output did not end by itself."""
        decoding = self.decoding
        if decoding.finish_reason is not FinishReason.STOP:
            n_tokens, limit = len(decoding.output_ids), decoding.max_new_tokens
            raise Truncated(
                "the model's answer was cut off at its token limit",
                value=n_tokens,
                limit=limit,
                remedy="raise max_tokens",
            )
        return Decided.of(self._format, decoding.output_ids, self._logprobs, self._decisions, decoding.stats)


def no_target(name: str) -> NoReturn:
    """Refuse to load a model: `Runtime.load` for requests that need none.  Raises UnsupportedParameter."""
    message = "a `patch` is applied without a model, so no model or strategy can be set for it"
    remedy = "use strategy exact, or send each file's edit in `edits`"
    raise UnsupportedParameter(message, value=name, remedy=remedy)


def in_process(decider: Decider) -> Target:
    """Return the target, if its engine runs in this process.  Raises UnsupportedParameter if not."""
    if isinstance(decider, Target):
        return decider
    message = "the model runs on another server, so its engine can't be measured here"
    limit = "a model loaded in this process"
    remedy = "name a model that this process loads: a folder or a Hugging Face id"
    raise UnsupportedParameter(message, value=decider.info.name, limit=limit, remedy=remedy)


# -- arithmetic on what was decided ------------------------------------------------------------------------------------
def least_by_line(logprobs: Sequence[float | None], places: Sequence[tuple[int, int]]) -> dict[int, float]:
    """Return the lowest log probability of a decision in each line.  A token with None was forced, or its probability
    is unknown."""
    least: dict[int, float] = {}
    for logprob, (first, last) in zip(logprobs, places, strict=True):
        if logprob is not None:
            for line in range(first, last + 1):
                least[line] = min(logprob, least.get(line, logprob))
    return least


def confidence_of(decided: Sequence[Decided]) -> float | None:
    """Return the lowest probability of any decision; None if no probability is known."""
    logprobs = [logprob for one in decided for logprob in one.line_logprobs.values()]
    return math.exp(min(logprobs)) if logprobs else None


def sum_stats(stats: Iterable[DecodeStats]) -> DecodeStats:
    """Return counts and times of decodings that ran one after the other."""
    total = DecodeStats()
    for one in stats:
        for item in fields(DecodeStats):
            if item.name not in ("accepted_by_source", "unknown"):
                setattr(total, item.name, getattr(total, item.name) + getattr(one, item.name))
        total.accepted_by_source = dict(Counter(total.accepted_by_source) + Counter(one.accepted_by_source))
        total.unknown |= one.unknown
    return total


def joint_stats(stats: Sequence[DecodeStats]) -> DecodeStats:
    """Return counts and times of decodings that shared their passes."""
    total = sum_stats(stats)
    total.prefill_s, total.decode_s = max(one.prefill_s for one in stats), max(one.decode_s for one in stats)
    return total


def unused_stats(stats: DecodeStats) -> DecodeStats:
    """Return the counts of a scored text that is not in the answer.  All of it counts as drafted, and nothing as
    accepted.

    The prompt of a scored text is counted with the text that is in the answer.
    """
    return replace(
        stats,
        prompt_tokens=0,
        cached_prompt_tokens=0,
        completion_tokens=0,
        accepted_tokens=0,
        accepted_by_source={},
        rejections=stats.passes,
        pass_counts=[PassCount(0, one.n_drafted, 0, one.source) for one in stats.pass_counts],
    )

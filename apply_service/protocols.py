"""Defines the contracts between the layers.  `registry` finds implementations by name.

Edits, prompts and checks work on text.  Engine, decoding and drafting see only token ids, with one exception: a
drafter's `DraftSource` has text, so that it can be tokenised again from the middle of a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from apply_service.types import Prediction, Verdict

TokenIds = npt.NDArray[np.int64]
TokenSet = npt.NDArray[np.int64]
"""Allowed token ids, sorted, unique, never empty."""


# -- edits, checks and prompts -----------------------------------------------------------------------------------------
class EditContext(NamedTuple):
    """What is known of an edit besides its texts."""

    path: str | None = None
    language: str | None = None
    instruction: str = ""
    """Text next to the edit, which may say where the edit belongs."""


PredictMerge = Callable[[str, str, EditContext], Prediction]
"""Reads an edit format: returns the merge of original and update, as far as a program can find it.

Texts have LF line ends; the update is what `reply.reader` found in the reply.  Raises MalformedEdit if the update is
not of this format.  Raises NeedsMoreContext, which names the anchors, if not even a draft can be predicted.
"""


@dataclass(frozen=True, slots=True)
class CheckInput:
    """What a check may use.  Texts have LF line ends."""

    original: str
    merged: str
    update: str
    prediction: Prediction
    language: str | None


Check = Callable[[CheckInput], list[Verdict]]
"""Checks one thing in every answer, and returns its findings, the worst first; [] if all is well.

A check is pure and never raises.  It takes milliseconds for 1,500 lines.
"""


@dataclass(frozen=True, slots=True)
class EditJob:
    """What a prompt is made from.  Texts have LF line ends."""

    original: str
    update: str
    instruction: str
    path: str | None
    language: str | None
    prediction: Prediction
    findings: tuple[Verdict, ...] = ()
    """Verdicts on what `reply.reader` left out of the edit."""
    format: str = "lazy_snippet"
    """The name of the edit's format; `instruction` if there is no update."""


@dataclass(frozen=True, slots=True)
class DraftSource:
    """One text that the output is expected to copy, encoded as the target would write it.

    `ids` [n] and `starts` [n + 1]: token i covers `text[starts[i]:starts[i + 1]]`; control tokens cover nothing.
    """

    name: Literal["predicted", "original", "update"]
    text: str
    ids: TokenIds
    starts: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DraftSources:
    """Everything that a drafter may copy from.

    `encode` turns a piece of a source's text into ids; `decode` turns output ids into text and drops control tokens.
    `predicted_to_original[i]` and `predicted_to_update[i]` [n_predicted + 1]: the token of the original or the update
    that is aligned with token i of the predicted merge.
    """

    predicted: DraftSource
    original: DraftSource
    update: DraftSource
    predicted_to_original: npt.NDArray[np.int64]
    predicted_to_update: npt.NDArray[np.int64]
    encode: Callable[[str], list[int]]
    decode: Callable[[Sequence[int]], str]


StopFinder = Callable[[Sequence[int]], int | None]
"""Called once with each new output token, in order.

Returns the index of the token that completes the output, or None.
"""


class TextStream(Protocol):
    """Turns output ids into text piece by piece.  The joined pieces equal `PromptFormat.decode_output` of the ids."""

    def push(self, ids: Sequence[int]) -> str: ...
    def finish(self) -> str: ...


class Constraint(Protocol):
    """A deterministic mask, computed from the sources and the output so far.  A constraint also says which tokens must
    come."""

    def masks(self, output_ids: Sequence[int], draft_ids: Sequence[int]) -> Sequence[TokenSet | None]:
        """Return the ids allowed after `output_ids + draft_ids[:i]` for each i = 0..n_draft; None allows all ids.

        Between calls `output_ids` only grows.  A mask after a forbidden draft token is never used, so it may be
        anything.
        """

    def completed(self, output_ids: Sequence[int], draft_ids: Sequence[int], limit: int) -> Sequence[int]:
        """Return `draft_ids`, or else at most `limit` tokens that must follow `output_ids`.

        The required tokens replace the draft if it contradicts them or is shorter.
        """


class PromptFormat(Protocol):
    """Converts text to ids and back for one model family.  File text never becomes a control token, whatever it
    spells."""

    name: str
    stop_ids: frozenset[int]
    takes_instructions: bool
    """Whether the target can follow an instruction that comes without an update."""
    constrains_by_default: bool
    """Whether `constraint` applies if the request does not say."""

    def encode_prompt(self, job: EditJob) -> list[int]:
        """Return the whole prompt; output is generated right after it."""

    def encode_sources(self, job: EditJob) -> DraftSources:
        """Return predicted merge, original and update, encoded as this format writes output.  Only the predicted merge
        has an end token."""

    def decode_output(self, ids: Sequence[int]) -> str:
        """Return the merged text of finished output (with or without stop token), without control tokens and tags.

        Raises Truncated if the output lacks the closing that this format demands.
        """

    def open_stream(self) -> TextStream: ...

    def lines_of(self, ids: Sequence[int]) -> Sequence[tuple[int, int]]:
        """Return the first and the last line (0-based) of the merged text that the choice of each output token decides.

        The first is the line that the token is in, and the last is the line that it begins.  A token that writes
        nothing decides the next line.
        """

    def stop_finder(self, job: EditJob) -> StopFinder | None:
        """Return a finder of the output's end, if the target might go on writing after it.

        Return None if `stop_ids` suffice.
        """

    def constraint(self, job: EditJob) -> Constraint | None:
        """Return the constraint that every output line is a line of the sources.

        Return None if this vocabulary or format can't be constrained that way.
        """


# -- drafting ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Draft:
    """A draft without alternatives: the proposed next tokens, and the probability with which each is expected to be
    accepted."""

    token_ids: Sequence[int]
    expected_acceptance: float = 1.0
    source: str = ""


EMPTY_DRAFT = Draft((), 0.0)


@dataclass(frozen=True, slots=True)
class DraftEngine:
    """The draft model: its `engine`, and the number of ids (`n_vocab`, from 0 on) that it shares with the target."""

    engine: Engine
    n_vocab: int


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Greedy at temperature 0, else Gumbel-max sampling.

    The noise depends only on seed, absolute position and token id, so drafts cannot change a sample.
    """

    temperature: float = 0.0
    seed: int = 0


class DraftWriter(Protocol):
    """Writes drafts in one sequence."""

    def write(self, output_ids: Sequence[int], n_tokens: int) -> Iterator[int]:
        """Yield at most `n_tokens` tokens expected after `output_ids`.  The target has not read the last of
        `output_ids`.  The caller may stop at any token."""


class DraftHead(Protocol):
    """A drafter inside the target's engine, which uses the target's hidden states or layers.

    `most`: the maximum number of tokens of a draft.  `cost`: what each of these tokens costs, as a share of a pass of
    the target.
    """

    name: str
    most: int

    @property
    def cost(self) -> float: ...

    def open(self, session: Session, sampling: SamplingParams) -> DraftWriter:
        """Return a writer for a session of the target.  The session's prompt has been read, and the writer looks into
        its slots."""


@dataclass(frozen=True, slots=True)
class DraftContext:
    """What every drafter is made from.

    `open_draft_engine` returns the configured draft model, and loads it on first use; it is None if no draft model is
    configured.  `head`: the draft head of the target's engine.  `earlier`: what the target wrote lately for this file
    and caller.  `resume(tail, limit)`: the tokens with which a copying drafter would go on after these tokens, if they
    lead back into a source.  `max_new_tokens` is the limit of the output.  `learnt` counts the accepted and the
    rejected tokens of earlier drafts by kind of draft, with most weight on the latest; drafters add to it.  `sampling`
    is how the target chooses.
    """

    sources: DraftSources
    prompt_ids: Sequence[int] = ()
    open_draft_engine: Callable[[], DraftEngine] | None = None
    max_new_tokens: int = 0
    learnt: MutableMapping[str, tuple[float, float]] = field(default_factory=dict, compare=False)
    sampling: SamplingParams = SamplingParams()
    head: DraftHead | None = None
    earlier: Sequence[Sequence[int]] = ()
    resume: Callable[[Sequence[int], int], Sequence[int]] = lambda _tail, _limit: ()


class Drafter(Protocol):
    """One object per request.  `begin` is called once, then `propose` and `observe` in turn until the end.  Then
    `close` is called in any case.

    A drafter never changes what is decoded, only how fast.
    """

    def begin(self, session: Session) -> None:
        """Take the target's session, which has just been opened.  A drafter may look into the session's slots, but must
        not advance or rewind it."""

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        """Return at most `limit` tokens expected after `output_ids`, possibly none.  Every call gets the same list,
        which has grown since."""

    def observe(self, verification: Verification) -> None:
        """Learn what the target decided about the last draft, as far as the pass had room for the draft."""

    def close(self) -> None:
        """Free what the drafter holds (a draft model's session).  A second call does nothing."""


# -- engine ------------------------------------------------------------------------------------------------------------
@dataclass(eq=False)
class Session:
    """One sequence in an engine.  It owns `slots` until it is closed, which calls `release` once.  Leaving it as a
    context manager closes it.

    The first `length` slots hold the keys and values of tokens that have been read; `n_cached` of them came from the
    prefix cache.  Slots from `cleared` on may hold data of an earlier session.  If `is_sound` is false, the prefix
    cache must not keep anything of this session.
    """

    prompt_ids: Sequence[int]
    slots: range
    owner: str = ""
    n_cached: int = 0
    release: Callable[[Any], None] = lambda _session: None
    is_open: bool = True
    is_sound: bool = True

    def __post_init__(self) -> None:
        self.length = self.cleared = self.n_cached

    @property
    def n_pending(self) -> int:
        """How many prompt tokens are still to be prefilled.  The last prompt token does not count, because it is the
        first window's `last_id`."""
        return max(0, len(self.prompt_ids) - 1 - self.length)

    def rewind(self, n_tokens: int) -> None:
        """Forget the last `n_tokens` tokens."""
        if not 0 <= n_tokens <= self.length:
            raise AssertionError(f"rewind {n_tokens} of {self.length}")
        self.length -= n_tokens

    def close(self) -> None:
        """Free the slots.  A second call does nothing."""
        if self.is_open:
            self.is_open = False
            self.release(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Window:
    """One session's part of a pass: the pending tokens of its prompt, its last committed token (not in the cache yet),
    and the draft.

    `allowed[i]` masks the choice after i draft tokens (i = 0: right after `last_id`); with None, nothing is masked.
    `asked[i]` tells whether the target makes this choice; by default it does if the mask leaves a choice.  If the
    target is not asked, the mask must have exactly one token.
    """

    session: Session
    last_id: int
    draft_ids: Sequence[int]
    sampling: SamplingParams
    allowed: Sequence[TokenSet | None] | None = None
    asked: Sequence[bool] | None = None

    @property
    def n_rows(self) -> int:
        return self.session.n_pending + 1 + len(self.draft_ids)


@dataclass(frozen=True, slots=True)
class Prefill:
    """One session's part of a pass while its prompt is being read: the next `n_rows` pending tokens."""

    session: Session
    n_rows: int


Part = Window | Prefill


@dataclass(frozen=True, slots=True)
class Verification:
    """The target's decision on a window.

    `choices` [n_accepted + 1]: the accepted draft tokens, then the target's own next token.  `logprobs` [n_accepted +
    1]: natural log of each choice's probability before masking, at temperature 1; 0 if the target was not asked, None
    if the engine can't say.  After the pass the session holds the prompt, `last_id` and the accepted tokens, nothing
    else.  `beyond` [n_draft - n_accepted]: what the target would choose next if the rejected tokens were right; empty
    if the engine can't say.
    """

    choices: Sequence[int]
    logprobs: Sequence[float] | None
    beyond: Sequence[int] = ()

    @property
    def n_accepted(self) -> int:
        return len(self.choices) - 1


class Engine(Protocol):
    """A target model that verifies windows.  Only one thread at a time may use it."""

    name: str
    context_limit: int
    determinism: Literal["bitwise", "tolerant"]
    prefill_grain: int
    """The size of a prefill part is a multiple of this, except at the end of a prompt."""

    @property
    def pass_times(self) -> Mapping[int, float]:
        """The relative time of a pass for each row count that a pass may have.  Other numbers of rows are padded to the
        next count."""

    @property
    def max_draft(self) -> int:
        """How many draft tokens fit in one window; 0 if the engine can't verify drafts."""

    def open(self, prompt_ids: Sequence[int], max_new_tokens: int, *, owner: str = "") -> Session | None:
        """Admit a sequence.

        It gets slots for the prompt and the new tokens.  The prefix cache of `owner` may hold a part of the prompt.
        Return None if there is no room until another session closes.  Raises ContextLimitExceeded if the tokens can
        never fit.
        """

    def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]:
        """Run one forward pass over all parts, which belong to distinct sessions.

        This accepts draft tokens and rewinds the sessions.  Return the verifications in the order of the parts (None
        for a prefill).  If the method raises, no session has changed.
        """

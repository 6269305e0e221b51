"""Names drafters, chains them, and learns how likely drafts are to be accepted.  The drafter `none` is here too.

Only this module says which names are legal; pipeline, settings and `doctor` ask it.  A chain such as
`merged_edit+suffix+draft_model` has at most one drafter of each kind.  The first kind copies from the sources, the
second repeats earlier tokens, and the third writes new text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, cast

from apply_service.errors import UnknownDrafter, UnsupportedParameter
from apply_service.protocols import EMPTY_DRAFT, Constraint, Draft, DraftContext, Drafter, Session, Verification
from apply_service.registry import (
    COPY_DRAFTERS,
    DRAFTERS,
    HEADS,
    LOOKUP_DRAFTERS,
    NO_DRAFTS,
    NOVEL_DRAFTERS,
    head_of,
    resolve,
)

KINDS = (COPY_DRAFTERS, LOOKUP_DRAFTERS, NOVEL_DRAFTERS)
"""The kinds of drafters, in their order in a chain."""
DRAFT_MODEL = "draft_model"
CONSTRAINT = "constraint"
"""The source name of drafts that the constraint determines."""
SURE = 0.9
"""A chain asks its next drafter only if the first drafter expects a lower acceptance than this."""


def drafter_names(*, has_draft_model: bool, head: str | None = None) -> Iterator[str]:
    """Yield every legal name, of single drafters and of chains.  `head`: the name of the engine's head, if any."""
    missing = {*HEADS} - {head} | (set() if has_draft_model else {DRAFT_MODEL})
    yield NO_DRAFTS
    for parts in product(*(("", *kind) for kind in KINDS)):
        if any(parts) and not missing & {*parts}:
            yield "+".join(filter(None, parts))


def check_drafter(name: str, *, has_draft_model: bool, head: str | None = None) -> None:
    """Raise an error if this service has no drafter of that name.

    Raises:
        UnknownDrafter: there is no such drafter or chain; the error lists the drafters.
        UnsupportedParameter: the drafter needs a draft model or a head, but this service was started without it.
    """
    if name in drafter_names(has_draft_model=has_draft_model, head=head):
        return
    limit = [NO_DRAFTS, *(part for kind in KINDS for part in kind)]
    if name not in drafter_names(has_draft_model=True, head=head_of(name)):
        kinds = "; ".join(", ".join(kind) for kind in KINDS)
        remedy = f"name one of these, or join one of each kind by +, in this order: {kinds}"
        raise UnknownDrafter("no such drafter", value=name, limit=limit, remedy=remedy)
    lacks_head = head_of(name) not in (None, head)
    raise UnsupportedParameter(
        f"this service was not started with {head_of(name)}" if lacks_head else "this service has no draft model",
        value=name,
        limit=[part for part in limit if part in drafter_names(has_draft_model=has_draft_model, head=head)],
        remedy="name another drafter, or "
        + (
            "start the service with it as its drafter"
            if lacks_head
            else "set draft_model to a smaller model with the same tokenizer as the model"
        ),
    )


def open_drafter(name: str, context: DraftContext, constraint: Constraint | None = None) -> Drafter:
    """Return the drafter of a legal name, for one request.  It also drafts the tokens that `constraint` determines.

    The drafter `none` never drafts anything.
    """
    opened: list[Drafter] = []
    for part in name.split("+"):
        opened.append(resolve(DRAFTERS, part)(context))
        if part in COPY_DRAFTERS:
            context = replace(context, resume=cast(Any, opened[-1]).resume)
    *before, drafter = opened
    for first in reversed(before):
        drafter = Chain(first, drafter)
    return drafter if constraint is None or name == NO_DRAFTS else Completed(drafter, constraint)


class NoDraft:
    """Drafts nothing.

    With a padded engine, decoding with this drafter gives the output that all drafters must reproduce.  With
    `TorchEngine.plain`, it is the baseline of every speed-up.
    """

    def __init__(self, context: DraftContext | None = None) -> None: ...

    def begin(self, session: Session) -> None: ...

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:  # noqa: ARG002
        return EMPTY_DRAFT

    def observe(self, verification: Verification) -> None: ...

    def close(self) -> None: ...


class Chain:
    """Takes the draft of `first` if that is sure enough, or else whichever of the two drafts has more expected tokens.

    So the second drafter writes only while the first has lost its place, and the first goes on as soon as it has found
    its place again.  Each drafter observes only its own drafts, because both see the whole output in `propose`.
    """

    def __init__(self, first: Drafter, second: Drafter) -> None:
        self._first, self._second = first, second
        self._used = first

    def begin(self, session: Session) -> None:
        self._first.begin(session)
        self._second.begin(session)

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        self._used, copied = self._first, self._first.propose(output_ids, limit)
        if copied.expected_acceptance >= SURE or limit <= 0:
            return copied
        novel = self._second.propose(output_ids, limit)
        if expected_tokens(novel) <= expected_tokens(copied):
            return copied
        self._used = self._second
        return novel

    def observe(self, verification: Verification) -> None:
        self._used.observe(verification)

    def close(self) -> None:
        self._first.close()
        self._second.close()


class Completed:
    """Drafts like `drafter`, but if the constraint allows only one continuation, that is the draft.

    Such tokens cost no pass of their own, because they are verified together with the target's next choice.  The
    drafter does not observe a draft that replaced its own.
    """

    def __init__(self, drafter: Drafter, constraint: Constraint) -> None:
        self._drafter = drafter
        self._constraint = constraint
        self._is_own = True

    def begin(self, session: Session) -> None:
        self._drafter.begin(session)

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        draft = self._drafter.propose(output_ids, limit)
        ids = draft.token_ids if limit <= 0 else self._constraint.completed(output_ids, draft.token_ids, limit)
        self._is_own = ids is draft.token_ids
        return draft if self._is_own else Draft(ids, 1.0, CONSTRAINT)

    def observe(self, verification: Verification) -> None:
        if self._is_own:
            self._drafter.observe(verification)

    def close(self) -> None:
        self._drafter.close()


# -- acceptance, learnt from what the target accepts -------------------------------------------------------------------
PRIOR_TOKENS = 30.0
"""A prior counts as at most this many tokens, so that the target's decisions soon outweigh it."""
KEPT = 0.95
"""Each draft multiplies the earlier counts of its kind by this, so that an estimate can both rise and fall."""

Counts = tuple[float, float]
"""The numbers of accepted and of rejected tokens, seen or assumed."""


class LearningDrafter:
    """Base class of drafters that estimate, for each kind of draft, how likely a token is to be accepted.

    A kind is named for the source of the draft and for how surely it was found.  An estimate starts from the kind's
    prior.  After that it follows how many tokens of such drafts the same target accepts, in this request and in others
    (`DraftContext.learnt`).  Short drafts count too when they are accepted, so a low estimate can recover.  `propose`
    of a subclass returns what `draft` makes.
    """

    def __init__(self, context: DraftContext, priors: Mapping[str, Counts]) -> None:
        self._learnt, self._priors = context.learnt, priors
        self._drafted: Sequence[int] = ()
        self._drafted_kind = ""

    def expected(self, kind: str) -> float:
        """Return the probability that a token of such a draft is accepted, if all tokens before it were accepted."""
        accepted, rejected = self._priors[kind]
        weight = min(1.0, PRIOR_TOKENS / (accepted + rejected))
        seen_accepted, seen_rejected = self._learnt.get(self._key(kind), (0.0, 0.0))
        accepted = weight * accepted + seen_accepted
        return accepted / (accepted + weight * rejected + seen_rejected)

    def _key(self, kind: str) -> str:
        return f"{type(self).__name__} {kind}"

    def draft(self, ids: Sequence[int], kind: str, source: str) -> Draft:
        """Return a draft of this kind.  The next `observe` is about it."""
        self._drafted, self._drafted_kind = ids, kind
        return Draft(ids, self.expected(kind), source) if ids else EMPTY_DRAFT

    def begin(self, session: Session) -> None:
        """Do nothing: these drafters need nothing from the target."""

    def observe(self, verification: Verification) -> None:
        """Count the tokens of the last draft that the target accepted and rejected.

        The pass may have had room for only a part of the draft.  A draft that was cut counts as rejected only if the
        target chose a token other than the draft's next one.
        """
        drafted, self._drafted = self._drafted, ()
        if drafted:
            n_accepted = min(verification.n_accepted, len(drafted))
            is_rejected = n_accepted < len(drafted) and drafted[n_accepted] != verification.choices[-1]
            key = self._key(self._drafted_kind)
            accepted, rejected = self._learnt.get(key, (0.0, 0.0))
            self._learnt[key] = KEPT * accepted + n_accepted, KEPT * rejected + is_rejected

    def close(self) -> None:
        """Do nothing: there is nothing to free."""


def expected_tokens(draft: Draft) -> float:
    """Return how many tokens of the draft are expected to be accepted."""
    acceptance, n_drafted = draft.expected_acceptance, len(draft.token_ids)
    if acceptance >= 1.0:
        return float(n_drafted)
    return acceptance * (1.0 - acceptance**n_drafted) / (1.0 - acceptance)


def worthwhile_length(acceptance: float, least: float, limit: int) -> int:
    """Return how many tokens to draft, so that each token is reached and accepted with at least the probability
    `least`."""
    n_tokens, reached = 0, acceptance
    while n_tokens < limit and reached >= least:
        n_tokens, reached = n_tokens + 1, reached * acceptance
    return n_tokens

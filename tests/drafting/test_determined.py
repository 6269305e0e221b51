"""Where a constraint leaves one way to go on, no pass is spent on it, whatever the drafter says; nothing changes."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from apply_service.decoding.verify import Decoding
from apply_service.drafting.drafter import CONSTRAINT, Completed, NoDraft, open_drafter
from apply_service.prompts.compact import Compact, LineConstraint
from apply_service.protocols import (
    EMPTY_DRAFT,
    Draft,
    DraftContext,
    Drafter,
    EditJob,
    SamplingParams,
    TokenSet,
    Verification,
)
from tests.adversarial import RandomDraft, told
from tests.decoding.alone import decode_alone
from tests.fake_engine import FakeEngine, hashed
from tests.prompts.test_compact import MODEL, random_job

COMPACT = Compact.from_directory(MODEL)
N_COMPACT = COMPACT.vocabulary.n_tokens


class Told(NoDraft):
    """Proposes what it was given and notes what it is told."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.draft = Draft(ids, 0.5, "predicted") if ids else EMPTY_DRAFT
        self.observed: list[tuple[int, int]] = []
        self.is_closed = False

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        return Draft(self.draft.token_ids[:limit], self.draft.expected_acceptance, self.draft.source)

    def observe(self, verification: Verification) -> None:
        self.observed.append((verification.n_accepted, verification.choices[-1]))

    def close(self) -> None:
        self.is_closed = True


class Completing:
    """Determines `ids`; None: nothing."""

    def __init__(self, ids: list[int] | None) -> None:
        self._ids = ids

    def masks(self, output_ids: Sequence[int], draft_ids: Sequence[int]) -> Sequence[TokenSet | None]:
        return [None] * (len(draft_ids) + 1)

    def completed(self, output_ids: Sequence[int], draft_ids: Sequence[int], limit: int) -> Sequence[int]:
        return draft_ids if self._ids is None else self._ids


def constraint_of(edit: EditJob) -> LineConstraint:
    found = COMPACT.constraint(edit)
    assert isinstance(found, LineConstraint)
    return found


def test_a_draft_that_fits_stays_as_it_is() -> None:
    inner = Told([1, 2, 3])
    drafter = Completed(inner, Completing(None))
    assert drafter.propose([], 2) == Draft([1, 2], 0.5, "predicted")
    drafter.observe(told(2, 9))
    assert inner.observed == [(2, 9)]
    drafter.close()
    assert inner.is_closed


def test_a_draft_against_what_is_determined_makes_room_and_is_not_judged() -> None:
    inner = Told([1, 2, 3])
    drafter = Completed(inner, Completing([7, 8]))
    assert drafter.propose([], 5) == Draft([7, 8], 1.0, CONSTRAINT)
    drafter.observe(told(2, 9))
    assert inner.observed == []


def test_the_rest_of_a_line_is_determined_and_the_next_tag_is_not() -> None:
    edit = random_job(random.Random(3))
    line = COMPACT.vocabulary.encode_lines([edit.original.split("\n")[0]])[0].tolist()
    tag = COMPACT.vocabulary.tag("keep", 0)
    for ids, expected in ((EMPTY_DRAFT.token_ids, line), ([5] * 9, line), ([*line, 5], [*line, 5])):
        assert list(constraint_of(edit).completed([tag], ids, 99)) == expected
    assert list(constraint_of(edit).completed([tag], [], 1)) == line[:1]
    assert list(constraint_of(edit).completed([], [5], 99)) == [5]


def test_nothing_is_determined_after_the_end() -> None:
    edit = random_job(random.Random(3))
    output = COMPACT.encode_ops(edit.prediction.ops)
    assert list(constraint_of(edit).completed(output, [], 9)) == []


def decode(edit: EditJob, drafter: Drafter, *, seed: int, temperature: float = 0.0) -> Decoding:
    engine = FakeEngine(hashed(N_COMPACT, seed=seed), max_draft=255)
    sampling = SamplingParams(temperature, seed)
    prompt_ids = COMPACT.encode_prompt(edit)
    limit = 4 * len(prompt_ids)
    with Decoding(engine, prompt_ids, drafter, limit, COMPACT.stop_ids, sampling, COMPACT.constraint(edit)) as decoding:
        for _ in decode_alone(decoding):
            pass
    return decoding


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("seed", range(6))
def test_a_pass_is_spent_on_decisions_alone_and_nothing_changes(seed: int, temperature: float) -> None:
    edit = random_job(random.Random(seed))
    plain = decode(edit, NoDraft(), seed=seed, temperature=temperature)
    masks = constraint_of(edit).masks([], plain.output_ids[:-1])
    n_decisions = sum(mask is not None and len(mask) > 1 for mask in masks)
    noisy = RandomDraft(N_COMPACT, seed=seed, answer=[])
    for inner in (NoDraft(), noisy):
        drafter = Completed(inner, constraint_of(edit))
        drafted = decode(edit, drafter, seed=seed, temperature=temperature)
        assert drafted.output_ids == plain.output_ids
        assert drafted.stats.passes <= n_decisions + 1 < plain.stats.passes


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("name", ["merged_edit", "original", "prompt_lookup", "suffix", "merged_edit+suffix"])
@pytest.mark.parametrize("seed", range(3))
def test_drafts_change_nothing_under_the_constraint(name: str, temperature: float, seed: int) -> None:
    edit = random_job(random.Random(seed + 100))
    context = DraftContext(COMPACT.encode_sources(edit), COMPACT.encode_prompt(edit), None, 300)
    plain = decode(edit, NoDraft(), seed=seed, temperature=temperature)
    drafted = decode(edit, open_drafter(name, context, constraint_of(edit)), seed=seed, temperature=temperature)
    assert (drafted.output_ids, drafted.finish_reason) == (plain.output_ids, plain.finish_reason)

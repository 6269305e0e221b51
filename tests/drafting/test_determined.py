"""Where a constraint leaves one way to go on, no pass is spent on it, whatever the drafter says; nothing changes."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from apply_service.decoding.scheduler import decode_alone
from apply_service.decoding.verify import Decoding
from apply_service.drafting.chain import CONSTRAINT, Completed
from apply_service.drafting.none import NoDraft
from apply_service.engine.fake import FakeEngine, hashed
from apply_service.prompts.compact import Compact
from apply_service.prompts.constraint import WalkedConstraint
from apply_service.prompts.plain_bytes import N_VOCAB, PlainBytes
from apply_service.protocols import EMPTY_DRAFT, Draft, Drafter, EditJob, SamplingParams, TokenSet
from apply_service.types import Certainty, LineOp, Prediction
from tests.adversarial import RandomDraft
from tests.prompts.test_compact import MODEL, random_job

COMPACT = Compact.from_directory(MODEL)
N_COMPACT = COMPACT.vocabulary.n_tokens


class Told:
    """Proposes what it was given and notes what it is told."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.draft = Draft(ids, 0.5, "predicted") if ids else EMPTY_DRAFT
        self.observed: list[tuple[int, int]] = []
        self.is_closed = False

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        return Draft(self.draft.token_ids[:limit], self.draft.expected_acceptance, self.draft.source)

    def observe(self, n_accepted: int, next_id: int) -> None:
        self.observed.append((n_accepted, next_id))

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


def constraint_of(edit: EditJob) -> WalkedConstraint:  # type: ignore[type-arg]
    found = COMPACT.constraint(edit)
    assert isinstance(found, WalkedConstraint)
    return found


def test_a_draft_that_fits_stays_as_it_is() -> None:
    told = Told([1, 2, 3])
    drafter = Completed(told, Completing(None))
    assert drafter.propose([], 2) == Draft([1, 2], 0.5, "predicted")
    drafter.observe(2, 9)
    assert told.observed == [(2, 9)]
    drafter.close()
    assert told.is_closed


def test_a_draft_against_what_is_determined_makes_room_and_is_not_judged() -> None:
    told = Told([1, 2, 3])
    drafter = Completed(told, Completing([7, 8]))
    assert drafter.propose([], 5) == Draft([7, 8], 1.0, CONSTRAINT)
    drafter.observe(2, 9)
    assert told.observed == []


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


def text_constraint() -> WalkedConstraint:  # type: ignore[type-arg]
    original = "if a:\n  go()\nelse:\n  stop()"
    keeps = [LineOp("keep", i, None, line) for i, line in enumerate(original.split("\n"))]
    ops = (keeps[0], keeps[1]._replace(kind="drop"), LineOp("take", None, 0, "  go(1)"), *keeps[2:])
    prediction = Prediction(ops, ("  go(1)",), Certainty.LIKELY)
    found = PlainBytes().constraint(EditJob(original, "  go(1)", "", None, None, prediction))
    assert isinstance(found, WalkedConstraint)
    return found


@pytest.mark.parametrize(
    ("written", "draft", "expected"),
    [
        (b"i", b"", b"f a:"),
        (b"i", b"x", b"f a:"),
        (b"i", b"f a", b"f a"),
        (b"i", b"f a:\n  go", b"f a:\n  go"),
        (b"  g", b"x", b"o("),
        (b"  go(", b"x", b"x"),
        (b"  go(1", b"x", b")"),
        (b"", b"x", b"x"),
    ],
)
def test_text_is_drafted_as_far_as_the_lines_that_fit_agree(written: bytes, draft: bytes, expected: bytes) -> None:
    assert bytes(text_constraint().completed(list(written), list(draft), 99)) == expected


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_lines_of_a_text_cost_passes_only_where_there_is_a_choice(seed: int) -> None:
    def decode_text(drafter: Drafter) -> Decoding:
        engine = FakeEngine(hashed(N_VOCAB, seed=seed))
        stop_ids = PlainBytes().stop_ids
        with Decoding(engine, [1, 2], drafter, 120, stop_ids, constraint=text_constraint()) as decoding:
            for _ in decode_alone(decoding):
                pass
        return decoding

    plain = decode_text(NoDraft())
    drafted = decode_text(Completed(NoDraft(), text_constraint()))
    assert drafted.output_ids == plain.output_ids
    assert drafted.stats.rejections == 0
    assert drafted.stats.passes <= plain.stats.passes / 2

"""Scoring by forced decoding: the text is written whatever the target thinks, and what it thinks is told."""

from __future__ import annotations

import math

import numpy as np
import pytest

from apply_service.decoding.verify import Decoding, Forced, Step
from apply_service.protocols import Constraint, TokenSet
from apply_service.types import FinishReason
from tests.decoding.alone import decode_alone
from tests.fake_engine import FakeEngine, hashed, scripted

END = 7
N_VOCAB = 8
TEXT = [1, 2, 3, 4, 5, 6, 1, 2, END]


class Rules:
    """Allows even ids alone at even places, all elsewhere."""

    def masks(self, output_ids: list[int], draft_ids: list[int]) -> list[TokenSet | None]:
        places = range(len(output_ids), len(output_ids) + len(draft_ids) + 1)
        return [None if at % 2 else np.array([TEXT[at]] if at % 4 else [TEXT[at], END]) for at in places]


def force(engine: FakeEngine, forced: Forced) -> tuple[Decoding, list[Step]]:
    decoding = Decoding(engine, [0, 0], forced, len(forced.ids), frozenset({END}), constraint=forced)
    return decoding, list(decode_alone(decoding))


@pytest.mark.parametrize("max_draft", [1, 3, 63])
@pytest.mark.parametrize("seed", range(5))
def test_the_text_is_written_against_the_targets_will_with_its_own_log_probabilities(max_draft: int, seed: int) -> None:
    logits = hashed(N_VOCAB, seed=seed)
    decoding, steps = force(FakeEngine(logits, max_draft=max_draft), Forced(TEXT, None))
    assert decoding.output_ids == TEXT
    assert decoding.finish_reason is FinishReason.STOP
    told = [logprob for step in steps for logprob in step.logprobs or ()]
    for at, token in enumerate(TEXT):
        row = logits([0, 0, *TEXT[:at]]).astype(np.float64)
        assert told[at] == pytest.approx(row[token] - np.log(np.exp(row).sum()), abs=1e-4)


def test_a_text_of_one_window_takes_one_pass() -> None:
    decoding, steps = force(FakeEngine(scripted(2, [3], N_VOCAB)), Forced(TEXT, None))
    assert len(steps) == decoding.stats.passes == 1
    assert decoding.stats.accepted_tokens == len(TEXT) - 1


@pytest.mark.parametrize("max_draft", [1, 2, 63])
def test_the_rules_say_where_there_was_a_choice(max_draft: int) -> None:
    forced = Forced(TEXT, Rules())  # type: ignore[arg-type]
    force(FakeEngine(scripted(2, [3], N_VOCAB), max_draft=max_draft), forced)
    assert forced.decisions == [bool(at % 2 or at % 4 == 0) for at in range(len(TEXT))]
    assert forced.is_allowed


def test_a_text_against_the_rules_is_noticed() -> None:
    class Forbidding:
        def masks(self, output_ids: list[int], draft_ids: list[int]) -> list[TokenSet | None]:
            return [None if len(output_ids) + i != 4 else np.array([0, 1]) for i in range(len(draft_ids) + 1)]

    forced = Forced(TEXT, Forbidding())  # type: ignore[arg-type]
    force(FakeEngine(scripted(2, [3], N_VOCAB)), forced)
    assert not forced.is_allowed


def test_it_is_a_constraint_and_a_drafter() -> None:
    forced: Constraint = Forced(TEXT, None)
    (mask,) = forced.masks(TEXT[:3], [])
    assert mask is not None
    assert mask.tolist() == [4]
    assert list(Forced(TEXT, None).propose(TEXT[:6], 2).token_ids) == [1, 2]
    assert math.isclose(Forced(TEXT, None).propose([], 4).expected_acceptance, 1.0)

"""Lookahead: what a target says behind a rejected token is drafted when its turn comes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from apply_service.decoding.verify import Decoding
from apply_service.drafting.drafter import Drafter, NoDraft
from apply_service.drafting.lookahead import N_DRAFTED, Lookahead
from apply_service.drafting.lookup import Suffix
from apply_service.protocols import DraftContext, SamplingParams, Verification
from tests.decoding.alone import decode_alone
from tests.drafting.simulation import job
from tests.fake_engine import FakeEngine, Logits, hashed
from tests.plain_bytes import PlainBytes

PROMPT = [1, 2, 9, 4, 30, 11, 53]


def context(prompt_ids: list[int]) -> DraftContext:
    return DraftContext(PlainBytes().encode_sources(job("", "", "")), prompt_ids, max_new_tokens=99)


def test_choices_behind_a_rejected_token_become_n_grams() -> None:
    drafter = Lookahead(context([1, 2]))
    assert list(drafter.propose([], 4).token_ids) == [1, 2], "nothing is known: any token makes the target guess"
    drafter.observe(Verification([7], None, [30, 31, 32]))
    assert list(drafter.propose([7], 3).token_ids) == [30, 31, 32], "the guess of the last pass"
    drafter.observe(Verification([8], None, [50, 51, 52]))  # after 7 comes 8; 50 would have come after 7 30
    assert list(drafter.propose([7, 8, 7, 30], 1).token_ids) == [50]


def test_it_drafts_no_more_than_it_may() -> None:
    drafter = Lookahead(context([*range(40)]))
    assert not drafter.propose([], 0).token_ids
    assert len(drafter.propose([], 99).token_ids) == N_DRAFTED
    assert len(drafter.propose([], 5).token_ids) == 5


def passes(drafter: Drafter, logits: Logits, sampling: SamplingParams) -> tuple[list[int], int]:
    engine = FakeEngine(logits, max_draft=12)
    decoding = Decoding(engine, PROMPT, drafter, 55, frozenset(), sampling)
    for _ in decode_alone(decoding):
        pass
    return decoding.output_ids, decoding.stats.passes


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("order", [1, 2])
def test_the_law_holds(order: int, temperature: float) -> None:
    sampling, logits = SamplingParams(temperature, 3), hashed(60, order=order)
    plain, n_plain = passes(NoDraft(), logits, sampling)
    ahead, n_ahead = passes(Lookahead(context(PROMPT)), logits, sampling)
    assert ahead == plain
    assert n_ahead <= n_plain


def test_a_target_is_told_before_it_repeats_itself() -> None:
    """The next token depends on the last one alone, and none comes twice: what a drafter of the output can't know, the
    target has said behind guesses that were wrong."""

    def logits(ids: Sequence[int]) -> npt.NDArray[np.float32]:
        row = np.zeros(61, dtype=np.float32)
        row[(2 * ids[-1] + 1) % 61] = 9.0
        return row

    plain, n_plain = passes(NoDraft(), logits, SamplingParams())
    assert len(set(plain)) == n_plain == 55
    _, n_suffix = passes(Suffix(context(PROMPT)), logits, SamplingParams())
    ahead, n_ahead = passes(Lookahead(context(PROMPT)), logits, SamplingParams())
    assert ahead == plain
    assert n_ahead < 0.8 * n_suffix

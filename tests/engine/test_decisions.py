"""What a pass decides, against the same decisions in plain Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from apply_service.engine.layout import pack
from apply_service.engine.passes import raise_known
from apply_service.engine.sampling import choose_greedily
from apply_service.protocols import Part, SamplingParams, Session, TokenSet, Verification, Window

VOCAB = 6


def accepted(draft_ids: Sequence[int], choices: Sequence[int]) -> list[int]:
    """The longest beginning of a draft that a target chose token by token, and its own next token."""
    found = []
    for drafted, chosen in zip([*draft_ids, None], choices, strict=True):
        found.append(chosen)
        if drafted != chosen:
            break
    return found


@settings(max_examples=150, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32))
def test_decisions_are_those_of_a_loop_over_the_draft(seed: int) -> None:
    """Whatever is accepted, and wherever a mask leaves no choice: there the target is not asked."""
    rng = random.Random(seed)
    parts: list[Part] = []
    wanted, made, told = [], [], []
    for i in range(rng.randint(1, 6)):
        draft = [rng.randrange(VOCAB) for _ in range(rng.choice([0, 0, 1, 2, 7, 20]))]
        # most of a draft stands
        choices = [token if rng.random() < 0.9 else rng.randrange(VOCAB) for token in draft] + [rng.randrange(VOCAB)]
        masks: list[TokenSet | None] = [np.array([one]) if rng.random() < 0.5 else None for one in choices]
        chances = [-rng.random() if mask is None else 0.0 for mask in masks]
        prompt = [rng.randrange(VOCAB) for _ in range(rng.randint(1, 9))]
        session = Session(prompt, range(64 * i, 64 * i + 64))
        parts.append(Window(session, prompt[-1], draft, SamplingParams(), masks if rng.random() < 0.8 else None))
        asked = [True] * len(choices) if parts[-1].allowed is None else [mask is None for mask in masks]
        made += [choice for choice, is_asked in zip(choices, asked, strict=True) if is_asked]
        told += [chance for chance, is_asked in zip(chances, asked, strict=True) if is_asked]
        ids = accepted(draft, choices)
        wanted.append(Verification(ids, chances[: len(ids)], choices[len(ids) :]))
    n_rows = sum(part.n_rows for part in parts)
    layout = pack(parts, n_rows, n_vocab=VOCAB, n_keys=lambda _, end: end, query_grain=1)
    padding = [0] * rng.randint(0, 3)
    assert layout.verified(parts, made + padding, told + padding) == wanted
    no_chances = [replace(one, logprobs=None) for one in wanted]
    assert layout.verified(parts, made, None) == no_chances


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_known_token_is_chosen_and_other_rows_are_left_alone(dtype: torch.dtype) -> None:
    logits = torch.randn((4, 50), generator=torch.Generator().manual_seed(0)).to(dtype)
    before = logits.clone()
    choices, _ = choose_greedily(raise_known(logits, torch.tensor([-1, 7, -1, 49])))
    assert choices.tolist() == [int(before[0].argmax()), 7, int(before[2].argmax()), 49]
    assert torch.equal(logits[::2], before[::2])


def test_a_row_that_is_no_number_has_no_log_probability() -> None:
    logits = torch.zeros((2, 5))
    logits[1, 3] = float("nan")
    assert choose_greedily(logits)[1].isnan().tolist() == [False, True]

"""What a pass decides on the device, against the same decisions in plain Python."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from apply_service.engine.layout import Layout, WindowRows
from apply_service.engine.passes import PassInputs, PassKey, decide, raise_known, read_decisions
from apply_service.engine.sampling import choose_greedily
from apply_service.protocols import SamplingParams
from tests.engine.test_torch_local import DEVICES, skip_without

VOCAB = 6


def accepted(draft_ids: Sequence[int], choices: Sequence[int]) -> list[int]:
    """The longest beginning of a draft that a target chose token by token, and its own next token."""
    found = []
    for drafted, chosen in zip([*draft_ids, None], choices, strict=True):
        found.append(chosen)
        if drafted != chosen:
            break
    return found


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=150, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32))
def test_decisions_are_those_of_a_loop_over_the_draft(device: str, seed: int) -> None:
    skip_without(device)
    rng = random.Random(seed)
    drafts = [[rng.randrange(VOCAB) for _ in range(rng.choice([0, 0, 1, 2, 7, 20]))] for _ in range(rng.randint(1, 6))]
    choices = [rng.randrange(VOCAB) for draft in drafts for _ in [0, *draft]]
    ids, positions, windows = [], [], []
    for draft in drafts:
        start = rng.randrange(1000)
        first = len(ids)
        windows.append(WindowRows(first, 1 + len(draft), start + 1, SamplingParams()))
        ids += [0, *draft]
        positions += range(start, start + 1 + len(draft))
        for i, token in enumerate(draft):  # most of a draft stands
            if rng.random() < 0.9:
                choices[first + i] = token
    n_used, n_padding = len(ids), rng.randint(0, 5)
    n_rows = n_used + n_padding
    rows = np.array([ids + [0] * n_padding, positions + [0] * n_padding])
    inputs = PassInputs(PassKey(n_rows, n_rows, n_rows, 0, 0, True), torch.device(device))
    inputs.fill(Layout(rows[0], rows[1], (), tuple(windows)))
    chosen = torch.tensor(choices + [0] * n_padding, device=device)
    logprobs = -torch.arange(n_rows, device=device, dtype=torch.float32)
    for n in (n_used, n_rows):  # with the rows of padding and without them
        decisions = read_decisions(decide(chosen[:n], logprobs[:n], inputs), [window.first for window in windows])
        for decision, draft, window in zip(decisions, drafts, windows, strict=True):
            wanted = accepted(draft, choices[window.first : window.first + window.n_rows])
            assert decision.choices == wanted
            assert decision.logprobs == [-float(window.first + i) for i in range(len(wanted))]


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

"""Known answers: found by prompt, forgotten, suggested; and raised above every other choice in a library's forward."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from apply_eval.library import answered
from apply_eval.replay import Answers, known_ids
from apply_service.engine.passes import raise_known
from tests.engine.tiny_models import tiny_model

STOP = 7


def test_an_expected_answer_wins_over_a_suggested_one() -> None:
    answers = Answers()
    answers.suggest([1, 2], lambda: [3])
    assert answers.find([1, 2]) == [3]
    answers.expect([1, 2], [4])
    assert answers.find([1, 2]) == [4]
    assert answers.find([1]) is None


def test_a_suggestion_is_made_only_where_it_is_needed() -> None:
    answers = Answers()
    answers.expect([1], [2])
    answers.suggest([1], lambda: pytest.fail("nobody asked"))
    assert answers.find([1]) == [2]


@pytest.mark.parametrize(
    ("first", "n_rows", "wanted"), [(0, 2, [4, 5]), (2, 3, [6, 6, 6]), (1, 2, [5, 6]), (9, 2, [6, 6])]
)
def test_known_ids_repeat_the_last_beyond_the_end(first: int, n_rows: int, wanted: list[int]) -> None:
    assert known_ids([4, 5, 6], first, n_rows) == wanted


def test_a_raised_token_is_the_choice_of_its_row_alone() -> None:
    logits = torch.tensor([[5.0, 1.0], [5.0, 1.0]])
    raise_known(logits, torch.tensor([-1, 1]))
    assert logits.argmax(-1).tolist() == [0, 1]


@torch.inference_mode()
def generated(prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], **options: object) -> list[list[int]]:
    model = tiny_model("qwen2", attention="sdpa")
    ids = torch.tensor(prompts)
    with answered(model, ids.shape[1], answers):
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=12,
            eos_token_id=STOP,
            pad_token_id=STOP,
            do_sample=False,
            **options,
        )
    return [row[ids.shape[1] :] for row in out.tolist()]


@pytest.mark.parametrize("n_lookup", [None, 3])
def test_the_library_writes_the_known_answer(n_lookup: int | None) -> None:
    answer = [9, 10, 11, 30, 12, 13, 14, STOP]
    prompt = [[1, 9, 10, 11, 12, 13, 14, 2]]
    assert generated(prompt, [answer], prompt_lookup_num_tokens=n_lookup) == [answer]


def test_every_sequence_of_a_batch_writes_its_own() -> None:
    first, second = [9, 10, 11, STOP], [20, 21, STOP]
    assert generated([[1, 2], [3, 4]], [first, second]) == [first, [*second, STOP]]


def test_the_model_is_its_own_again_afterwards() -> None:
    model = tiny_model("qwen2", attention="sdpa")
    with answered(model, 1, [[STOP]]):
        pass
    assert not model._forward_hooks
    assert not model._forward_pre_hooks

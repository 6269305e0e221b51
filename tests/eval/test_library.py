"""The peer's counts and times are those of its own forwards, with and without prompt lookup."""

from __future__ import annotations

from typing import Any

import pytest

from apply_eval.library import Forward, GenerateRun, generate
from apply_service.engine.attention import ATTENTION_NAME
from tests.engine.tiny_models import tiny_model

STOP = 7
ANSWER = [9, 10, 11, 12, 50, 13, 14, 15, 16, STOP]
PROMPT = [1, 9, 10, 11, 12, 13, 14, 15, 16, 2]


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_model("llama")


def test_plain_decoding_takes_a_forward_a_token(model: Any) -> None:
    run = generate(model, [PROMPT], max_new_tokens=20, stop_ids=[STOP], answers=[ANSWER])
    assert run.output_ids == (tuple(ANSWER),)
    assert [f.n_past for f in run.forwards] == [0, *range(len(PROMPT), len(PROMPT) + len(ANSWER) - 1)]
    assert run.n_tokens == len(ANSWER) - 1
    assert run.drafts == [(0, 0)] * len(ANSWER)
    assert 0 < run.first_token_s < run.ended_s - run.started_s
    assert run.decode_s == pytest.approx(run.ended_s - run.started_s - run.first_token_s)


def test_prompt_lookup_accepts_what_the_prompt_holds(model: Any) -> None:
    run = generate(model, [PROMPT], max_new_tokens=20, stop_ids=[STOP], answers=[ANSWER], prompt_lookup=4)
    assert run.output_ids == (tuple(ANSWER),)
    n_accepted = sum(accepted for _, accepted in run.drafts)
    assert n_accepted > 0
    assert n_accepted + len(run.forwards) == len(ANSWER)
    assert all(accepted <= drafted <= 4 for drafted, accepted in run.drafts)


def test_without_answers_the_model_decides(model: Any) -> None:
    alone = generate(model, [PROMPT], max_new_tokens=8, stop_ids=[STOP])
    looked_up = generate(model, [PROMPT], max_new_tokens=8, stop_ids=[STOP], prompt_lookup=4)
    assert alone.output_ids == looked_up.output_ids
    assert alone.output_ids != (tuple(ANSWER[:8]),)


def test_a_batch_is_padded_and_each_output_cut_at_its_end(model: Any) -> None:
    answers = [ANSWER, [20, 21, STOP]]
    run = generate(model, [PROMPT, PROMPT[3:]], max_new_tokens=20, stop_ids=[STOP], answers=answers)
    assert run.output_ids == tuple(map(tuple, answers))
    assert run.n_tokens == 13 - 2


def test_the_model_keeps_our_attention_and_no_hook(model: Any) -> None:
    generate(model, [PROMPT], max_new_tokens=2, stop_ids=[STOP])
    assert model.config._attn_implementation == ATTENTION_NAME
    assert not model._forward_hooks


def test_the_first_token_is_known_when_the_second_forward_begins() -> None:
    forwards = (Forward(10.0, 0, 1), Forward(12.0, 5, 3), Forward(13.0, 7, 1))
    run = GenerateRun(10.0, 14.0, 5, forwards, ((1, 2, 3, STOP),))
    assert (run.first_token_s, run.decode_s) == (2.0, 2.0)
    assert run.drafts == [(0, 0), (2, 1), (0, 0)]
    assert run.n_tokens == 3

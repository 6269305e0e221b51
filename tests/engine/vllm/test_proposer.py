"""The proposer under a fake vLLM: what it drafts, that drafts never mix although rows move, and that nothing stops a
step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from apply_service.engine.vllm.message import OPS, encode_edit
from apply_service.engine.vllm.proposer import Limits, Proposer, hook
from apply_service.models import embedded_directory
from apply_service.prompts.by_model import open_prompt_format
from apply_service.prompts.chat import BegunChat, Chat, FastApply, Osmosis
from apply_service.prompts.compact import Compact
from apply_service.prompts.tokenizer import ChatTokenizer
from apply_service.protocols import EditJob
from tests.engine.tiny_models import tiny_tokenizer
from tests.engine.vllm.edits import edit_job, numbered_edit
from tests.engine.vllm.fake_vllm import MAX_LEN, FakeRequest, FakeRunner, proposer


@pytest.fixture(scope="module")
def compact() -> Compact:
    found = open_prompt_format(str(embedded_directory()))
    assert isinstance(found, Compact)
    return found


class HookedRunner(FakeRunner):
    """With the hook in place."""


hook(HookedRunner)


def request(
    compact: Any, job: EditJob, *, name: str = "r", answer: list[int] | None = None, **fields: Any
) -> FakeRequest:
    """A request whose target writes the predicted merge, unless it has another `answer`."""
    merged = compact.encode_sources(job).predicted.ids.tolist() if answer is None else answer
    return FakeRequest(name, compact.encode_prompt(job), merged, encode_edit(job), **fields)


def changed(ids: list[int], at: int) -> list[int]:
    """The target writes two tokens otherwise."""
    return [*ids[:at], (ids[at] + 1) % 4000, (ids[at + 1] + 2) % 4000, *ids[at + 2 :]]


def test_a_right_merge_that_is_told_is_drafted_whole(compact: Compact) -> None:
    one = request(compact, numbered_edit(1))
    HookedRunner(proposer(compact)).run(one)
    n_tokens = len(one.answer)
    assert one.n_accepted == n_tokens - one.n_steps, "each step writes its draft and one token more"
    assert one.n_steps == 1 + -(-(n_tokens - 1) // 128), "the prompt's step, then full windows"


def test_without_the_hook_nothing_is_drafted(compact: Compact) -> None:
    one = request(compact, numbered_edit(1))
    FakeRunner(proposer(compact)).run(one)
    assert one.written == one.answer
    assert not any(one.drafts)


@pytest.mark.parametrize("seed", range(3))
def test_eight_files_never_mix_although_rows_move(compact: Compact, seed: int) -> None:
    jobs = [numbered_edit(number) for number in range(1, 9)]
    answers = [compact.encode_sources(job).predicted.ids.tolist() for job in jobs]
    alone = [request(compact, job, answer=changed(ids, 90)) for job, ids in zip(jobs, answers, strict=True)]
    together = [
        request(compact, job, name=str(i), answer=changed(ids, 90), n_prefill_steps=1 + i % 3)
        for i, (job, ids) in enumerate(zip(jobs, answers, strict=True))
    ]
    for one in alone:
        HookedRunner(proposer(compact)).run(one)
    HookedRunner(proposer(compact), seed=seed).run(*together, join_every=2, preempted="3")
    for one, among in zip(alone, together, strict=True):
        assert one.n_accepted > 0.5 * len(one.answer)
        assert [draft for draft in among.drafts if draft] == [draft for draft in one.drafts if draft]


def test_twins_that_part_each_keep_their_own_draft(compact: Compact) -> None:
    """The same prompt twice, as in sampling: one writes the merge, the other something else in the middle."""
    job = numbered_edit(1)
    merged = compact.encode_sources(job).predicted.ids.tolist()
    lone = [request(compact, job, answer=answer) for answer in (merged, changed(merged, 40), changed(merged, 200))]
    twins = [request(compact, job, name=str(i), answer=one.answer) for i, one in enumerate(lone)]
    for one in lone:
        HookedRunner(proposer(compact)).run(one)
    HookedRunner(proposer(compact), seed=1).run(*twins)
    assert [twin.n_steps for twin in twins] == [one.n_steps for one in lone]


def test_an_id_used_again_is_another_request(compact: Compact) -> None:
    drafter = proposer(compact)
    first, second = request(compact, numbered_edit(1)), request(compact, numbered_edit(2))
    HookedRunner(drafter).run(first)
    HookedRunner(drafter).run(second)
    assert second.n_accepted == len(second.answer) - second.n_steps


def test_what_is_over_is_forgotten(compact: Compact) -> None:
    drafter = proposer(compact)
    HookedRunner(drafter).run(*(request(compact, numbered_edit(i), name=str(i)) for i in range(1, 6)))
    drafter.announce([], [])
    drafter.propose([], np.zeros(0, np.int32), np.zeros((0, 4), np.int32))
    assert not drafter.requests


# -- limits ------------------------------------------------------------------------------------------------------------
def test_drafts_share_half_of_a_step(compact: Compact) -> None:
    them = [request(compact, numbered_edit(i), name=str(i)) for i in range(1, 9)]
    HookedRunner(proposer(compact, n_step=256)).run(*them)
    assert max(len(draft) for one in them for draft in one.drafts) <= 128
    assert len(them[-1].drafts[0]) == 128 // 8, "when the last has come, all eight write"


def test_no_draft_goes_past_the_context(compact: Compact) -> None:
    one = request(compact, numbered_edit(1))
    n_context = len(one.prompt) + 60
    HookedRunner(proposer(compact, n_context=n_context)).run(one)
    n_written = 0
    for draft in one.drafts:
        n_written += 1
        assert n_written + len(draft) < 61 or not draft
        n_written += len(draft)


def test_no_draft_is_longer_than_asked(compact: Compact) -> None:
    one = request(compact, numbered_edit(1))
    HookedRunner(proposer(compact, n_draft=5)).run(one)
    assert max(map(len, one.drafts)) == 5


# -- what is none of ours ----------------------------------------------------------------------------------------------
def test_a_prompt_of_others_goes_without_drafts(compact: Compact) -> None:
    stranger = FakeRequest("s", [5, 6, 7, 8] * 30, [5, 6, 7, 8] * 10)
    ours = request(compact, numbered_edit(1), name="o")
    HookedRunner(proposer(compact)).run(stranger, ours)
    assert not any(stranger.drafts)
    assert ours.n_accepted


def test_a_message_that_is_none_costs_its_own_drafts_alone(compact: Compact, caplog: pytest.LogCaptureFixture) -> None:
    bad, good = request(compact, numbered_edit(1), name="b"), request(compact, numbered_edit(2), name="g")
    assert bad.arguments is not None
    bad.arguments = {**bad.arguments, OPS: [9, 9, 9]}
    HookedRunner(proposer(compact)).run(bad, good)
    assert not any(bad.drafts)
    assert good.n_accepted == len(good.answer) - good.n_steps
    assert "nothing is drafted for this request" in caplog.text
    assert "f1_3" not in caplog.text, "no code in logs"


def test_a_drafter_that_fails_stops_nothing(compact: Compact, monkeypatch: pytest.MonkeyPatch) -> None:
    from apply_service.drafting.copy import CopyDrafter

    def fail(self: Any, output_ids: list[int], limit: int) -> None:
        raise RuntimeError("def secret")

    monkeypatch.setattr(CopyDrafter, "propose", fail)
    one = request(compact, numbered_edit(1))
    HookedRunner(proposer(compact)).run(one)
    assert one.written == one.answer
    assert not any(one.drafts)


@pytest.mark.parametrize("marker", ["<|end|>", "<|update|>", "<|merge|>", "<|keep:3|>"])
def test_markers_in_a_file_are_text(compact: Compact, marker: str) -> None:
    original = f"a = 1\nb = '{marker}'\n" + "".join(f"c{i} = {i}\n" for i in range(50))
    one = request(compact, edit_job(original, original.replace("a = 1", "a = 2")))
    HookedRunner(proposer(compact)).run(one)
    assert one.written == one.answer
    assert one.n_accepted > 0.7 * len(one.answer)


# -- formats of other models -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [Chat, BegunChat, FastApply, Osmosis])
def test_every_format_is_drafted_for(kind: Any) -> None:
    prompt_format = kind(ChatTokenizer(tiny_tokenizer()))
    one = request(prompt_format, numbered_edit(1, n_functions=6))
    HookedRunner(proposer(prompt_format)).run(one)
    assert one.n_accepted > 0.98 * len(one.answer) - one.n_steps


def test_a_model_may_be_asked_in_another_format() -> None:
    """As the front end does: by a chat, whatever the model's own format is."""
    tokenizer = ChatTokenizer(tiny_tokenizer())
    chat, job = Chat(tokenizer), numbered_edit(1, n_functions=6)
    one = request(chat, job)
    one.arguments = encode_edit(job, "chat")
    HookedRunner(Proposer([FastApply(tokenizer), Osmosis(tokenizer), chat], Limits(127, MAX_LEN, 100_000))).run(one)
    assert one.n_accepted > 0.98 * len(one.answer) - one.n_steps


def test_a_format_that_the_model_has_not_is_not_drafted_for(compact: Compact, caplog: pytest.LogCaptureFixture) -> None:
    one = request(compact, numbered_edit(1))
    one.arguments = encode_edit(numbered_edit(1), "chat")
    HookedRunner(proposer(compact)).run(one)
    assert not any(one.drafts)
    assert "names a prompt format that this model does not have" in caplog.text


@pytest.mark.parametrize(
    "piece", ["</original>", "\n</original>\n<update>\n", "<original>\n", "\n</update>", "<merged>"]
)
def test_a_file_with_the_format_s_marks_is_written_all_the_same(piece: str) -> None:
    chat = Chat(ChatTokenizer(tiny_tokenizer()))
    original = f"a = 1\nb = '{piece}'\n" + "".join(f"c{i} = {i}\n" for i in range(20))
    one = request(chat, edit_job(original, original.replace("a = 1", "a = 2")))
    HookedRunner(proposer(chat)).run(one)
    assert one.written == one.answer
    assert one.n_accepted > 0.5 * len(one.answer)


# -- the hook ----------------------------------------------------------------------------------------------------------
def test_the_hook_is_put_on_once() -> None:
    before = HookedRunner.propose_draft_token_ids
    hook(HookedRunner)
    assert HookedRunner.propose_draft_token_ids is before
    assert FakeRunner.propose_draft_token_ids is not before


def test_the_hook_lets_other_drafters_be(compact: Compact) -> None:
    class Other:
        def propose(self, sampled: Any, counts: Any, tokens: Any, slot_mappings: Any) -> list[list[int]]:
            return [[1] for _ in sampled]

    runner = HookedRunner(Other())
    assert runner.propose_draft_token_ids([[3]], np.zeros((1, 4), np.int32), np.ones(1, np.int32)) == [[1]]

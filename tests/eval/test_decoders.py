"""Peers on the same target: same prompt, same answer, counted passes; on a replay target and on the embedded model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apply_eval.datasets import EditRecord, measure_edit
from apply_eval.decoders import HfGenerate, Vllm, start_line
from apply_eval.runners import RequestOptions, alone
from apply_eval.target import OpenTarget, TargetOptions, open_target
from apply_service.engine.attention import ATTENTION_NAME
from apply_service.engine.vllm.message import decode_edit
from apply_service.errors import (
    ContextLimitExceeded,
    MissingDependency,
    Truncated,
    Unreachable,
    UnsupportedParameter,
)
from tests.eval.rows import record
from tests.eval.stub_server import Asked, Reply, stub_server

BEFORE = "".join(f"def f{i}(a, b):\n    return a + b * {i}\n\n\n" for i in range(6))
AFTER = BEFORE.replace("b * 3", "b * 33")
UPDATE = "# ... existing code ...\n\n\ndef f3(a, b):\n    return a + b * 33\n\n\n# ... existing code ...\n"
EDIT = EditRecord("e", BEFORE, AFTER, measure_edit(BEFORE, AFTER), update=UPDATE, language="python", path="f.py")
HIDDEN = AFTER.replace("b * 5", "b * 55")
"""A change that no snippet shows: the merge can't know it."""
WRONG_MERGE = EditRecord("w", BEFORE, HIDDEN, EDIT.measures, update=UPDATE + "\n", language="python", path="f.py")
FREE = RequestOptions(strategy="model", constrain="none")
BOUND = RequestOptions(strategy="model", constrain="sources")


@pytest.fixture(scope="module")
def replay() -> OpenTarget:
    return open_target(TargetOptions("replay:tiny-2m"), [EDIT, WRONG_MERGE, record("a")], FREE)


@pytest.fixture(scope="module")
def embedded() -> OpenTarget:
    return open_target(TargetOptions("embedded"), [EDIT], BOUND)


def test_a_replay_target_writes_the_known_answer_whoever_decodes(replay: OpenTarget) -> None:
    runners = [
        alone("plain", replay.plain, options=FREE, drafter="none"),
        alone("merged_edit", replay.runtime, options=FREE, drafter="merged_edit"),
        HfGenerate("hf-plain", replay.runtime, options=FREE),
        HfGenerate("hf-prompt-lookup", replay.runtime, options=FREE, n_lookup=10),
    ]
    answers = {runner.name: runner.answer(EDIT) for runner in runners}
    assert {answer.text for answer in answers.values()} == {AFTER}
    assert len({answer.n_tokens for answer in answers.values()}) == 1
    passes = {name: answer.passes or 0 for name, answer in answers.items()}
    assert passes["plain"] == passes["hf-plain"] == answers["plain"].n_tokens
    assert passes["merged_edit"] < passes["hf-prompt-lookup"] < passes["hf-plain"]
    assert all(answer.tok_s and answer.ttft_s for answer in answers.values())


def test_a_replay_target_knows_what_is_right_where_the_merge_is_wrong(replay: OpenTarget) -> None:
    for runner in (
        alone("merged_edit", replay.runtime, options=FREE, drafter="merged_edit"),
        HfGenerate("hf-prompt-lookup", replay.runtime, options=FREE, n_lookup=10),
    ):
        answer = runner.answer(WRONG_MERGE)
        assert answer.text == HIDDEN
        assert answer.agreement is False


def test_targets_say_what_they_are(replay: OpenTarget, embedded: OpenTarget) -> None:
    assert (replay.identity["kind"], replay.identity["shape"]["name"]) == ("replay", "tiny-2m")
    assert embedded.identity["kind"] == "weights"
    assert len(embedded.identity["sha256"]) == 64


def test_the_library_decodes_what_we_decode_under_the_constraint(embedded: OpenTarget) -> None:
    ours = alone("plain", embedded.plain, options=BOUND, drafter="none").answer(EDIT)
    for n_lookup in (None, 10):
        theirs = HfGenerate("hf", embedded.runtime, options=BOUND, n_lookup=n_lookup).answer(EDIT)
        assert theirs.text == ours.text
        assert theirs.n_tokens == ours.n_tokens
        assert (theirs.n_drafted is None) is (n_lookup is not None)


def test_our_attention_is_back_afterwards(replay: OpenTarget) -> None:
    engine: Any = replay.runtime.load("replay:tiny-2m").engine
    assert engine.model.config._attn_implementation == ATTENTION_NAME


def test_past_the_context_the_library_is_refused_as_we_are(embedded: OpenTarget) -> None:
    long = "".join(f"value_{i} = compute({i}, {i + 1})\n" for i in range(1500))
    edit = EditRecord("l", long, long, EDIT.measures, update="value_3 = 4\n", language="python", path="l.py")
    with pytest.raises(ContextLimitExceeded):
        HfGenerate("hf", embedded.runtime, options=BOUND).answer(edit)


# -- vllm --------------------------------------------------------------------------------------------------------------
def events(ids: list[int], *, size: int) -> str:
    """A stream as vLLM sends it, `size` tokens an event."""
    parts = [{"choices": [{"text": "", "token_ids": ids[i : i + size]}]} for i in range(0, len(ids), size)]
    return (
        "".join(f"data: {json.dumps(part)}\n\n" for part in [*parts, {"choices": [], "usage": {}}]) + "data: [DONE]\n\n"
    )


def vllm_reply(ids: list[int], *, size: int = 7) -> Any:
    def reply(asked: Asked) -> Reply:
        if asked.path == "/v1/models":
            return Reply({"data": [{"id": "the-model"}]})
        return Reply(events(ids, size=size), type="text/event-stream")

    return reply


def known_ids(replay: OpenTarget) -> list[int]:
    prompt_format: Any = replay.runtime.load("replay:tiny-2m").prompt_format
    return list(prompt_format.encode_output(AFTER))


def test_vllm_gets_our_prompt_and_gives_ids(replay: OpenTarget) -> None:
    ids = known_ids(replay)
    with stub_server(vllm_reply(ids)) as stub:
        runner = Vllm("vllm-ngram", stub.url, replay.runtime, options=FREE)
        answer = runner.answer(EDIT)
        runner.close()
    assert answer.text == AFTER
    assert (answer.n_tokens, answer.passes) == (len(ids), -(-len(ids) // 7))
    body = stub.asked[1].body
    assert (stub.asked[1].path, body["model"], body["temperature"]) == ("/v1/completions", "the-model", 0)
    assert len(body["prompt"]) == answer.n_prompt_tokens
    assert body["stop_token_ids"] == [ids[-1]]
    assert body["return_token_ids"]


def test_vllm_with_our_drafts_is_told_the_merge_and_others_are_not(replay: OpenTarget) -> None:
    told = {}
    for name in ("vllm-merged-edit", "vllm-suffix"):
        with stub_server(vllm_reply(known_ids(replay))) as stub:
            runner = Vllm(name, stub.url, replay.runtime, options=FREE)
            runner.answer(EDIT)
            runner.close()
        told[name] = decode_edit(stub.asked[1].body.get("vllm_xargs"))
    ours = told["vllm-merged-edit"]
    assert ours is not None
    assert (ours.job.original, ours.job.prediction.text) == (BEFORE, AFTER)
    assert told["vllm-suffix"] is None


def test_an_answer_of_vllm_that_never_ends_is_truncated(replay: OpenTarget) -> None:
    with stub_server(vllm_reply(known_ids(replay)[:-1])) as stub:
        runner = Vllm("vllm", stub.url, replay.runtime, options=FREE)
        with pytest.raises(Truncated):
            runner.answer(EDIT)
        runner.close()


def test_a_vllm_that_sends_no_ids_is_no_answer(replay: OpenTarget) -> None:
    with stub_server(vllm_reply([])) as stub:
        runner = Vllm("vllm", stub.url, replay.runtime, options=FREE)
        with pytest.raises(Unreachable, match="sent no tokens"):
            runner.answer(EDIT)
        runner.close()


def test_vllm_that_is_not_there_names_the_remedy(replay: OpenTarget) -> None:
    with pytest.raises(MissingDependency) as caught:
        Vllm("vllm-suffix", None, replay.runtime, options=FREE)
    assert caught.value.remedy == start_line("vllm-suffix")
    assert '--speculative-config \'{"method": "suffix"' in caught.value.remedy
    with pytest.raises(Unreachable) as gone:
        Vllm("vllm", "http://127.0.0.1:9", replay.runtime, options=FREE)
    assert "--peers vllm=http://" in gone.value.remedy


def test_vllm_knows_no_constraint_of_ours(replay: OpenTarget) -> None:
    with pytest.raises(UnsupportedParameter, match="constraint"):
        Vllm("vllm", "http://127.0.0.1:9", replay.runtime, options=RequestOptions(strategy="model"))

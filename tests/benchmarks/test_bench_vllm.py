"""What the benchmark of vLLM's drafters counts, on made-up runs and a scripted server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apply_service.engine.loading import embedded_directory
from apply_service.prompts.by_model import open_prompt_format
from benchmarks import bench_vllm, vllm_replay
from benchmarks.vllm_requests import Case, gap_at, write
from benchmarks.vllm_servers import Server
from tests.engine.vllm.edits import numbered_edit
from tests.eval.stub_server import Asked, Reply, stub_server


def row(n_tokens: int, n_steps: int, decode_s: float, **more: Any) -> dict[str, Any]:
    counts = {"drafts": n_steps - 1, "drafted": 2 * n_tokens, "accepted": n_tokens - n_steps}
    times = {"n_timed": n_tokens - 1, "decode_s": decode_s, "total_s": decode_s + 1.0, "tok_s": None}
    found = {"n_tokens": n_tokens, "n_steps": n_steps, "is_right": True, "is_cut": False, "differs_at": None}
    return found | counts | times | more


def test_speeds_are_of_all_edits_together_and_differences_are_counted() -> None:
    by = {name: row(101, 101, 10.0) for name in bench_vllm.CONTENDERS}
    by["told"] = row(101, 4, 1.0)
    by["suffix"] = row(101, 20, 2.5, differs_at=7, gap_nats=2e-6, is_right=False)
    slow = {name: row(201, 201, 20.0) for name in bench_vllm.CONTENDERS} | {"told": row(201, 5, 1.0)}
    found = bench_vllm.summary_of([{"by": by}, {"by": slow}])
    assert found["plain"]["tok_s"] == 10.0
    assert found["told"]["tok_s"] == 150.0
    assert found["told"]["tokens_per_step"] == round(302 / 9, 2)
    assert found["told"]["speedup_over"]["plain"] == 15.0
    assert (found["suffix"]["n_different"], found["suffix"]["largest_gap_nats"], found["suffix"]["n_right"]) == (
        1,
        2e-6,
        1,
    )


@pytest.mark.parametrize(
    ("a", "b", "at"), [([1, 2], [1, 2], None), ([1, 2], [1, 3], 1), ([1], [1, 2], 1), ([], [4], 0), ([5, 6, 7], [5], 1)]
)
def test_the_first_difference(a: list[int], b: list[int], at: int | None) -> None:
    assert bench_vllm.first_difference(a, b) == at


def test_the_replay_counts_tokens_after_the_first_of_each_edit() -> None:
    one = {"n_tokens": 101, "steps": 5, "drafted": 100, "accepted": 96, "decode_cpu_s": 2.0, "draft_cpu_s": 0.01}
    plain = one | {"steps": 101, "decode_cpu_s": 10.0}
    samples = [{"by": {name: plain if name == "plain" else one for name in vllm_replay.SETTINGS}}] * 2
    found = vllm_replay.summary_of(samples)
    assert (found["plain"]["tok_s"], found["told"]["tok_s"]) == (10.0, 50.0)
    assert found["told"]["speedup_over"]["plain"] == 5.0
    assert found["told"]["draft_ms_per_step"] == 2.0


def test_the_chat_of_the_replay_frames_messages_by_control_tokens_alone() -> None:
    chat, job = vllm_replay.open_chat(), numbered_edit(1, n_functions=5)
    ids = chat.encode_prompt(job)
    assert job.original in chat.decode(ids)
    assert max(chat.encode_sources(job).original.ids[:-1]) < 4096 <= max(ids), "control tokens follow the text's"


# -- one request -------------------------------------------------------------------------------------------------------
def case() -> Case:
    prompt_format, job = open_prompt_format(str(embedded_directory())), numbered_edit(1, n_functions=5)
    return Case("c", job, tuple(prompt_format.encode_prompt(job)), 300, prompt_format, job.prediction.text)


def test_ids_times_and_the_end_are_read_from_the_stream() -> None:
    one = case()
    answer = one.prompt_format.encode_sources(one.job).predicted.ids.tolist()
    parts = [answer[:1], answer[1:40], answer[40:]]
    events = "".join(f"data: {json.dumps({'choices': [{'token_ids': part}]})}\n\n" for part in parts)

    def reply(_: Asked) -> Reply:
        return Reply(events + "data: [DONE]\n\n", type="text/event-stream")

    with stub_server(reply) as stub:
        written = write(Server("told", stub.url, None), one, is_told=True)  # type: ignore[arg-type]
    assert (written.ids, written.is_cut) == (answer, False)
    assert one.is_right(written.ids)
    assert not one.is_right(written.ids[:-1]), "no end"
    found = written.as_row()
    assert (found["n_steps"], found["n_timed"]) == (3, len(answer) - 1)
    assert stub.asked[0].body["prompt"] == list(one.prompt_ids)
    assert "apply_ops" in stub.asked[0].body["vllm_xargs"]


def test_the_gap_is_between_the_two_best() -> None:
    best = {"choices": [{"logprobs": {"top_logprobs": [{"a": -0.5, "b": -2.0, "c": -0.75}]}}]}
    with stub_server(lambda _: Reply(best)) as stub:
        assert gap_at(Server("plain", stub.url, None), case(), [1, 2]) == 0.25  # type: ignore[arg-type]
    assert stub.asked[0].body["prompt"][-2:] == [1, 2]

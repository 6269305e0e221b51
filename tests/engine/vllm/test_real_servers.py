"""What the tests of a real vLLM read from it, on a scripted server."""

from __future__ import annotations

import json

from apply_service.models import embedded_directory
from apply_service.prompts.by_model import open_prompt_format
from tests.engine.vllm.edits import numbered_edit
from tests.engine.vllm.real_servers import Case, Server, gap_at, write
from tests.eval.stub_server import Asked, Reply, stub_server


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
    assert [n for _, n in written.puts] == [1, 39, len(answer) - 40]
    assert stub.asked[0].body["prompt"] == list(one.prompt_ids)
    assert "apply_ops" in stub.asked[0].body["vllm_xargs"]


def test_the_gap_is_between_the_two_best() -> None:
    best = {"choices": [{"logprobs": {"top_logprobs": [{"a": -0.5, "b": -2.0, "c": -0.75}]}}]}
    with stub_server(lambda _: Reply(best)) as stub:
        assert gap_at(Server("plain", stub.url, None), case(), [1, 2]) == 0.25  # type: ignore[arg-type]
    assert stub.asked[0].body["prompt"][-2:] == [1, 2]

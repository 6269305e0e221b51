"""The table of drafters runs end to end with a small model, and every line of it keeps the law."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from benchmarks.decoding.drafters import COPIES, PLAIN, WORKS, main
from tests.engine.test_heads import save_eagle
from tests.engine.tiny_models import save_tiny
from tests.eval.stub_server import Asked, Reply, stub_server
from tests.eval.test_decoders import events
from tests.training.edits import make_edits


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("drafters")
    model, (edit,) = save_tiny(folder / "model"), make_edits(1)
    save_eagle(folder / "eagle3")
    save_eagle(folder / "p-eagle", is_parallel=True)
    row = {"id": "e", "before": edit.before, "after": edit.after, "update": edit.after, "subject": "Change it."}
    (folder / "edits.jsonl").write_text(json.dumps(row) + "\n")
    found = ["--model", str(model), "--draft-model", str(model), "--data", str(folder / "edits.jsonl"), "--law"]
    heads = [part for name in ("eagle3", "p-eagle") for part in ("--head", f"{name}={folder / name}")]
    return [*found, *heads, "--tokens", "12", "--temperature", "0.4"]


def test_every_drafter_keeps_the_law(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*options, "--works", "lazy", "--out", str(tmp_path / "out.json")]) == 0
    ((work, rows),) = json.loads((tmp_path / "out.json").read_text())["works"].items()
    assert work == "lazy"
    assert {PLAIN, "suffix", "draft_model", f"{COPIES}+lookahead"} <= set(rows)
    assert {"eagle3", "p-eagle", f"{COPIES}+eagle3", f"{COPIES}+p-eagle"} <= set(rows)
    assert rows[PLAIN]["tokens_per_pass"] == rows[PLAIN]["times_plain"] == 1
    for name, row in rows.items():
        assert row["n_edits"] == 1
        assert row["differs"] == (None if name == PLAIN else 0), name
    assert "| lazy | merged_edit+suffix+eagle3 |" in capsys.readouterr().out


def test_every_kind_of_work_is_asked_for(options: list[str], tmp_path: Path) -> None:
    assert main([*options, "--drafters", COPIES, "--out", str(tmp_path / "out.json")]) == 0
    works = json.loads((tmp_path / "out.json").read_text())["works"]
    assert list(works) == list(WORKS)
    assert all(set(rows) == {PLAIN, COPIES} for rows in works.values())


@pytest.mark.skipif(sys.platform != "linux", reason="processor time of another process is read from /proc")
def test_servers_of_vllm_take_part(options: list[str], tmp_path: Path) -> None:
    counts, sizes = iter([(0, 0), (9, 3)]), iter([3, 1])

    def reply(asked: Asked) -> Reply:
        if asked.path == "/metrics":
            parts = zip(("draft", "accepted"), next(counts, (0, 0)), strict=True)
            text = "".join(f'vllm:spec_decode_num_{kind}_tokens_total{{engine="0"}} {n}.0\n' for kind, n in parts)
            return Reply(text, type="text/plain")
        if asked.path == "/v1/models":
            return Reply({"data": [{"id": "m"}]})
        sum(range(3_000_000))  # some ticks of the processor's clock
        return Reply(events([5, 6, 7, 8, 9, 10, 11], size=next(sizes)), type="text/event-stream")

    with stub_server(reply) as stub:
        servers = [f"{name}={stub.url}#{os.getpid()}" for name in ("vllm-ngram-128", "vllm")]
        told = [part for server in servers for part in ("--vllm", server)]
        assert main([*options, *told, "--works", "lazy", "--out", str(tmp_path / "out.json")]) == 0
    rows = json.loads((tmp_path / "out.json").read_text())["works"]["lazy"]
    assert list(rows) == ["vllm-ngram-128", "vllm"]
    assert (rows["vllm"]["tokens_per_pass"], rows["vllm"]["differs"]) == (1, None)
    assert (rows["vllm-ngram-128"]["tokens_per_pass"], rows["vllm-ngram-128"]["differs"]) == (3, 0)
    assert rows["vllm-ngram-128"]["acceptance"] == round(3 / 9, 4)

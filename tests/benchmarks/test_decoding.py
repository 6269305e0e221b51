"""The whole benchmark in seconds: every contender, alone and in a batch, writes the known answer of a replay target."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apply_eval.datasets import EditRecord, measure_edit, write_records
from apply_eval.mine import OWN_EDITS
from benchmarks.decoding.__main__ import CONTENDERS, main, parse, run
from benchmarks.decoding.contenders import groups_of
from benchmarks.decoding.samples import Sample
from tests.benchmarks.samples import sample
from tests.engine.tiny_models import save_tiny


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("bench") / "results" / "bench.json"
    assert main(["--quick", "--out", str(out)]) == 0
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


def test_every_contender_runs_alone_and_in_batches(result: dict[str, Any]) -> None:
    ran = {(row["contender"], row["batch"]) for row in result["samples"]}
    wanted = {(name, batch) for name in CONTENDERS for batch in (1, 2)} - {
        ("hf_prompt_lookup", 2),
        ("hf_prompt_lookup_128", 2),
    }
    assert ran == wanted
    assert {row["contender"] for row in result["summary"]} == {*CONTENDERS, "plain"}


def test_every_contender_writes_the_wanted_text(result: dict[str, Any]) -> None:
    assert all(row["n_exact"] == row["batch"] for row in result["samples"])


def test_speed_is_of_runs_that_drafted_what_they_say(result: dict[str, Any]) -> None:
    for row in result["samples"]:
        found = Sample(**row)
        assert found.decode_s > 0
        assert found.tok_s == pytest.approx(found.n_tokens / found.decode_s)
        assert found.accepted <= found.drafted
        assert (found.drafted == 0) == (found.contender in ("plain_engine", "hf_plain"))
        assert found.is_capped == (found.batch == 1 and found.contender in ("plain_engine", "hf_plain"))


def test_the_result_can_be_repeated(result: dict[str, Any]) -> None:
    where = result["provenance"]
    assert where["data"][0]["name"] == OWN_EDITS.name
    assert {"torch", "transformers"} <= where["versions"].keys()
    assert where["hardware"]["cpu"]
    assert result["options"]["seed"] == where["seed"] == 0
    assert result["targets"][0]["is_replay"]


def test_drafts_from_the_merge_need_fewer_passes_than_none(result: dict[str, Any]) -> None:
    rows = {row["contender"]: row for row in result["summary"] if row["batch"] == 1}
    assert rows["merged_edit"]["tokens_per_pass"] > 4
    assert rows["plain"]["tokens_per_pass"] == pytest.approx(1, abs=0.05)


def test_a_batch_goes_round_the_edits() -> None:
    cases: Any = ["a", "b", "c"]
    assert groups_of(cases, 4, 2) == {"group 0": ["a", "b", "c", "a"], "group 1": ["b", "c", "a", "b"]}


@pytest.mark.parametrize("arguments", [["--targets", "replay:none-such"], ["--contenders", "magic"]])
def test_an_unknown_name_is_refused(arguments: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"unknown_(model|drafter)"):
        main(["--quick", "--out", str(tmp_path / "x.json"), *arguments])


def test_the_commands_own_values_win_over_the_quick_ones() -> None:
    assert parse(["--quick", "--limit", "5"]).limit == 5
    assert parse(["--quick"]).targets == "replay:tiny-2m"


def own_edit(path: Path) -> Path:
    """A data set of one small edit."""
    before, after = "a = 1\nb = 2\nc = 3\n", "a = 1\nb = 20\nc = 3\n"
    write_records(path, [EditRecord("one", before, after, measure_edit(before, after), update=after, path="a.py")])
    return path


def test_any_model_is_measured_by_its_own_choices(tmp_path: Path) -> None:
    folder, data, out = save_tiny(tmp_path / "model"), own_edit(tmp_path / "edits.jsonl"), tmp_path / "bench.json"
    options = ["--contenders", "plain_engine,hf_plain,merged_edit", "--batches", "1", "--data", str(data)]
    assert main(["--quick", "--targets", str(folder), *options, "--out", str(out)]) == 0
    found = json.loads(out.read_text(encoding="utf-8"))
    assert not found["targets"][0]["is_replay"]
    assert [row["n_exact"] for row in found["samples"]] == [0, 0, 0]  # it is random


def test_under_the_constraint_the_peers_are_left_out() -> None:
    options = parse(["--constrain", "sources"])
    assert options.contenders.split(",") == [name for name in CONTENDERS if not name.startswith("hf_")]


def test_a_stopped_run_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    done = sample("merged_edit", 10)

    def stopped(*_: object) -> Iterator[Sample]:
        yield done
        raise KeyboardInterrupt

    monkeypatch.setattr("benchmarks.decoding.__main__.measure", stopped)
    found = run(parse(["--quick"]), log=lambda _: None)
    assert not found["is_complete"]
    assert found["samples"] == [done.as_json()]


def test_no_edit_that_fits_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="context_limit"):
        main(["--quick", "--max-tokens", "10", "--out", str(tmp_path / "x.json")])

"""`make bench-gpu` to its end on a CPU with a tiny shape, in processes that have nothing but torch, transformers,
safetensors, tokenizers and numpy, as on a rented machine; and that it goes on where it was stopped."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apply_eval.datasets import EditRecord, measure_edit, write_records
from apply_eval.replay import Replay
from apply_service.errors import FileNotReadable, SettingsError
from apply_service.models import embedded_directory
from benchmarks.gpu.__main__ import main, parse
from benchmarks.gpu.edits import case_of, read_prepared
from benchmarks.gpu.edits import main as prepare
from benchmarks.gpu.pieces import NAME, Results, choose_pieces, plan_pieces
from benchmarks.gpu.real import main as measure_real
from benchmarks.gpu.tables import render

ROOT = Path(__file__).parent.parent.parent
BLOCKED = (
    "cachetools",
    "fastapi",
    "limits",
    "mcp",
    "openai",
    "opentelemetry",
    "prometheus_client",
    "pytest",
    "ray",
    "rapidfuzz",
    "starlette",
    "tree_sitter",
    "uvicorn",
    "vllm",
)
"""What the project needs beyond what such a machine has; `httpx2` is the hub client's own here."""
BLOCKER = f"""
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0].startswith({BLOCKED!r}):
            raise ImportError(name + " is not there")
sys.meta_path.insert(0, Blocker())
"""
OPTIONS = ["--shapes", "tiny-2m", "--batches", "1,2", "--limit", "2", "--groups", "1", "--plain-tokens", "6"]
OPTIONS += [
    "--peer-tokens",
    "6",
    "--device",
    "cpu",
    "--contenders",
    "plain_engine,hf_plain,hf_prompt_lookup,merged_edit",
]
BEFORE = "".join(f"value_{i} = {i}\n" for i in range(12))
UPDATE = "# ... existing code ...\nvalue_4 = 4\nvalue_5 = 50\nvalue_6 = 6\n# ... existing code ...\n"


def run(folder: Path, *more: str, timeout_s: float = 3_600) -> subprocess.CompletedProcess[str]:
    """The command as a machine without the blocked packages would run it."""
    (folder / "blocked").mkdir(exist_ok=True)
    (folder / "blocked" / "sitecustomize.py").write_text(BLOCKER)
    paths = os.pathsep.join(map(str, (folder / "blocked", ROOT, ROOT / "eval")))
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.gpu", *OPTIONS, "--out", str(folder), *more]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=timeout_s
    )


def prepared(folder: Path) -> Path:
    """A folder with two small edits in it."""
    records = []
    for name in ("one", "two"):
        before, update = BEFORE.replace("value", name), UPDATE.replace("value", name)
        after = before.replace(f"{name}_5 = 5\n", f"{name}_5 = 50\n")
        records.append(EditRecord(name, before, after, measure_edit(before, after), update=update, path=f"{name}.py"))
    write_records(folder / "edits.jsonl", records)
    assert prepare(["--data", str(folder / "edits.jsonl"), "--out", str(folder / "cases.json.xz")]) == 0
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a whole run, and what it printed."""
    folder = prepared(tmp_path_factory.mktemp("gpu"))
    done = run(folder, "--budget-s", "3000")
    assert done.returncode == 0, done.stderr[-3000:]
    return folder, done.stdout


def result_of(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / NAME).read_text(encoding="utf-8"))
    return value


def test_it_runs_to_its_end_without_the_other_packages(whole: tuple[Path, str]) -> None:
    folder, printed = whole
    assert "all pieces are done" in printed
    assert "No GPU was at hand" in printed
    pieces = {piece["piece"]: piece for piece in result_of(folder)["pieces"]}
    assert list(pieces) == ["correctness", "tiny-2m-alone", "tiny-2m-batches"]
    ran = {(row["contender"], row["batch"]) for piece in pieces.values() for row in piece["samples"]}
    names = OPTIONS[-1].split(",")
    assert ran == {(name, batch) for name in names for batch in (1, 2)} - {("hf_prompt_lookup", 2)}


def test_every_contender_wrote_the_wanted_text(whole: tuple[Path, str]) -> None:
    rows = [row for piece in result_of(whole[0])["pieces"] for row in piece["samples"]]
    assert rows
    assert all(row["n_exact"] == row["batch"] for row in rows)


def test_the_target_says_what_its_passes_run_on(whole: tuple[Path, str]) -> None:
    target = result_of(whole[0])["pieces"][1]["target"]
    assert target["attention"] == "sdpa"
    assert "no CUDA device" in target["notes"]
    assert target["fp8_scales"] == {}
    assert target["fused_norms"] == 0


def test_nothing_that_was_checked_failed(whole: tuple[Path, str]) -> None:
    found = result_of(whole[0])["pieces"][0]["checks"]
    assert len(found) == 16
    assert {"self_speculation", "eagle3", "p-eagle", "medusa"} <= {
        word for c in found for word in re.findall(r"[\w-]+", c["name"])
    }
    assert not [check for check in found if check["is_ok"] is False]
    assert [check for check in found if "drafted against undrafted" in check["name"] and check["n"] > 0]


def test_a_run_that_lost_its_last_samples_takes_these_alone(whole: tuple[Path, str], tmp_path: Path) -> None:
    """And the file of results beside the edits is enough to go on elsewhere."""
    folder, _ = whole
    before = result_of(folder)
    (tmp_path / "cases.json.xz").write_bytes((folder / "cases.json.xz").read_bytes())
    lost = before | {"pieces": [dict(piece) for piece in before["pieces"]]}
    kept = lost["pieces"][1]["samples"][:-2]
    lost["pieces"][1] |= {"samples": kept, "is_complete": False}
    (tmp_path / NAME).write_text(json.dumps(lost))
    done = run(tmp_path, "--budget-s", "3000")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "all pieces are done" in done.stdout
    checks, alone, batches = result_of(tmp_path)["pieces"]
    assert alone["is_complete"]
    assert alone["samples"][: len(kept)] == kept
    keys = [(row["contender"], row["group"]) for row in before["pieces"][1]["samples"]]
    assert [(row["contender"], row["group"]) for row in alone["samples"]] == keys
    assert [checks, batches] == [before["pieces"][0], before["pieces"][2]]


def test_the_tables_have_every_contender_and_say_what_is_missing(whole: tuple[Path, str]) -> None:
    value = result_of(whole[0])
    page = render(value)
    for text in ("`merged_edit`", "HF prompt lookup", "GB of weights", "batch 2", "### Correctness"):
        assert text in page
    value["pieces"][2] |= {"samples": [], "is_complete": False}
    failure = {"during": "hf_plain, batch 2", "errors": ["ValueError: too\nlong"], "frames": ["a/b.py:3 f: g()"]}
    value["pieces"][2]["failures"] = [failure]
    assert "**Failed**, tiny-2m-batches: hf_plain, batch 2: `ValueError: too` (in a/b.py;" in render(value)
    assert "Not measured, or not to the end: tiny-2m-batches" in render(value)


def test_no_piece_is_begun_without_time_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = prepared(tmp_path)
    assert main([*OPTIONS, "--out", str(folder), "--budget-s", "5"]) == 0
    assert "to do: correctness, tiny-2m-alone, tiny-2m-batches" in capsys.readouterr().out


def test_pieces_of_another_run_are_not_mixed(tmp_path: Path) -> None:
    files = Results(tmp_path, {"seed": 0})
    files.write("x", files.read("x") | {"samples": [1]})
    assert files.read("x")["samples"] == [1]
    with pytest.raises(SettingsError, match="seed"):
        Results(tmp_path, {"seed": 1}).read("x")


def test_the_most_important_pieces_come_first() -> None:
    names = [piece.name for piece in plan_pieces(["7b", "70b-fp8", "1.5b", "32b"], [1, 8, 32, 64])]
    assert names[:4] == ["correctness", "7b-alone", "70b-fp8-alone", "7b-batches"]
    assert sorted(names[1:]) == sorted(
        f"{s}-{k}" for s in ("7b", "70b-fp8", "1.5b", "32b") for k in ("alone", "batches")
    )
    pieces = plan_pieces(["7b"], [1, 8])
    assert [piece.name for piece in choose_pieces(pieces, "7b-batches,correctness")] == ["7b-batches", "correctness"]
    with pytest.raises(SettingsError, match="no such piece"):
        choose_pieces(pieces, "8b-alone")


def test_prepared_edits_come_back_as_they_were(tmp_path: Path) -> None:
    found = read_prepared(prepared(tmp_path))
    assert {edit["id"] for edit in found["edits"]} == {"one", "two"}
    assert found["provenance"]["data"][0]["name"] == "edits.jsonl"
    case = case_of(found["edits"][0], Replay())
    assert case.job.prediction.text == case.after
    assert UPDATE.replace("value", case.id) == case.job.update


def test_without_prepared_edits_the_command_that_makes_them_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotReadable) as refused:
        read_prepared(tmp_path)
    assert "make bench-gpu-prepare" in refused.value.remedy
    with pytest.raises(SystemExit, match="bench-gpu-prepare"):
        main([*OPTIONS, "--out", str(tmp_path)])


def test_a_cpu_gets_shapes_of_its_size() -> None:
    assert parse(["--device", "cpu"]).shapes.startswith("tiny")


def test_a_pretrained_model_is_measured_by_its_own_choices(tmp_path: Path) -> None:
    """Here the embedded model in torch: right answers, then speeds of every contender that was named."""
    folder, out = prepared(tmp_path), tmp_path / "real.json"
    given = ["--model", str(embedded_directory()), "--edits", str(folder), "--out", str(out), "--device", "cpu"]
    assert (
        measure_real([*given, "--speeds", "1", "--contenders", "plain_engine,merged_edit", "--plain-tokens", "6"]) == 0
    )
    found = json.loads(out.read_text(encoding="utf-8"))
    assert [row["id"] for row in found["answers"]] == [edit["id"] for edit in read_prepared(folder)["edits"]]
    assert all(row["merge_is_right"] for row in found["answers"])
    assert all(row["n_tokens"] > 0 for row in found["answers"])
    assert {row["contender"] for row in found["summary"]} == {"plain", "plain_engine", "merged_edit"}
    assert not found["adapter"]

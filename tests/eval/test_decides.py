"""What a target may decide: counted edit by edit against the merger, and kept in the model's record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apply_eval import cli, decides
from apply_eval.datasets import EditRecord, read_records
from apply_eval.decides import Pair, compare_edit, count_kinds, judge, write_counts
from apply_service.engine.record import Kind, ModelRecord
from apply_service.target import Runtime, Target
from tests.fake_engine import ScriptedEngine
from tests.plain_bytes import END, PlainBytes

BEFORE = "import os\n\n\ndef one():\n    return 1\n\n\ndef two():\n    return 2\n"
AFTER = BEFORE.replace("return 1\n", "return 11\n")
LIKELY, GUESS = "def one():\n    return 11\n", "x = 1\n"
BLOCK = "<<<<<<< SEARCH\n    return 1\n=======\n    return 11\n>>>>>>> REPLACE\n"


@pytest.fixture
def record(tmp_path: Path) -> EditRecord:
    path = tmp_path / "edits.jsonl"
    row = {"id": "a", "repo": "r", "path": "a.py", "language": "python", "before": BEFORE, "after": AFTER}
    path.write_text(json.dumps({**row, "update": LIKELY, "subject": ""}) + "\n")
    return read_records(path)[0]


def writing(text: str, record: EditRecord) -> Runtime:
    from apply_service.pipeline import read_request
    from apply_service.types import ApplyRequest

    request = ApplyRequest(record.before, record.update, path=record.path, strategy="model")
    job = read_request(request, Runtime(load=lambda _: pytest.fail("loaded for nothing"))).job
    n_prompt = len(PlainBytes().encode_prompt(job))
    target = Target("embedded", ScriptedEngine([*text.encode(), END], prompt_length=n_prompt), PlainBytes())
    return Runtime(load=lambda _: target)


@pytest.mark.parametrize(("text", "is_right"), [(AFTER, True), (BEFORE, False), ("x" * 5000, False)])
def test_an_edit_is_answered_both_ways(record: EditRecord, text: str, is_right: bool) -> None:
    assert compare_edit(record, writing(text, record)) == Pair("likely", True, is_right)


def test_what_its_format_determines_is_not_counted(record: EditRecord) -> None:
    from dataclasses import replace

    assert compare_edit(replace(record, update=BLOCK), Runtime(load=lambda _: pytest.fail("asked"))) is None


def pairs(kind: Kind, both: int = 0, merge: int = 0, target: int = 0, none: int = 0) -> list[Pair]:
    return [
        *[Pair(kind, True, True)] * both,
        *[Pair(kind, True, False)] * merge,
        *[Pair(kind, False, True)] * target,
        *[Pair(kind, False, False)] * none,
    ]


@pytest.mark.parametrize(
    ("found", "decides"),
    [
        (pairs("likely", both=1000), False),
        (pairs("likely", both=50, target=3), False),
        (pairs("likely", both=50, target=8), True),
        (pairs("likely", merge=10, target=12), False),
        (pairs("certain", merge=10, target=40), True),
        (pairs("guess", both=9, target=9, none=2), True),
        (pairs("guess", both=9, target=9, none=20), False),
        (pairs("guess", target=1), False),
    ],
)
def test_a_target_must_be_better_beyond_chance(found: list[Pair], decides: bool) -> None:
    count = judge(found[0].kind, found)
    assert count.decides is decides
    assert count.n == len(found)
    assert 0 <= count.low <= count.high <= 1


def test_counts_go_into_the_record_and_leave_the_rest(tmp_path: Path) -> None:
    (tmp_path / "apply_service.json").write_text('{"prompt_format": "compact", "windows": "always"}')
    counts = count_kinds([*pairs("likely", target=20), *pairs("guess", none=20)])
    write_counts(tmp_path, counts)
    record = ModelRecord.read_without_calibration(tmp_path)
    assert (record.windows, record.counts) == ("always", counts)
    assert record.decides(was_trained=True) == {"likely"}
    assert record.decides(was_trained=False) == {"likely", "instruction"}
    assert json.loads((tmp_path / "apply_service.json").read_text())["prompt_format"] == "compact"


def test_what_was_not_counted_follows_from_the_training() -> None:
    assert ModelRecord().decides(was_trained=True) == {"likely", "guess"}
    assert ModelRecord().decides(was_trained=False) == {"guess", "instruction"}


def test_the_command_counts_and_tells_the_setting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    edits = tmp_path / "edits.jsonl"
    row = {"repo": "r", "path": "a.py", "language": "python", "before": BEFORE, "after": AFTER, "subject": ""}
    rows = [{**row, "id": f"{n}", "update": update} for n, update in enumerate((LIKELY, BLOCK, LIKELY))]
    edits.write_text("".join(json.dumps(one) + "\n" for one in rows))
    out = tmp_path / "counts.json"
    assert cli.main(["target", "embedded", "--data", str(edits), "--json", str(out)]) == 0
    said = capsys.readouterr().out
    assert "likely: 2 edits; the merge is right in 2" in said
    assert "--decides none" in said
    assert json.loads(out.read_text())["counts"]["likely"]["n"] == 2
    assert cli.main(["target", "embedded", "--data", str(edits), "--write"]) == 2
    assert decides.HALF == 0.5

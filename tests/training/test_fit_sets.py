"""The sets for the chooser: joined, parted and sketched from a folder of public sets."""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from training import fit_sets

BEFORE = "".join(f"def f{n}(x):\n    y = x + {n}\n    return y * {n}\n\n\n" for n in range(12))
AFTER = BEFORE.replace("y = x + 5\n", "y = x - 5\n")


def edit(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "repo": "a/b", "path": "f.py", "language": "python", "before": BEFORE, "after": AFTER, **more}


def pack(path: Path, rows: list[dict[str, Any]]) -> None:
    with lzma.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    window = {name: value for name, value in edit("").items() if name != "id"}
    other = {**window, "repo": "c/d", "after": BEFORE.replace("y * 7", "y / 7")}
    shown = {"sketch": "# ...\n    y = x - 5\n# ...\n", "update": "by hand", "split": "fit"}
    kept = edit("kept", style="free", **shown), edit("careless", style=fit_sets.CARELESS, **shown)
    pack(tmp_path / "model_written_fit.jsonl.xz", [*kept, edit("out", style="free", **{**shown, "split": "check"})])
    pack(tmp_path / "real_edits_fit.jsonl.xz", [edit("more", update="sketched")])
    pack(tmp_path / "train_windows.jsonl.xz", [window, other])
    snippets = [
        {"id": "more", "style": "free", "update": "ours"},
        {"id": fit_sets.edit_id(window), "style": "free", "update": "ours too"},
    ]
    asked = [{"id": fit_sets.edit_id(other), "update": "asked", "changes": [[0, 1, ""], [2, 3, "    return 1\n"]]}]
    own = {fit_sets.WRITTEN: snippets, fit_sets.ASKED: asked, fit_sets.TRIED: []}
    monkeypatch.setattr(fit_sets, "read_own", own.__getitem__)
    return tmp_path


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_sets_are_joined_parted_and_sketched(data: Path) -> None:
    out = data / "out"
    assert fit_sets.main(["--data", str(data), "--out", str(out)]) == 0
    hand = {row["update"]: row for row in rows_of(out / "hand.jsonl")}
    assert list(hand) == ["by hand", "ours", "ours too"]
    assert hand["ours"]["after"] == AFTER
    assert [row["id"] for row in rows_of(out / "careless.jsonl")] == ["careless"]
    assert {row["id"] for row in rows_of(out / "fit_sketch.jsonl")} == {"kept", "careless"}
    (request,) = rows_of(out / "asked.jsonl")
    assert request["after"] == "    y = x + 0\n    return 1\n" + BEFORE.partition("* 0\n")[2]
    assert (request["repo"], request["style"], request["update"]) == ("c/d", "asked", "asked")
    sketches = rows_of(out / "window_sketch.jsonl")
    assert [row["repo"] for row in sketches] == ["c/d"], "the other window has a snippet by hand"
    assert "y / 7" in sketches[0]["update"]


def test_the_same_input_gives_the_same_bytes(data: Path) -> None:
    for name in ("one", "two"):
        fit_sets.main(["--data", str(data), "--out", str(data / name)])
    for path in (data / "one").iterdir():
        assert path.read_bytes() == (data / "two" / path.name).read_bytes()


def test_an_edit_of_the_blank_lines_at_the_end_is_left_out() -> None:
    assert fit_sets.keeps_end({"before": "a\n\n", "after": "b\n\n"})
    assert not fit_sets.keeps_end({"before": "a\n", "after": "b\n\n"})
    assert not fit_sets.keeps_end({"before": "a\n", "after": "a"})


def test_a_snippet_for_no_edit_is_an_error() -> None:
    with pytest.raises(KeyError, match="nowhere"):
        fit_sets.join([{"id": "nowhere", "style": "free", "update": ""}], [])


def test_shipped_snippets_are_all_there() -> None:
    found = fit_sets.read_own(fit_sets.WRITTEN)
    assert len(found) == 4282
    assert len(fit_sets.read_own(fit_sets.TRIED)) == 547
    assert len(fit_sets.read_own(fit_sets.ASKED)) == 960
    assert all(row["update"].strip() and row["style"] for row in found)

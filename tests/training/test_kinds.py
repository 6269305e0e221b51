"""Made edits say what they mean: the plan gives the wanted file, and the snippet has one reading, or several named."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from training.kinds.__main__ import KINDS, main, name_of
from training.kinds.plans import Op, Plan, apply_ops, compose
from training.kinds.shape import definitions, is_statement, row_runs
from training.kinds.sources import Source, read_data, read_repository
from training.kinds.twins import find_twin

PYTHON = '''\
"""Orders of a shop."""

import json
import logging
import os

PRICES = {
    "apple": 10,
    "banana": 20,
    "cherry": 30,
    "damson": 40,
    "elderberry": 50,
}


def load_orders(path, strict=True):
    """Read orders."""
    log = logging.getLogger("orders")
    log.info("reading %s", path)
    text = read_text(path)
    orders = json.loads(text)
    if orders is None:
        raise ValueError("no orders")
    log.info("checking orders")
    check_orders(orders, strict)
    log.info("done with orders")
    return orders


def save_orders(path, orders):
    """Write orders."""
    log = logging.getLogger("orders")
    log.info("writing %s", path)
    text = json.dumps(orders)
    write_text(path, text)
    return len(text)


@cached
def total_price(orders, tax):
    """Sum up orders."""
    total = 0
    for order in orders:
        price = PRICES[order]
        total = total + price
    log.info("summed up")
    return total * tax
'''

GO = """\
package shop

import (
\t"fmt"
\t"os"
)

func Load(path string) (string, error) {
\tfmt.Println("loading", path)
\tdata, err := os.ReadFile(path)
\tif err != nil {
\t\treturn "", err
\t}
\tfmt.Println("loaded")
\tcount(path)
\treturn string(data), nil
}

func Save(path string, text string) error {
\tfmt.Println("saving", path)
\terr := os.WriteFile(path, []byte(text), 0o600)
\tif err != nil {
\t\treturn err
\t}
\tfmt.Println("saved")
\treturn nil
}

func Report(path string) {
\tfmt.Println("report", path)
\tcount(path)
\tcount("all")
\tfmt.Println("end")
}
"""

TWINS = "\n".join(
    f'test("{name}", () => {{\n  const shop = openShop({number});\n'
    '  shop.addOrder("apple", 3);\n  shop.closeAll();\n});\n'
    for number, name in enumerate(("one", "two", "three"))
)


def source(text: str, path: str = "shop.py", language: str = "python") -> Source:
    return Source("shop", path, language, "", text)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    for name, text in (("shop.py", PYTHON), ("shop.go", GO), ("shop.test.js", TWINS), ("note.bin", "no")):
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "untracked.py").write_text(PYTHON, encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), "add", "shop.py", "shop.go", "shop.test.js", "note.bin"], check=True)
    return folder


def made(repo: Path, out: Path, *more: str) -> list[dict[str, Any]]:
    assert main(["--repo", str(repo), "--out", str(out), "--edits", "200", "--seed", "5", *more]) == 0
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def test_tracked_files_are_the_sources(repo: Path) -> None:
    assert [one.path for one in read_repository(repo)] == ["shop.go", "shop.py", "shop.test.js"]


def test_records_are_whole_and_the_same_each_time(repo: Path, tmp_path: Path) -> None:
    records = made(repo, tmp_path / "a.jsonl")
    assert len(records) > 20
    made(repo, tmp_path / "b.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert {one["split"] for one in records} == {"fit", "check", "twins"}
    assert len({one["id"] for one in records}) == len(records)
    for one in records:
        assert one["update"].strip()
        assert one["after"] != one["before"]
        has_several = one["split"] == "twins" or one["style"].endswith("-ambiguous")
        assert ("places" in one) == ("wanted_texts" in one) == has_several
        if has_several:
            assert len(set(one["wanted_texts"])) == len(one["places"]) >= 2
            assert one["after"] in one["wanted_texts"]


@pytest.mark.parametrize("split", ["fit", "check", "twins"])
def test_a_part_alone(repo: Path, tmp_path: Path, split: str) -> None:
    assert {one["split"] for one in made(repo, tmp_path / "a.jsonl", "--split", split)} == {split}


def test_no_kind_is_in_both_halves() -> None:
    fit, check = ({name_of(kind) for kind in KINDS[split]} for split in ("fit", "check"))
    assert len(fit) == len(KINDS["fit"])
    assert len(check) == len(KINDS["check"])
    assert not fit & check


def test_windows_that_do_not_overlap_are_joined(tmp_path: Path) -> None:
    rows = [
        {"repo": "r", "path": "a.py", "language": "python", "before": PYTHON, "offset": 1},
        {"repo": "r", "path": "a.py", "language": "python", "before": PYTHON, "offset": 200},
        {"repo": "r", "path": "a.py", "language": "python", "before": GO, "offset": 400},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert [len(one.text) for one in read_data(file)] == [len(PYTHON), len(PYTHON), len(GO), len(PYTHON + GO)]


def test_operations_give_the_file_after() -> None:
    ops = (Op(0, 1, ("A",)), Op(2, 2, ("x", "y")), Op(3, 4))
    assert apply_ops(["a", "b", "c", "d"], ops) == ["A", "b", "x", "y", "c"]
    with pytest.raises(ValueError, match="out of order"):
        apply_ops(["a", "b"], (Op(1, 2), Op(0, 1)))


def test_a_snippet_shows_the_change_between_markers() -> None:
    at = PYTHON.split("\n").index('    log.info("checking orders")')
    edit = compose(source(PYTHON), Plan((Op(at, at + 1, ('    log.info("going on")',)),)), random.Random(3))
    assert edit is not None
    assert edit.after == PYTHON.replace("checking orders", "going on")
    assert 'log.info("going on")' in edit.update
    assert "checking orders" not in edit.update
    assert len(edit.update) < len(PYTHON) / 2


def test_a_snippet_with_two_readings_is_refused_unless_that_is_meant() -> None:
    text = TWINS.replace("(0)", "(7)").replace("(1)", "(7)").replace("(2)", "(7)")
    lines = text.split("\n")
    places = [i for i, line in enumerate(lines) if "addOrder" in line]
    op = Op(places[1], places[1] + 1, ('  shop.addOrder("pear", 3);',))
    shown = frozenset({places[1] - 1, places[1] + 1})
    plain = Plan((op,), shown, above=0, below=0, header="never")
    tests = source(text, "shop.test.js", "javascript")
    assert compose(tests, plain, random.Random(0)) is None
    several = Plan((op,), shown, above=0, below=0, header="never", places=tuple(places))
    edit = compose(tests, several, random.Random(0))
    assert edit is not None
    assert edit.after == edit.wanted[1] != edit.wanted[0]


def test_twins_name_every_place() -> None:
    found = find_twin(source(TWINS.replace("    ", "  "), "shop.test.js", "javascript"), random.Random(1))
    assert found is not None
    assert len(found.places) == len(found.wanted) == 3
    assert found.after in found.wanted
    assert all(text.count("\n") == TWINS.count("\n") for text in found.wanted)


def test_definitions_statements_and_rows() -> None:
    here = source(PYTHON)
    names = [(one.name, here.lines[one.top], here.lines[one.end - 1]) for one in definitions(here)]
    assert names[2] == ("total_price", "@cached", "    return total * tax")
    assert [one.name for one in definitions(source(GO, "shop.go", "go"))] == ["Load", "Save", "Report"]
    assert [here.lines[run[0]] for run in row_runs(here, at_least=5)] == ['    "apple": 10,']
    plain = [line for i, line in enumerate(here.lines) if is_statement(here, i)]
    assert "    text = read_text(path)" in plain
    assert '        raise ValueError("no orders")' not in plain

"""The comparison itself: a tree is the same as itself, and a change is found and named by its aspect."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from apply_service.merge.readings import readings
from apply_service.protocols import EditContext
from apply_service.registry import EDIT_FORMATS, resolve
from apply_service.types import Prediction
from tests.same import __main__ as same
from tests.same import inputs as drawing
from tests.same.inputs import DAMAGE, KINDS, SUFFIXES, read_rows
from tests.same.probe import ASPECTS, canonical, find_function, probe, probe_all

N_TESTED = 30


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """Some committed edits, and changes of committed edits in every kind, whole and damaged."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "FROM_SETS", 1.0)
        inputs = list(drawing.all_inputs(None, 2 * len(KINDS)))
    return [json.dumps(given) for given in [*inputs[: N_TESTED - 2 * len(KINDS)], *inputs[-2 * len(KINDS) :]]]


@pytest.fixture(scope="module")
def before(lines: list[str]) -> dict[str, Any]:
    return hashes(lines)


def hashes(lines: list[str]) -> dict[str, Any]:
    return dict(probe_all(lines, with_values=False))


def values(lines: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(canonical(dict(probe_all(lines, with_values=True))))
    return found


def test_a_tree_is_the_same_as_itself(lines: list[str], before: dict[str, Any]) -> None:
    assert len(lines) == N_TESTED
    apart = same.run_probe(same.ROOT, lines, 2)
    assert apart.keys() == {json.loads(line)["id"] for line in lines}
    assert same.compare(apart, before) == {}


def test_the_same_inputs_are_drawn_again(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "FROM_SETS", 1.0)
    again = [json.dumps(given) for given in drawing.all_inputs(None, 2 * len(KINDS))]
    assert again[-2 * len(KINDS) :] == lines[-2 * len(KINDS) :]


def test_every_kind_reaches_its_format(lines: list[str]) -> None:
    found = values(lines)
    assert not [name for name, one in found.items() if "crash" in json.dumps(one["error"])]
    edits = [one for one in found.values() if isinstance(one["text"], dict)]
    assert len(edits) < len(found), "patches"
    read = {one["text"]["format"] for one in edits}
    assert read >= {"lazy_snippet", "search_replace", "unified_diff", "v4a_patch", "json_edit", "whole_file"}
    lazy = [one for one in edits if one["features"] and one["text"]["format"] == "lazy_snippet"]
    assert all(
        len(reading[2] if isinstance(reading, list) else reading) > 20 for one in lazy for reading in one["features"]
    )


def altered(monkeypatch: pytest.MonkeyPatch, change: Callable[[Prediction], Prediction]) -> None:
    """Lazy snippets with a prediction that was changed."""
    module, _, name = EDIT_FORMATS["lazy_snippet"].partition(":")
    predict = resolve(EDIT_FORMATS, "lazy_snippet")

    def other(original: str, update: str, about: EditContext) -> Prediction:
        return change(predict(original, update, about))

    monkeypatch.setattr(import_module(module), name, other)


def nearer(one: Prediction) -> Prediction:
    return replace(one, probability=None if one.probability is None else one.probability * (1 - 1e-15))


@pytest.mark.parametrize(
    ("change", "aspect"),
    [
        (nearer, "probability"),
        (lambda one: replace(one, reasons=(*one.reasons, "so")), "reasons"),
        (lambda one: replace(one, ops=one.ops[:1] + one.ops[2:]), "text"),
    ],
)
def test_a_change_is_found_by_its_aspect(
    lines: list[str],
    before: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Prediction], Prediction],
    aspect: str,
) -> None:
    altered(monkeypatch, change)
    after = hashes(lines[::3])
    differing = same.compare({name: before[name] for name in after}, after)
    assert differing
    assert any(aspect in aspects for aspects in differing.values())
    if aspect == "probability":
        assert all("text" not in aspects for aspects in differing.values())


def test_a_feature_that_no_answer_shows_is_found(
    lines: list[str], before: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = readings

    def less(*args: Any, **about: Any) -> Any:
        return whole(*args, **about)[:-1]

    monkeypatch.setattr("tests.same.probe.find_function", lambda *places: find_function(*places) if places else less)
    after = hashes(lines)
    differing = same.compare({name: before[name] for name in after}, after)
    assert differing
    assert {aspect for aspects in differing.values() for aspect in aspects} == {"features"}


def test_what_differs_is_shown() -> None:
    old = dict.fromkeys(ASPECTS) | {"text": {"ops": [1, ["keep", "x" * 200 + "a"]]}, "reasons": [1]}
    new = dict.fromkeys(ASPECTS) | {"text": {"ops": [1, ["keep", "x" * 200 + "b"]]}, "reasons": [1, 2]}
    told = same.tell("an/id", ["text", "reasons"], old, new)
    assert told[:2] == ["an/id: text, reasons", "  text.ops[1][1]"]
    x = "x" * same.AROUND
    assert told[2:4] == [f'    old ...{x}a"', f'    new ...{x}b"']
    assert told[4:] == ["  reasons (length)", "    old 1", "    new 2"]


def test_accepted_differences_have_a_reason(tmp_path: Path) -> None:
    file = tmp_path / "allowed.txt"
    file.write_text("# meant\nchat/3-crlf the sentence is shorter\nchat/4 so too\n")
    accepted = same.read_accepted(file)
    assert accepted == {"chat/3-crlf": "the sentence is shorter", "chat/4": "so too"}
    told = same.report({"chat/3-crlf": ["reasons"], "v4a/1": ["text", "error"]}, 9, accepted)
    assert told[0] == "9 inputs compared, 1 differ"
    assert [line.split() for line in told[1:7]] == [[name, str(int(name in ("text", "error")))] for name in ASPECTS]
    assert told[7:] == ["1 more differ, which is accepted", "accepted, but the same: chat/4"]
    file.write_text("chat/3\n")
    with pytest.raises(same.SameError, match="chat/3 has no reason"):
        same.read_accepted(file)


def test_the_hashes_of_a_commit_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []
    tree = tmp_path / "tree"

    def fake_probe(where: Path, lines: list[str], n_processes: int) -> dict[str, Any]:
        made.append(where)
        return {"a": dict.fromkeys(ASPECTS, str(len(lines) * n_processes))}

    class Tree:
        def __init__(self, _commit: str) -> None: ...

        def __enter__(self) -> Path:
            return tree

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(same, "run_probe", fake_probe)
    monkeypatch.setattr(same, "tree_at", Tree)
    first = same.hashes_at("abc", ["1"], 1, tmp_path / "runs")
    assert same.hashes_at("abc", ["1"], 1, tmp_path / "runs") == first
    assert made == [tree]
    assert same.hashes_at("abc", ["1", "2"], 1, tmp_path / "runs") != first, "other inputs"


def test_the_readings_are_found_in_the_first_place_that_is_there() -> None:
    there = "apply_service.merge.readings:readings"
    assert find_function(["apply_service.merge.moved:readings", "apply_service.types:none", there]) is readings
    with pytest.raises(ImportError, match="ADAPTERS"):
        find_function(["apply_service.merge.moved:readings"])


def test_a_crash_is_a_finding_and_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any, **__: Any) -> None:
        raise IndexError("out of range")

    given = {
        "id": "a",
        "request": {"original": "a = 1\nb = 2\n", "update": "# ... existing code ...\nb = 3\n", "path": "a.py"},
    }
    monkeypatch.setattr("tests.same.probe.read_request", crash)
    assert probe(given, readings)["error"] == {"code": "crash", "message": "IndexError: out of range"}


def test_there_are_sets_without_the_public_ones(tmp_path: Path) -> None:
    assert read_rows(None).keys() == {"tried", "own"}
    assert read_rows(tmp_path)["written"] == []
    assert len(DAMAGE) >= 7
    assert len(SUFFIXES) >= 5

"""What a style asks for is in the snippet, and never changes what the edit is."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from apply_eval.sketch import Sketch, SketchStyle, sketch
from tests.eval.samples import GO, PYTHON, TYPESCRIPT

BASE = SketchStyle(is_clean=False, context_before=1, context_after=1, min_gap=1)


def drawn(before: str, after: str, style: SketchStyle, language: str, path: str | None = None, seed: int = 0) -> Sketch:
    found = sketch(before, after, language=language, path=path, style=style, rng=random.Random(seed))
    assert found is not None
    assert "\n".join(op.text for op in found.ops if op.kind != "drop") == after
    return found


def texts(found: Sketch, role: str) -> list[str]:
    return [line.text for line in found.lines if line.role == role]


RENAMED = TYPESCRIPT.replace("let total = 0;", "let total = start;")
OF_STATION = PYTHON[PYTHON.index("    def of_station") : PYTHON.index("    def warmest")]
SHORTER = PYTHON.replace(OF_STATION, "")
LONGER = GO.replace(
    "func (s *Store) Delete(", "func (s *Store) Len() int {\n\treturn len(s.data)\n}\n\nfunc (s *Store) Delete("
)


def test_fence_and_file_name() -> None:
    style = replace(BASE, fence=True, file_name=True)
    found = drawn(TYPESCRIPT, RENAMED, style, "typescript", "src/library.ts")
    assert found.lines[0].text.startswith("```")
    assert texts(found, "fence")[-1] == "```"
    assert texts(found, "file_name")[0] in {"// src/library.ts", "// library.ts"}


def test_no_fence_around_text_with_fences() -> None:
    before = "# Title\n\n```sh\nmake\n```\n\nend of text\n"
    found = drawn(before, before.replace("make", "make all"), replace(BASE, fence=True), "markdown")
    assert texts(found, "fence") == []


def test_deletion_comment_names_what_is_gone() -> None:
    found = drawn(PYTHON, SHORTER, replace(BASE, deletion_comment=True), "python")
    assert len(texts(found, "deletion")) == 1
    assert "of_station" in texts(found, "deletion")[0]
    assert texts(found, "deletion")[0].startswith("    # ")


def test_hint_places_an_insertion_without_context() -> None:
    style = replace(BASE, context_before=0, context_after=0, hint=True)
    found = drawn(PYTHON, SHORTER, replace(BASE, deletion_comment=False), "python")
    assert texts(found, "hint") == []
    after = PYTHON.replace(
        "    def to_json", "    def clear(self) -> None:\n        self.readings = []\n\n    def to_json"
    )
    found = drawn(PYTHON, after, style, "python")
    assert "warmest" in texts(found, "hint")[0]
    assert texts(found, "context") == []


def test_remarks_stand_on_new_lines_only_and_are_not_part_of_the_text() -> None:
    found = drawn(GO, LONGER, replace(BASE, remark=1.0), "go")
    remarked = [line for line in found.lines if line.has_remark]
    assert remarked
    assert all(line.role == "new" and "  // " in line.text for line in remarked)
    assert not any("  // " in op.text for op in found.ops if op.kind == "take")


def test_dedent_takes_off_what_all_lines_share() -> None:
    found = drawn(TYPESCRIPT, RENAMED, replace(BASE, indentation="dedent", whole_function=True), "typescript")
    assert texts(found, "new") == ["  let total = start;"]
    assert "count(): number {" in texts(found, "context")


@pytest.mark.parametrize(
    ("wanted", "line"), [("tab", "\t\tlet total = start;"), ("four", "        let total = start;")]
)
def test_other_units_of_indentation(wanted: str, line: str) -> None:
    style = replace(BASE, indentation=wanted, whole_function=True)  # type: ignore[arg-type]
    found = drawn(TYPESCRIPT, RENAMED, style, "typescript")
    assert texts(found, "new") == [line]
    assert [op.text for op in found.ops if op.kind == "take"] == ["    let total = start;"]


def test_trailing_space_is_lost_from_context_only() -> None:
    before = "alpha = 1   \nbeta = 2\ngamma = 3\n"
    found = drawn(before, before.replace("beta = 2", "beta = 4"), replace(BASE, strip_trailing_space=True), "python")
    assert texts(found, "context")[0] == "alpha = 1"
    assert next(op for op in found.ops if op.kind == "both").text == "alpha = 1   "


def test_misquoted_context_stays_the_originals_line() -> None:
    style = replace(BASE, misquote=1.0, context_before=4, context_after=4)
    before = GO.replace("func New()", "// New makes a store for the keys of one user, not yet on disk.\nfunc New()")
    after = before.replace("make(map[string]string)", "map[string]string{}")
    found = drawn(before, after, style, "go")
    old = before.split("\n")
    wrong = [line for line in found.lines if line.role == "context" and line.text != old[line.original_line or 0]]
    assert wrong
    assert all(op.text == old[op.original_line or 0] for op in found.ops if op.kind == "both")


def test_whole_file_has_no_marker() -> None:
    found = drawn(GO, LONGER, replace(BASE, whole_file=True, final_newline=True), "go")
    assert found.update == LONGER


def test_markers_that_speak_of_what_they_hide() -> None:
    before = "import os\nimport sys\nimport re\nimport json\n\n\n" + PYTHON.split("\n\n\n", 1)[1]
    after = before.replace("return self.celsius * 9 / 5 + 32", "return self.celsius * 1.8 + 32")
    spellings = {
        marker
        for seed in range(40)
        for marker in texts(drawn(before, after, replace(BASE, fitting_markers=True), "python", seed=seed), "marker")
    }
    assert len(spellings) > 5
    assert all(spelling.lstrip().startswith("# ") for spelling in spellings)


def test_blank_lines_beside_markers_are_padding() -> None:
    found = drawn(TYPESCRIPT, RENAMED, replace(BASE, blank_around="always"), "typescript")
    roles = [line.role for line in found.lines]
    assert roles[:2] == ["marker", "padding"]
    assert not any(op.update_line is not None and roles[op.update_line] == "padding" for op in found.ops)

"""The sketcher tells the truth: its operations give the text after, and its clean snippets can be read back."""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from apply_eval.sketch import Sketch, SketchStyle, draw_style, sketch
from tests.eval.mutations import mutate
from tests.eval.resolver import resolve_snippet
from tests.eval.samples import PYTHON, TYPESCRIPT, sample_sources

Change = tuple[str, str, str | None, str | None]


def drawn_changes(seed: int, n_changes: int) -> Iterator[Change]:
    print(f"seed {seed}")
    rng = random.Random(seed)
    sources = sample_sources()
    for _ in range(n_changes):
        language, path, text = rng.choice(sources)
        yield text, mutate(text, rng), language, path


@pytest.fixture(scope="module")
def real_changes(extra_data: Path) -> list[Change]:
    path = extra_data / "train_windows.jsonl.xz"
    if not path.is_file():
        pytest.skip("no windows among the extra data")
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as file:
        rows = [json.loads(line) for line in islice(file, 0, 4000, 8)]
    return [
        (r["before"].replace("\r\n", "\n"), r["after"].replace("\r\n", "\n"), r["language"], r["path"]) for r in rows
    ]


def assert_true(drawn: Sketch, before: str, after: str) -> None:
    old, update = before.split("\n"), drawn.update.split("\n")
    assert "\n".join(op.text for op in drawn.ops if op.kind != "drop") == after
    assert [op.original_line for op in drawn.ops if op.kind != "take"] == list(range(len(old)))
    assert all(op.text == old[op.original_line] for op in drawn.ops if op.original_line is not None)
    shown = [op.update_line for op in drawn.ops if op.update_line is not None]
    assert shown == sorted(set(shown))
    assert update == [line.text for line in drawn.lines]
    roles = {i: line.role for i, line in enumerate(drawn.lines)}
    assert all(roles[op.update_line] == "new" for op in drawn.ops if op.kind == "take" and op.update_line is not None)
    assert all(
        roles[op.update_line] == "context" for op in drawn.ops if op.kind == "both" and op.update_line is not None
    )
    assert {i for i, role in roles.items() if role in {"new", "context"}} == set(shown)


def sketch_all(changes: Iterator[Change] | list[Change], *, clean: bool) -> tuple[int, list[tuple[Change, Sketch]]]:
    """How many changes there were, and those that could be sketched."""
    sketches: list[tuple[Change, Sketch]] = []
    n_changes = 0
    for number, (before, after, language, path) in enumerate(changes):
        rng = random.Random(number)
        style = draw_style(rng, clean=clean)
        n_changes += before != after
        drawn = sketch(before, after, language=language, path=path, style=style, rng=rng)
        if drawn is not None:
            sketches.append(((before, after, language, path), drawn))
    return n_changes, sketches


@pytest.mark.parametrize("clean", [True, False])
def test_operations_give_the_text_after(clean: bool) -> None:
    n_changes, sketches = sketch_all(drawn_changes(11, 400), clean=clean)
    for (before, after, _, _), drawn in sketches:
        assert_true(drawn, before, after)
    assert len(sketches) > n_changes * 0.5


@pytest.mark.parametrize("clean", [True, False])
def test_operations_give_the_text_after_on_real_windows(clean: bool, real_changes: list[Change]) -> None:
    n_changes, sketches = sketch_all(real_changes, clean=clean)
    for (before, after, _, _), drawn in sketches:
        assert_true(drawn, before, after)
    assert len(sketches) > n_changes * 0.85


def test_clean_snippets_can_be_read_back_by_another_program() -> None:
    """The share is below one because the reader in these tests knows neither scopes nor likeness."""
    _, sketches = sketch_all(drawn_changes(12, 400), clean=True)
    n_right = sum(resolve_snippet(before, drawn.update) == after for (before, after, _, _), drawn in sketches)
    assert n_right >= 0.95 * len(sketches)


def test_clean_snippets_of_real_windows_can_be_read_back(real_changes: list[Change]) -> None:
    _, sketches = sketch_all(real_changes, clean=True)
    n_right = sum(resolve_snippet(before, drawn.update) == after for (before, after, _, _), drawn in sketches)
    assert n_right >= 0.97 * len(sketches)


def test_the_reader_of_these_tests_fails_on_a_wrong_snippet() -> None:
    before = "a\nb\nc\nd\ne\n"
    assert resolve_snippet(before, "# ...\nb\nB\nc\n# ...\n") == "a\nb\nB\nc\nd\ne\n"
    assert resolve_snippet(before, "# ...\nx\nB\ny\n# ...\n") is None


def edited(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


def test_an_exact_snippet() -> None:
    after = edited(PYTHON, "        rows = [vars(r) for r in self.readings]\n", "        rows = self.rows()\n")
    style = SketchStyle(context_before=1, context_after=1, header="inner", blank_around="none", min_gap=1)
    drawn = sketch(PYTHON, after, language="python", path=None, style=style, rng=random.Random(0))
    assert drawn is not None
    assert drawn.update == (
        "# ... existing code ...\n"
        "    def to_json(self) -> str:\n"
        "        rows = self.rows()\n"
        "        return json.dumps(rows, indent=2)\n"
        "# ... existing code ...\n"
    )


def test_a_deletion_is_shown_as_its_neighbours() -> None:
    after = edited(PYTHON, "        if not self.readings:\n            return None\n", "")
    style = SketchStyle(context_before=1, context_after=1, leading_marker=False, trailing_marker=False, min_gap=1)
    drawn = sketch(PYTHON, after, language="python", path=None, style=style, rng=random.Random(0))
    assert drawn is not None
    assert drawn.update == (
        "    def warmest(self) -> Reading | None:\n        return max(self.readings, key=lambda r: r.celsius)\n"
    )
    gone = PYTHON.split("\n").index("        if not self.readings:")
    assert [op.original_line for op in drawn.ops if op.kind == "drop"] == [gone, gone + 1]


def test_context_grows_until_the_place_is_clear() -> None:
    before = "\n".join(["start", "a", "b", "c", "a", "b", "d", "end", ""])
    after = "\n".join(["start", "a", "b", "c", "a", "b", "X", "d", "end", ""])
    style = SketchStyle(context_before=1, context_after=0, trailing_marker=False, leading_marker=False, min_gap=1)
    drawn = sketch(before, after, language=None, path=None, style=style, rng=random.Random(0))
    assert drawn is not None
    assert resolve_snippet(before, drawn.update) == after
    assert len(drawn.lines) < len(before.split("\n"))


def test_an_insertion_that_reads_like_another_is_shown_with_more() -> None:
    """A replaced method between lines that repeat must not read as one inserted before it."""
    method = "  @Test\n  void {name}() {{\n    run({name});\n  }}\n\n"
    before = "class A {\n\n" + "".join(method.format(name=n) for n in ("one", "two", "three")) + "}\n"
    after = before.replace("void one() {\n    run(one);", "void first() {\n    check();\n    run(first);")
    for seed in range(40):
        rng = random.Random(seed)
        drawn = sketch(before, after, language="java", path=None, style=draw_style(rng, clean=True), rng=rng)
        assert drawn is not None
        assert resolve_snippet(before, drawn.update) == after, f"seed {seed}:\n{drawn.update}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a\nb\n", "a\nb\n", id="nothing changed"),
        pytest.param("a\nb\n", "a\nb", id="only the final newline"),
        pytest.param("a\r\nb\r\n", "a\r\nc\r\n", id="CRLF"),
        pytest.param("x\n  \ny\nz\n", "x\n\ny\nz\n", id="only white space at a line end"),
        pytest.param("a\nb\nc\n", "a\nb\n", id="deletion at the end"),
    ],
)
def test_changes_that_no_snippet_can_show(before: str, after: str) -> None:
    style = SketchStyle()
    assert sketch(before, after, language=None, path=None, style=style, rng=random.Random(0)) is None


def test_marker_like_lines_of_the_file_are_not_shown_in_clean_sketches() -> None:
    before = "a = 1\n# ... existing code ...\nb = 2\nc = 3\nd = 4\n"
    after = before.replace("b = 2", "b = 3")
    style = SketchStyle(context_before=1, context_after=1)
    assert sketch(before, after, language="python", path=None, style=style, rng=random.Random(0)) is None


def test_a_new_file_is_shown_whole() -> None:
    drawn = sketch("", "a\nb\n", language=None, path=None, style=SketchStyle(), rng=random.Random(0))
    assert drawn is not None
    assert drawn.update.rstrip("\n") == "a\nb"
    assert_true(drawn, "", "a\nb\n")


def test_a_file_without_final_newline_keeps_it_so() -> None:
    before, after = TYPESCRIPT.rstrip("\n"), TYPESCRIPT.rstrip("\n").replace("let total = 0", "let total = 1")
    drawn = sketch(before, after, language="typescript", path=None, style=SketchStyle(), rng=random.Random(0))
    assert drawn is not None
    assert_true(drawn, before, after)


def test_same_random_state_same_sketch() -> None:
    after = edited(TYPESCRIPT, "let total = 0;", "let total = start;")
    for seed in range(30):
        drawn = [
            sketch(TYPESCRIPT, after, language="typescript", path="a.ts", style=draw_style(rng, clean=False), rng=rng)
            for rng in (random.Random(seed), random.Random(seed))
        ]
        assert drawn[0] == drawn[1]

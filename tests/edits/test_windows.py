"""Regions: what an edit touches, whole small scopes, never overlapping; and the jobs cut from them."""

from __future__ import annotations

import random

import pytest

from apply_service.formats import json_edit, lazy_snippet
from apply_service.merge.regions import MARGIN_LINES, cut_job, find_regions, splice
from apply_service.protocols import EditContext, EditJob
from apply_service.types import Certainty, LineOp, Prediction

FILE = "\n".join(f"def f{i}(x):\n    y = x + {i}\n    return y\n\n" for i in range(400))


def job_of(original: str, update: str, language: str | None = "python") -> EditJob:
    prediction = lazy_snippet.predict(original, update, EditContext(None, language))
    return EditJob(original, update, "", None, language, prediction)


def edit_of(*numbers: int) -> str:
    bodies = [f"def f{i}(x):\n    y = x * {i}\n    return y\n" for i in numbers]
    return "# ... existing code ...\n" + "\n# ... existing code ...\n".join(bodies) + "\n# ... existing code ...\n"


def test_one_changed_function_of_a_long_file_is_one_small_region() -> None:
    job = job_of(FILE, edit_of(200))
    (region,) = find_regions(job.prediction, job.original, "python")
    lines = job.original.split("\n")[region.first_line : region.last_line]
    assert region.n_lines <= 3 + 2 * MARGIN_LINES
    assert "def f200(x):" in lines
    assert "    return y" in lines[lines.index("def f200(x):") :]


def test_distant_changes_are_regions_apart_and_near_ones_are_one() -> None:
    job = job_of(FILE, edit_of(10, 11, 300))
    regions = find_regions(job.prediction, job.original, "python")
    assert len(regions) == 2
    assert regions[0].last_line < regions[1].first_line


def test_a_small_scope_is_taken_whole_and_a_large_one_is_not() -> None:
    small = "class A:\n" + "".join(f"    v{i} = {i}\n" for i in range(40)) + "\n\nx = 1\n" * 40
    job = job_of(small, "class A:\n    # ... existing code ...\n    v20 = 99\n    # ... existing code ...\n")
    (region,) = find_regions(job.prediction, small, "python")
    assert region.first_line == 0
    assert region.last_line >= 41
    (bare,) = find_regions(job.prediction, small, "python", scope_lines=10)
    assert bare.n_lines == 1 + 2 * MARGIN_LINES


def test_an_edit_that_changes_nothing_has_no_region() -> None:
    ops = tuple(LineOp("keep", i, None, line) for i, line in enumerate(FILE.split("\n")))
    assert find_regions(Prediction(ops, (), Certainty.GUESS), FILE, "python") == []


def test_a_job_holds_its_part_of_the_update_and_nothing_of_another() -> None:
    job = job_of(FILE, edit_of(10, 300))
    first, second = (cut_job(job, region) for region in find_regions(job.prediction, job.original, "python"))
    assert "f10" in first.update
    assert "f300" not in first.update
    assert "f300" in second.update
    for part in (first, second):
        lines = part.original.split("\n")
        kept = [op.original_line for op in part.prediction.ops if op.original_line is not None]
        assert kept == list(range(len(lines)))
        for op in part.prediction.ops:
            if op.original_line is not None:
                assert op.text == lines[op.original_line]
            else:
                assert op.text == part.prediction.update_lines[op.update_line or 0]


def test_a_comment_that_removes_something_stays_with_its_region() -> None:
    job = job_of(FILE, "# ... existing code ...\n# removed f50\n# ... existing code ...\n")
    regions = find_regions(job.prediction, job.original, "python")
    if job.prediction.text != job.original:
        assert ["removed f50" in cut_job(job, region).update for region in regions] == [True]


def random_prediction(rng: random.Random, n_lines: int) -> tuple[str, Prediction]:
    """Operations drawn at random: any mix of kept, shown, dropped and new lines."""
    original = [f"line {i}" if rng.random() < 0.9 else "" for i in range(n_lines)]
    ops, update = [], []
    for i, line in enumerate(original):
        kind = rng.choices(["keep", "both", "drop"], [0.9, 0.05, 0.05])[0]
        if kind == "both":
            update.append(line)
        ops.append(LineOp(kind, i, len(update) - 1 if kind == "both" else None, line))  # type: ignore[arg-type]
        while rng.random() < 0.03:
            update.append(f"new {rng.random()}")
            ops.append(LineOp("take", None, len(update) - 1, update[-1]))
    return "\n".join(original), Prediction(tuple(ops), tuple(update), Certainty.LIKELY)


@pytest.mark.parametrize("seed", range(200))
def test_windows_that_follow_the_prediction_splice_to_its_text(seed: int) -> None:
    rng = random.Random(seed)
    original, prediction = random_prediction(rng, rng.randrange(1, 300))
    job = EditJob(original, "\n".join(prediction.update_lines), "", None, None, prediction)
    regions = find_regions(prediction, original, None)
    jobs = [cut_job(job, region) for region in regions]
    text, starts = splice(prediction, regions, [part.prediction.text for part in jobs])
    assert text == prediction.text, f"seed {seed}"
    for part, start in zip(jobs, starts, strict=True):
        here = part.prediction.text.split("\n")
        assert text.split("\n")[start : start + len(here)] == here or not any(
            op.kind != "drop" for op in part.prediction.ops
        )


def test_a_json_edit_is_cut_by_its_new_lines_and_not_by_its_own() -> None:
    update = '{"old_string": "def f10(", "new_string": "@once\\n@cached\\ndef f10("}'
    prediction = json_edit.predict(FILE, update, EditContext("f.py"))
    job = EditJob(FILE, update, "", "f.py", "python", prediction)
    regions = find_regions(prediction, FILE, "python")
    assert ["@once" in cut_job(job, region).update for region in regions] == [True]

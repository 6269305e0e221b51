"""The fuzzer itself: cases that repeat, failures that are found, and a short run over the real merger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from apply_eval.errors import DataError
from apply_eval.fuzz import (
    FORMATS,
    FuzzCase,
    FuzzReport,
    FuzzSource,
    contradictions,
    draw_case,
    fuzz,
    lost_lines,
    print_case,
    print_report,
    sources_of_data,
    sources_of_folder,
    sources_of_repo,
)
from apply_service.errors import NeedsMoreContext
from apply_service.registry import EDIT_FORMATS
from apply_service.types import Certainty, LineOp, Prediction
from tests.eval.git_history import make_repo
from tests.eval.samples import PYTHON, sample_sources

SEED = 20_261
SHORT_RUN = 300
OPEN_CASES = frozenset({"20261-46"})
"""Cases that a merger is known to get wrong; a name goes when it is right."""


def cases(n_cases: int, seed: int = SEED) -> list[FuzzCase]:
    sources = sample_sources()
    drawn = (draw_case(sources, seed=seed, number=number) for number in range(n_cases))
    return [case for case in drawn if case is not None]


def test_a_case_repeats_from_seed_and_number() -> None:
    assert cases(30) == cases(30)
    assert [c.name for c in cases(30)] == [c.name for c in cases(30, seed=SEED)]
    assert {c.update for c in cases(30)} != {c.update for c in cases(30, seed=1)}


def test_cases_vary_in_format_and_line_ends() -> None:
    found = cases(200)
    assert {case.format for case in found} == set(FORMATS)
    assert any("\r\n" in case.before for case in found)
    assert all(case.before != case.after and "\r" not in case.update for case in found)


@dataclass(frozen=True)
class Scripted:
    """An edit format that answers as the test says."""

    text: str = ""
    certainty: Certainty = Certainty.CERTAIN
    error: Exception | None = None
    name: str = "scripted"

    def predict(self, original: str, update: str, *, language: str | None, path: str | None) -> Prediction:
        if self.error is not None:
            raise self.error
        old = original.split("\n")
        ops = [LineOp("drop", i, None, line) for i, line in enumerate(old)]
        new = tuple(self.text.split("\n"))
        return Prediction((*ops, *(LineOp("take", None, i, line) for i, line in enumerate(new))), new, self.certainty)


SCRIPT: list[Scripted] = []


def make_scripted() -> Scripted:
    return SCRIPT[-1]


def run_scripted(monkeypatch: pytest.MonkeyPatch, answer: Scripted) -> Any:
    monkeypatch.setitem(EDIT_FORMATS, "lazy_snippet", f"{__name__}:make_scripted")
    monkeypatch.setattr(f"{__name__}.SCRIPT", [answer])
    return fuzz(sample_sources(), seed=SEED, numbers=range(5), formats=("lazy_snippet",))


def test_a_wrong_but_certain_answer_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    report = run_scripted(monkeypatch, Scripted("nothing like it"))
    assert [failure.kind for failure in report.failures] == ["wrong but certain"] * 5


def test_a_wrong_answer_that_says_so_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    report = run_scripted(monkeypatch, Scripted("nothing like it", Certainty.LIKELY))
    assert report.failures == []
    assert report.outcomes == {"lazy_snippet: wrong, likely": 5}
    assert report.n_wrong_outside == 5


def test_a_refusal_is_counted_and_a_crash_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = run_scripted(monkeypatch, Scripted(error=NeedsMoreContext("where?")))
    assert refused.outcomes == {"lazy_snippet: refused (needs_more_context)": 5}
    assert refused.failures == []
    crashed = run_scripted(monkeypatch, Scripted(error=IndexError("oops")))
    assert [(failure.kind, failure.what) for failure in crashed.failures] == [("exception", "IndexError: oops")] * 5


def prediction(*ops: LineOp, update: Sequence[str] = ("x", "y")) -> Prediction:
    return Prediction(ops, tuple(update), Certainty.CERTAIN)


KEEP, DROP = LineOp("keep", 0, None, "a"), LineOp("drop", 1, None, "b")
TAKE = LineOp("take", None, 0, "x")


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (prediction(KEEP, DROP, TAKE), None),
        (prediction(KEEP, TAKE), "do not cover"),
        (prediction(DROP, KEEP, TAKE), "do not cover"),
        (prediction(LineOp("keep", 0, None, "changed"), DROP), "changes its text"),
        (prediction(KEEP, DROP, LineOp("take", None, 0, "z")), "differs from it"),
        (prediction(KEEP, DROP, LineOp("take", None, 7, "x")), "names update line 7"),
        (prediction(KEEP, DROP, TAKE, TAKE), "used twice"),
        (prediction(KEEP, TAKE, DROP), "a take before the drop"),
    ],
)
def test_contradictions_in_operations(found: Prediction, fault: str | None) -> None:
    faults = list(contradictions("a\nb", found))
    assert faults == [] if fault is None else fault in faults[0]


def test_lost_lines_are_those_that_the_edit_leaves_alone() -> None:
    assert lost_lines("a\nb\nc\n", "a\nB\nc\n", "a\nB\n") == ["c"]
    assert lost_lines("a\nb\nc\n", "a\nB\nc\n", "a\nc\n") == []


def test_the_report_names_seed_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    report = run_scripted(monkeypatch, Scripted("nothing like it"))
    out = StringIO()
    print_report(Console(file=out, width=200), report)
    assert f"--seed {SEED} --only 3" in out.getvalue()
    assert "5 cases, 5 failures" in out.getvalue()


def test_a_case_is_shown_in_full() -> None:
    out = StringIO()
    (case,) = cases(1)
    print_case(Console(file=out, width=400), sample_sources(), seed=SEED, number=0, formats=FORMATS)
    assert case.update.strip() in out.getvalue().replace(" \n", "\n") or case.update.split("\n")[0] in out.getvalue()


def test_sources_of_a_folder_a_repository_and_a_data_set(tmp_path: Path) -> None:
    changed = PYTHON.replace("import json\n", "import json\nimport math\n")
    repo = make_repo(
        tmp_path / "repo",
        [("Add", "2025-01-01", {"a.py": PYTHON.encode()}), ("Use", "2025-01-02", {"a.py": changed.encode()})],
    )
    assert sources_of_repo(repo, limit=9, seed=0) == [FuzzSource(PYTHON, changed, "python", "a.py")]
    assert sources_of_folder(repo, limit=9, seed=0) == [FuzzSource(changed, None, "python", "a.py")]
    (tmp_path / "d.jsonl").write_text('{"before": "a\\nb\\nc\\nd\\n", "after": "a\\n"}\n', encoding="utf-8")
    assert sources_of_data(tmp_path / "d.jsonl", limit=9, seed=0) == [FuzzSource("a\nb\nc\nd\n", "a\n", None, None)]


def test_no_usable_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tiny.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(DataError, match="no usable file"):
        sources_of_folder(tmp_path, limit=9, seed=0)


@pytest.fixture(scope="module")
def short_run() -> FuzzReport:
    """All formats over the small files and the project's own."""
    return fuzz(sample_sources(), seed=SEED, numbers=range(SHORT_RUN))


def names(report: FuzzReport, kind: str) -> set[str]:
    return {failure.case.name for failure in report.failures if failure.kind == kind}


def test_no_case_crashes_the_real_mergers(short_run: FuzzReport) -> None:
    assert names(short_run, "exception") == set(), f"seed {SEED}"


def test_no_answer_of_the_real_mergers_is_wrong_but_certain(short_run: FuzzReport) -> None:
    assert names(short_run, "wrong but certain") <= OPEN_CASES, f"seed {SEED}"
    n_exact = sum(count for name, count in short_run.outcomes.items() if "exact" in name)
    assert n_exact >= 0.8 * short_run.n_cases


def test_operations_of_the_real_mergers_keep_their_contract(short_run: FuzzReport) -> None:
    assert names(short_run, "contradictory operations") == set(), f"seed {SEED}"


def test_an_unusual_case_keeps_its_line_ends() -> None:
    sources = sample_sources()
    drawn = (draw_case(sources, seed=SEED, number=number, formats=("search_replace",)) for number in range(300))
    case = next(case for case in drawn if case is not None and "\r\n" in case.before)
    assert replace(case, before=case.before.replace("\r\n", "\n")).before.count("\n") == case.before.count("\r\n")

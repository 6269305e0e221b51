"""Known texts on both engines: read beside their prompt, with the head where there is a choice, they have the scores of
the windowed way; and what the prefix cache spares the second edit of a file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apply_eval.datasets import EditRecord, read_records
from apply_service.build import load_target
from apply_service.deadline import Deadline
from apply_service.decoding.scheduler import drive_alone
from apply_service.merge.variants import other_merges
from apply_service.pipeline import read_edit
from apply_service.protocols import EditJob, Part, Prefill, SamplingParams, TokenSet, Window
from apply_service.settings import Settings
from apply_service.target import Candidate, Decided, Target, in_process
from apply_service.types import ApplyRequest, Merge

SHIPPED = Path(__file__).parents[2] / "eval" / "apply_eval" / "fixtures" / "own_edits.jsonl"
ENGINES = ("local", "torch")
WINDOW = 16


@cache
def target(engine: str) -> Target:
    return in_process(load_target("embedded", Settings(engine=engine)))


def job_of(record: EditRecord) -> EditJob:
    request = ApplyRequest(original=record.before, update=record.update, path=record.path)
    return read_edit(request, "python")


@cache
def jobs() -> tuple[EditJob, ...]:
    return tuple(job_of(one) for one in sorted(read_records(SHIPPED), key=lambda one: len(one.before))[:2])


def scored(one: Target, candidates: Sequence[Candidate], constrain: Any = "sources") -> list[Decided]:
    request = ApplyRequest(original="a", update="b", constrain=constrain)
    found: list[list[Decided] | None] = []

    def task() -> Any:
        found.append((yield from one.score(candidates, request, Deadline())))

    assert not list(drive_alone(task()))
    (answer,) = found
    assert answer is not None
    return answer


def windowed(one: Target, job: EditJob, ids: Sequence[int], *, is_constrained: bool) -> float:
    """The log probability of all decisions, read in windows whose every row goes through the head."""
    engine, prompt = one.engine, one.prompt_format.encode_prompt(job)
    rules = one.prompt_format.constraint(job) if is_constrained else None
    session = engine.open(prompt, len(ids), owner="windowed")
    assert session is not None
    total = 0.0
    with session:
        while session.n_pending:
            engine.step([Prefill(session, min(session.n_pending, engine.prefill_grain))])
        for at in range(0, len(ids), WINDOW):
            some = list(ids[at : at + WINDOW])
            forced: list[TokenSet | None] = list(np.array(some, np.int64)[:, None])
            last = prompt[-1] if at == 0 else ids[at - 1]
            window = Window(session, last, some[:-1], SamplingParams(), forced, [True] * len(some))
            (answer,) = engine.step([window])
            assert answer is not None
            assert answer.logprobs is not None
            masks = [None] * len(some) if rules is None else rules.masks(ids[:at], some[:-1])
            for mask, logprob in zip(masks, answer.logprobs, strict=True):
                total += logprob if mask is None or len(mask) > 1 else 0.0
    return total


@pytest.mark.parametrize("constrain", ["sources", "none"])
@pytest.mark.parametrize("engine", ENGINES)
def test_scores_are_those_of_the_windowed_way(engine: str, constrain: str) -> None:
    one = target(engine)
    for job in jobs():
        readings = [job.prediction]
        readings += [
            replace(job.prediction, ops=ops)
            for ops in other_merges(Merge(job.prediction.ops), job.prediction.update_lines)
        ]
        found = scored(one, [(job, reading) for reading in readings[:2]], constrain)
        for reading, decided in zip(readings, found, strict=False):
            ids = one.prompt_format.encode_sources(replace(job, prediction=reading)).predicted.ids.tolist()
            wanted = windowed(one, job, ids, is_constrained=constrain == "sources")
            assert decided.logprob == pytest.approx(wanted, abs=1e-4 * len(ids))
            assert decided.merged == reading.text


@pytest.mark.parametrize("engine", ENGINES)
def test_what_the_constraint_forbids_is_as_unlikely_as_can_be(engine: str) -> None:
    job = jobs()[0]
    stranger = job.prediction.ops[0]._replace(text="a line of neither source")
    (decided,) = scored(target(engine), [(job, replace(job.prediction, ops=(stranger, *job.prediction.ops[1:])))])
    assert decided.logprob == -math.inf


class Rows:
    """Counts the rows of an engine's passes, and those of the head."""

    def __init__(self, one: Target, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passes: list[int] = []
        step = one.engine.step

        def counted(parts: Sequence[Part]) -> Any:
            self.passes.append(sum(part.n_rows for part in parts))
            return step(parts)

        monkeypatch.setattr(one.engine, "step", counted)


@pytest.mark.parametrize("engine", ENGINES)
def test_prompt_and_text_fill_their_passes(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, job = target(engine), jobs()[-1]
    monkeypatch.setattr(one.engine, "pass_times", dict.fromkeys(one.engine.pass_times, 1.0))  # whatever they take here
    rows = Rows(one, monkeypatch)
    (decided,) = scored(one, [(job, job.prediction)])
    n_cached = decided.stats.cached_prompt_tokens
    n_rows = decided.stats.prompt_tokens - n_cached + decided.stats.completion_tokens - 1
    assert sum(rows.passes) == n_rows
    largest = max(one.engine.pass_times)
    assert rows.passes[: n_rows // largest] == [largest] * (n_rows // largest)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_second_edit_of_a_file_reads_what_differs(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nobody profits from what another owner has sent."""
    one = target(engine)
    lines = [f"value_{i} = compute({i})" for i in range(60)]
    request = ApplyRequest(original="\n".join(lines) + "\n", update="", path="values.py")
    asked = []
    for at in (50, 57):
        shown = [lines[at - 1], f"value_{at} = other()", lines[at + 1]]
        update = "\n".join(["# ... existing code ...", *shown, "# ... existing code ...", ""])
        asked.append(read_edit(replace(request, update=update), "python"))
    prompts = [one.prompt_format.encode_prompt(job) for job in asked]
    n_same = next(i for i, (a, b) in enumerate(zip(*prompts, strict=False)) if a != b)
    assert n_same > 300

    def read(prompt: Sequence[int], owner: str) -> int:
        """Rows that a pass had to read of the prompt."""
        rows = Rows(one, monkeypatch)
        session = one.engine.open(prompt, 8, owner=owner)
        assert session is not None
        with session:
            while session.n_pending:
                one.engine.step([Prefill(session, min(session.n_pending, one.engine.prefill_grain))])
        return sum(rows.passes)

    first, second, stranger = read(prompts[0], "me"), read(prompts[1], "me"), read(prompts[1], "you")
    assert first == len(prompts[0]) - 1
    assert stranger == len(prompts[1]) - 1
    grain = one.engine.prefill_grain
    assert second == len(prompts[1]) - 1 - n_same // grain * grain

"""The ways to answer an edit that `embedded_model` compares: the predicted merge alone, the embedded model alone in
four ways, and both together as the service has them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from apply_eval.datasets import EditRecord
from apply_eval.runners.answer import MISSING_IN_PROCESS, Answer, Runner
from apply_eval.runners.own_service import alone
from apply_eval.runners.request import RequestOptions, request_of
from apply_service.checks import run_checks
from apply_service.edits.fidelity import restore
from apply_service.pipeline import read_edit
from apply_service.prompts.compact import Compact
from apply_service.prompts.line_constraint import LineConstraint
from apply_service.protocols import CheckInput, CompletingConstraint, EditJob
from apply_service.runtime import Runtime
from apply_service.syntax.languages import detect_language
from apply_service.target import Target, in_process
from apply_service.types import Certainty, FinishReason, Strategy

MERGE = "merge"


class Unhinted(Compact):
    """The compact format with nothing of the merger in it: the update's lines as they came, every line tagged with its
    number alone, and a constraint that knows of no matching lines.

    Drafts still come from the predicted merge, as no draft changes what is written; so do the places of the windows.
    """

    name = "compact-unhinted"

    def encode_prompt(self, job: EditJob) -> list[int]:
        return self.encode_listing(job.original.split("\n"), job.update.split("\n"), None)

    def constraint(self, job: EditJob) -> CompletingConstraint | None:
        return LineConstraint(self.vocabulary, job.original.split("\n"), job.update.split("\n"), {})


@dataclass(frozen=True, slots=True)
class Way:
    """How a model way asks; `says` explains its row."""

    strategy: Strategy
    constrain: Literal["sources", "none"] | None
    is_hinted: bool
    says: str


WAYS: Mapping[str, Way | None] = {
    MERGE: None,
    "model-free-unhinted": Way("model", "none", False, "the model free, told nothing by the merger"),
    "model-constrained-unhinted": Way("model", "sources", False, "the model held to the sources, told nothing"),
    "model-free": Way("model", "none", True, "the model free, with the merger's hints in the prompt"),
    "model-constrained": Way("model", "sources", True, "the model held to the sources, with the hints"),
    "auto": Way("auto", None, True, "merge and model together, as the service answers"),
}
"""By the names of their rows; None: no model takes part."""

SAYS: Mapping[str, str] = {
    name: "the predicted merge, guesses included; no model" if way is None else way.says for name, way in WAYS.items()
}
"""What the rows measure."""


class MergeAlone:
    """The merger's text, whatever its certainty: one that is not certain counts as flagged, as does one with a
    finding."""

    name = MERGE
    is_concurrent = False
    missing = MISSING_IN_PROCESS

    def answer(self, record: EditRecord) -> Answer:
        request = request_of(record, RequestOptions())
        started = time.perf_counter()
        language = detect_language(name=request.language, path=request.path)
        _, job = read_edit(request, language)
        prediction = job.prediction
        text = restore(record.before, prediction.ops)
        seconds = time.perf_counter() - started
        found = run_checks(
            CheckInput(job.original, prediction.text, job.update, prediction, language, FinishReason.STOP)
        )
        doubts = ("doubt",) if prediction.certainty is not Certainty.CERTAIN else ()
        findings = (*doubts, *dict.fromkeys(verdict.check for verdict in found if not verdict.is_pass))
        return Answer(
            text, seconds, n_tokens=0, findings=findings, certainty=prediction.certainty.value, strategy=MERGE
        )

    def close(self) -> None:
        """Holds nothing."""


def open_ways(names: tuple[str, ...], runtime: Runtime, *, timeout_s: float) -> dict[str, Runner]:
    """The runners of these ways, on the embedded model of `runtime`."""
    return {name: _open_way(name, runtime, timeout_s) for name in names}


def _open_way(name: str, runtime: Runtime, timeout_s: float) -> Runner:
    way = WAYS[name]
    if way is None:
        return MergeAlone()
    if not way.is_hinted:
        runtime = replace(runtime, load=partial(_load_unhinted, runtime))
    options = RequestOptions(way.strategy, way.constrain, timeout_s=timeout_s)
    return alone(name, runtime, options=options, drafter=None)


def _load_unhinted(runtime: Runtime, name: str) -> Target:
    """The same weights, asked without hints; no calibration was made for that."""
    target = in_process(runtime.load(name))
    assert isinstance(target.prompt_format, Compact), "only the compact format has hints"
    return replace(target, prompt_format=Unhinted(target.prompt_format.vocabulary), calibration=None)

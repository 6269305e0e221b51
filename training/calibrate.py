"""`python -m training.calibrate`: count how often the embedded model is right when it is how sure, and keep the map.

Answers edits that the model was not trained on (strategy `auto`, every merge taken as scored; those that it doubts a
second time, token by token), fits candidates on half of the files, chooses among them by cross-validation there, and
reports the chosen one on the other half.  Writes `calibration.json` beside the weights and a report; stopped, the same
command goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from apply_eval.decides import write_counts
from apply_eval.provenance import provenance
from apply_eval.statistics import (
    Judged,
    alarms,
    bins_between,
    calibration_figures,
    least_quiet,
)
from apply_service.build import build_runtime
from apply_service.engine.record import CALIBRATION_FILE, KINDS, Calibration, Signals, hash_weights
from apply_service.errors import ModelNotLoadable
from apply_service.models import embedded_directory
from apply_service.settings import Settings
from apply_service.types import Certainty
from training.calibration_data import draw_edits, held_out_edits
from training.calibration_fit import CANDIDATES, Counted, out_of_fold
from training.calibration_rows import AnswerRow, collect, uncalibrated
from training.calibration_thresholds import compare, doubted, effects, kinds, pick_thresholds

SILENT = 0.01
"""The share of silent errors that the threshold is to keep on the fitted half."""
SCHEMA_VERSION = 3
ROWS_VERSION = 2
OLD_THRESHOLD = 0.5
"""Of raw probabilities, before anything was counted."""
EDGES = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0)
"""Of the bins of a table; finer where most answers are."""
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)


def main() -> None:
    options = parse()
    drawn = draw_edits(
        held_out_edits(options.data), n_sketches=options.sketches, max_lines=options.max_lines, seed=options.seed
    )
    edits = list(islice(drawn, options.limit))
    model = embedded_directory()
    weights = hash_weights(model)
    forget_stale(model)
    runtime = uncalibrated(build_runtime(Settings(confirm_threshold=0.0, choose_threshold=0.0, decides=KINDS)))
    kept = f"{weights[:12]}-{options.seed}-{options.max_lines}-{ROWS_VERSION}.jsonl"
    rows = collect(edits, runtime, options.run / f"scored-{kept}", limit=options.limit, tell=_tell(options.limit))
    ids = {row.id for row in doubted(rows)}
    decided = collect(
        (made for made in edits if made.id in ids),
        runtime,
        options.run / f"decided-{kept}",
        limit=len(ids),
        tell=_tell(len(ids)),
        strategy="model",
    )
    calibration, chosen = fit(rows, weights)
    report = {
        "kind": "confidence",
        "schema_version": SCHEMA_VERSION,
        "provenance": provenance([options.data] if options.data.is_file() else [], seed=options.seed),
        "weights_sha256": calibration.weights_sha256,
        "max_lines": options.max_lines,
        **describe(rows, decided, calibration, chosen),
    }
    (model / CALIBRATION_FILE).write_text(json.dumps(calibration.as_json(), indent=1) + "\n", encoding="utf-8")
    write_counts(model, kinds(rows, decided))
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: report[name] for name in ("sides", "answer", "hunk", "threshold")}, indent=1))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="calibrate the embedded model's confidence on edits it never saw")
    parser.add_argument("--data", type=Path, default=Path(), help="windows (.jsonl.xz), or a git repository (here)")
    parser.add_argument("--run", type=Path, default=Path("runs/calibrate"), help="folder of the answers so far")
    parser.add_argument("--limit", type=int, default=1500, help="edits to answer")
    parser.add_argument("--sketches", type=int, default=3, help="snippets of each edit, at most")
    parser.add_argument("--max-lines", type=int, default=100, help="of a file")
    parser.add_argument("--seed", type=int, default=0, help="of the order and the snippets")
    parser.add_argument("--report", type=Path, default=Path("benchmarks/results/confidence.json"))
    return parser.parse_args()


def forget_stale(model: Path) -> None:
    """Remove a calibration that does not fit the weights, with which the model would not load."""
    try:
        Calibration.read(model)
    except ModelNotLoadable:
        (model / CALIBRATION_FILE).unlink()


def _tell(limit: int) -> Any:
    return lambda n: print(f"{n} of {limit}", flush=True) if n % 50 == 0 else None


# -- fitting -----------------------------------------------------------------------------------------------------------
def answers_of(rows: Sequence[AnswerRow]) -> list[Counted]:
    """The answers that a target decided."""
    return [Counted(r.logprob, _signals(r), r.is_right, _group(r)) for r in rows if r.logprob is not None]


def hunks_of(rows: Sequence[AnswerRow]) -> list[Counted]:
    """Their hunks that hold a decision."""
    return [
        Counted(hunk.logprob, _signals(row), hunk.is_right, _group(row))
        for row in rows
        for hunk in row.hunks
        if hunk.logprob is not None
    ]


def _signals(row: AnswerRow) -> Signals:
    assert row.certainty is not None, "an answer has one"
    return Signals(row.agreement, Certainty(row.certainty), row.n_reasons, not row.findings)


def _group(row: AnswerRow) -> str:
    """Snippets of one edit stand together: ids are DRAW-EDIT."""
    return row.id.partition("-")[2]


def fit(rows: Sequence[AnswerRow], weights_sha256: str) -> tuple[Calibration, dict[str, Any]]:
    """The calibration, from merges taken as scored; and how each candidate did: Brier scores out of fold on the fitted
    half."""
    fitted = [row for row in rows if row.side == "fit"]
    answers, hunks = answers_of(fitted), hunks_of(fitted)
    answer_name, answer_scores = choose(answers)
    hunk_name, hunk_scores = choose(hunks)
    confidences = out_of_fold(answers, CANDIDATES[answer_name])
    judged = [_judged(c, a) for c, a in zip(confidences, answers, strict=True)]
    calibration = Calibration(
        weights_sha256,
        least_quiet(judged, THRESHOLDS, silent=SILENT),
        CANDIDATES[answer_name](answers),
        CANDIDATES[hunk_name](hunks),
        pick_thresholds(fitted),
    )
    return calibration, {
        "answer": {"chosen": answer_name, "candidates": answer_scores},
        "hunk": {"chosen": hunk_name, "candidates": hunk_scores},
    }


def choose(samples: Sequence[Counted]) -> tuple[str, dict[str, Any]]:
    """The candidate with the least Brier score out of fold, the simplest of equals, and the scores of all; `raw` is the
    target's own probability."""
    raw = [Judged(math.exp(s.logprob), s.is_right) for s in samples]
    found = {
        name: scores([Judged(c, s.is_right) for c, s in zip(out_of_fold(samples, fit_one), samples, strict=True)])
        for name, fit_one in CANDIDATES.items()
    }
    best = min(found, key=lambda name: round(found[name]["brier"], 4))
    return best, {"raw": scores(raw), **found}


# -- reporting ---------------------------------------------------------------------------------------------------------
def describe(
    rows: Sequence[AnswerRow], decided: Sequence[AnswerRow], calibration: Calibration, chosen: Mapping[str, Any]
) -> dict[str, Any]:
    """The report's figures; everything under `report` is of the half that nothing was fitted to."""
    kept = [row for row in rows if row.side == "report"]
    answers, hunks = answers_of(kept), hunks_of(kept)
    after = [_judged(calibration.of_answer(a.logprob, a.signals), a) for a in answers]
    before = [_judged(math.exp(a.logprob), a) for a in answers]
    raw_hunks = [Judged(math.exp(hunk.logprob), hunk.is_right) for hunk in hunks]
    return {
        "sides": {side: _side(rows, side) for side in ("fit", "report")},
        "answer": {**chosen["answer"], **_before_after(before, after)},
        "hunk": {**chosen["hunk"], **_before_after(raw_hunks, _calibrated_hunks(kept, calibration))},
        "threshold": {
            "value": calibration.threshold,
            "before": alarms(before, OLD_THRESHOLD),
            "after": alarms(after, calibration.threshold),
            "thresholds": [alarms(after, threshold) for threshold in THRESHOLDS],
        },
        "strategies": effects(kept, calibration.thresholds),
        "doubted": compare(kept, decided),
        "kinds": {kind: count._asdict() for kind, count in kinds(rows, decided).items()},
        "groups": _groups(kept),
    }


def _before_after(before: Sequence[Judged], after: Sequence[Judged]) -> dict[str, Any]:
    return {
        "before": {**scores(before), "bins": bins_between(before, EDGES)},
        "after": {**scores(after), "bins": bins_between(after, EDGES)},
    }


def scores(judged: Sequence[Judged]) -> dict[str, Any]:
    """How far a confidence can be trusted; `ece`: in ten bins of equal width."""
    found = calibration_figures(judged)
    counts = {"n": len(judged), "n_right": sum(one.is_right for one in judged)}
    return counts | {"brier": found["brier"], "ece": found["error"], "auc": found["ranking"]}


def _judged(confidence: float, answer: Counted) -> Judged:
    return Judged(confidence, answer.is_right, has_findings=not answer.signals.is_clean)


def _calibrated_hunks(rows: Sequence[AnswerRow], calibration: Calibration) -> list[Judged]:
    return [
        Judged(calibration.of_hunk(hunk.logprob, _signals(row), answer=answer), hunk.is_right)
        for row in rows
        if row.logprob is not None
        for answer in [calibration.of_answer(row.logprob, _signals(row))]
        for hunk in row.hunks
        if hunk.logprob is not None
    ]


def _side(rows: Sequence[AnswerRow], side: str) -> dict[str, Any]:
    mine = [row for row in rows if row.side == side]
    return {
        "n": len(mine),
        "n_right": sum(row.is_right for row in mine),
        "n_refused": sum(row.error is not None for row in mine),
        "n_by_program": sum(row.error is None and row.logprob is None for row in mine),
        "repositories": sorted({row.repo for row in mine}),
    }


def _groups(rows: Sequence[AnswerRow]) -> list[dict[str, Any]]:
    """Right answers by what is known beside the probability."""
    found: dict[tuple[Any, ...], list[bool]] = {}
    for row in rows:
        if row.logprob is not None:
            key = (row.certainty, min(row.n_reasons, 3), row.agreement, bool(row.findings))
            found.setdefault(key, []).append(row.is_right)
    names = ("certainty", "n_reasons", "agreement", "has_findings")
    return [
        {**dict(zip(names, key, strict=True)), "n": len(right), "n_right": sum(right)}
        for key, right in sorted(found.items(), key=str)
    ]


if __name__ == "__main__":
    main()

"""The generated parts of `confidence.md`: the counts kept in `benchmarks/results/confidence.json`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from docs.tables import table

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results" / "confidence.json"


def summary() -> str:
    """What was counted, and how far the figures moved."""
    found = _results()
    data = ", ".join(item["name"] for item in found["provenance"]["data"]) or "the local git history"
    sides = found["sides"]
    head = (
        f"{data}, files of at most {found['max_lines']} lines from repositories that training leaves out "
        f"({', '.join(sides['report']['repositories'])}); {found['provenance']['created'][:10]}. "
        f"Fitted on {_counts(sides['fit'])}; the tables are of the other {_counts(sides['report'])}.\n\n"
    )
    return head + table(
        ("", "n", "Brier score", "ECE", "AUC"),
        (
            (f"{what}, {when}", str(one["n"]), *(_number(one[name]) for name in ("brier", "ece", "auc")))
            for what, name in (("answers", "answer"), ("hunks", "hunk"))
            for when, one in (("raw", found[name]["before"]), ("calibrated", found[name]["after"]))
        ),
    )


def _counts(side: Mapping[str, Any]) -> str:
    return f"{side['n']} edits ({side['n_right']} of them answered right)"


def answers() -> str:
    """The reliability of answers."""
    return _reliability("answer")


def hunks() -> str:
    """The reliability of hunks."""
    return _reliability("hunk")


def _reliability(name: str) -> str:
    found = _results()[name]
    parts = [(when, found[key]["bins"]) for when, key in (("Calibrated", "after"), ("Raw", "before"))]
    return "\n".join(f"{when}:\n\n{_bins(bins)}" for when, bins in parts)


def _bins(bins: Iterable[Mapping[str, Any]]) -> str:
    return table(
        ("confidence", "n", "mean confidence", "right"),
        (
            (
                f"{row['low']:g} to {row['high']:g}",
                str(row["n"]),
                _percent(row["confidence"]),
                f"{_percent(row['right'])} {_interval(row['interval'])}",
            )
            for row in bins
        ),
    )


def thresholds() -> str:
    """What a threshold flags."""
    found = _results()["threshold"]
    rows = [("raw", found["before"]), *(("calibrated", row) for row in found["thresholds"])]
    return table(
        ("confidence", "flagged below", "silent errors", "right answers flagged", "answers flagged"),
        (
            (
                kind,
                _chosen(row["threshold"], is_chosen=kind == "calibrated" and row["threshold"] == found["value"]),
                f"{_percent(row['silent_errors'])} {_interval(row['interval'])}",
                _percent(row["false_alarms"]),
                _percent(row["flagged"]),
            )
            for kind, row in rows
        ),
    )


def _chosen(threshold: float, *, is_chosen: bool) -> str:
    return f"**{threshold:g}**" if is_chosen else f"{threshold:g}"


def strategies() -> str:
    """How many right and wrong merges reach what the target must think of them."""
    names = {"confirm": "certain", "choose": "likely"}
    return table(
        ("merge", "least probability", "right merges that reach it", "wrong merges that reach it"),
        (
            (
                names[name],
                f"{row['value']:g}",
                f"{row['n_right_reach']} of {row['n_right']}",
                f"{row['n_wrong_reach']} of {row['n_wrong']}",
            )
            for name, row in _results()["strategies"].items()
        ),
    )


def doubted() -> str:
    """Merges that the target would have written otherwise, and what it then wrote."""
    found = _results()["doubted"]
    names = {"both_right": "both", "merge_right": "the merge alone", "target_right": "the target alone"}
    names["both_wrong"] = "neither"
    return table(("right", f"of {found['n']} edits"), ((name, str(found[key])) for key, name in names.items()))


def groups() -> str:
    """Right answers by what is known of them beside the probability."""
    return table(
        ("merge", "reasons for doubt", "target agrees", "a check found something", "answers", "right"),
        (
            (
                str(row["certainty"]),
                f"{row['n_reasons']} or more" if row["n_reasons"] == 3 else str(row["n_reasons"]),
                _yes(row["agreement"]),
                _yes(row["has_findings"]),
                str(row["n"]),
                str(row["n_right"]),
            )
            for row in _results()["groups"]
        ),
    )


def candidates() -> str:
    """How each way to make a confidence did on the fitted half, by maps that had not seen the edit."""
    return "\n".join(_candidates(what, name) for what, name in (("Answers", "answer"), ("Hunks", "hunk")))


def _candidates(what: str, name: str) -> str:
    found = _results()[name]
    rows = [_candidate(key, values, is_chosen=key == found["chosen"]) for key, values in found["candidates"].items()]
    return f"{what}:\n\n" + table(("map of", "Brier score", "ECE", "AUC"), rows)


def _candidate(name: str, values: Mapping[str, Any], *, is_chosen: bool) -> Sequence[str]:
    figures = (_number(values[key]) for key in ("brier", "ece", "auc"))
    return (f"**{name}**" if is_chosen else name, *figures)


def _results() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def _interval(interval: Sequence[float]) -> str:
    low, high = interval
    return f"[{100 * low:.1f}, {100 * high:.1f}]"


def _yes(value: object) -> str:
    return "yes" if value else "no"


CONFIDENCE_PARTS: Mapping[str, Callable[[], str]] = {
    "confidence-summary": summary,
    "confidence-answers": answers,
    "confidence-hunks": hunks,
    "confidence-thresholds": thresholds,
    "confidence-strategies": strategies,
    "confidence-doubted": doubted,
    "confidence-groups": groups,
    "confidence-candidates": candidates,
}

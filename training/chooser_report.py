"""Figures of a chooser that was cross-validated by repository.  Pure; knows outcomes, no model and no text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from apply_eval.statistics import (
    Judged,
    at_threshold,
    calibration_figures,
    coverage_interval,
    hits,
    risk_curve,
    widest,
    widest_threshold,
)
from training.chooser_data import Choice
from training.chooser_fit import Outcome
from training.fit_sets import CARELESS

ORACLES = (1, 2, 4, 8)
LIMITS = (0.01, 0.02)
REFUSED_BELOW = 0.3
"""Clients that can't show a doubt refuse only what is more likely wrong than right.  Lower than a half, as the sets
that may be fitted to hold more of the hard styles than real traffic: there 42% of what stands between is right."""


def log_loss(outcomes: Sequence[Outcome]) -> float:
    """Mean by weight over edits that have a reading: what a chooser loses by a wrong choice and by a wrong probability
    alike."""
    answered = [(o.probability, o) for o in outcomes if o.probability is not None]
    losses = [o.choice.weight * -math.log(max(p if o.is_right else 1 - p, 1e-6)) for p, o in answered]
    return math.fsum(losses) / math.fsum(o.choice.weight for _, o in answered)


def pick_threshold(outcomes: Sequence[Outcome], wrong: float) -> float:
    """From which probability on answers are applied, so that at most the share `wrong` of them is wrong.

    Edits that quote the file wrongly on purpose are left out: nobody can tell their words from new ones, and of the
    surest answers a third of the wrong ones were theirs.
    """
    return widest_threshold(judged([outcome for outcome in outcomes if outcome.choice.style != CARELESS]), wrong)


def judged(outcomes: Sequence[Outcome]) -> list[Judged]:
    return [Judged(o.probability, o.is_right, o.choice.weight, o.is_slight) for o in outcomes]


def describe(outcomes: Sequence[Outcome], threshold: float, *, seed: int) -> dict[str, Any]:
    """The figures out of fold: what choosers are compared by (shares by weight), by set and by style, calibration,
    thresholds, oracles."""
    samples = judged(outcomes)
    curve = risk_curve(samples)
    points = {limit: widest(curve, limit) for limit in LIMITS}
    total = math.fsum(sample.weight for sample in samples)
    return {
        "exact": math.fsum(sample.weight for sample in samples if sample.is_right) / total,
        "log_loss": log_loss(outcomes),
        "coverage_at": {
            str(limit): {
                "coverage": 0.0 if point is None else point.coverage,
                "interval": coverage_interval(samples, limit, seed=seed),
            }
            for limit, point in points.items()
        },
        "thresholds": {"apply": threshold, "refuse": REFUSED_BELOW},
        "by_source": {
            name: describe_group([o for o in outcomes if o.choice.source == name], threshold)
            for name in dict.fromkeys(o.choice.source for o in outcomes)
        },
        "by_style": {
            name: describe_group([o for o in outcomes if o.choice.style == name], threshold)
            for name in sorted({o.choice.style for o in outcomes if o.choice.style})
        },
        "all": describe_group(outcomes, threshold),
        "calibration": calibration_figures(samples),
    }


def describe_group(outcomes: Sequence[Outcome], threshold: float) -> dict[str, Any]:
    """Counts with Wilson's intervals; weights don't count here."""
    samples, n = judged(outcomes), len(outcomes)
    refusal = at_threshold(samples, REFUSED_BELOW)
    return {
        "n": n,
        "n_repositories": len({o.choice.repo for o in outcomes}),
        "exact": hits(sum(o.is_right for o in outcomes), n),
        "first": hits(sum(o.choice.right[:1] == (True,) for o in outcomes), n),
        "oracle": {str(k): hits(sum(o.place is not None and o.place <= k for o in outcomes), n) for k in ORACLES},
        "oracle_of_all": hits(sum(any(o.choice.right) for o in outcomes), n),
        "applied": at_threshold(samples, threshold),
        "refused": {
            "n_refused": n - refusal["n_applied"],
            "n_right_refused": refusal["n_right_below"],
            "right_refused": refusal["right_below"],
        },
    }


def counts_of(choices: Sequence[Choice], n_others: Mapping[str, int]) -> dict[str, Any]:
    """Of each set: edits, repositories, readings, and what one edit weighs."""
    found = {}
    for name, left_out in n_others.items():
        own = [choice for choice in choices if choice.source == name]
        found[name] = {
            "n_edits": len(own),
            "n_other_formats": left_out,
            "n_repositories": len({choice.repo for choice in own}),
            "n_readings": sum(len(choice.right) for choice in own),
            "n_refused": sum(not choice.right for choice in own),
            "weight": own[0].weight if own else None,
        }
    return found


# -- printing ----------------------------------------------------------------------------------------------------------
def lines(report: Mapping[str, Any]) -> list[str]:
    """The report in words: every share of errors with its coverage beside it."""
    chosen = report["out_of_fold"]
    coverage = ", ".join(
        f"{one['coverage']:.1%} at {float(limit):.0%} wrong{_interval(one['interval'])}"
        for limit, one in chosen["coverage_at"].items()
    )
    calibration = chosen["calibration"]
    found = [
        f"out of fold, by repository: {chosen['exact']:.1%} right, log loss {chosen['log_loss']:.3f}, "
        f"Brier {calibration['brier']:.3f}, AUC {_number(calibration['ranking'])}, covers {coverage}"
    ]
    thresholds = chosen["thresholds"]
    found.append(f"applied from {thresholds['apply']:.4f} on, refused below {thresholds['refuse']}")
    for title in ("by_source", "by_style"):
        found += [f"  {name}: {_group(group)}" for name, group in chosen[title].items()]
    found.append(f"  all: {_group(chosen['all'])}")
    oracle = ", ".join(f"{k}: {_hits(one)}" for k, one in chosen["all"]["oracle"].items())
    found.append(f"right among the first {oracle}; of all {_hits(chosen['all']['oracle_of_all'])}")
    tenths = "  ".join(f"{mean:.2f}: {right:.2f}" for _, _, _, mean, right in chosen["calibration"]["deciles"])
    found.append(f"mean probability and share right, by tenths: {tenths}")
    return found


def _group(group: Mapping[str, Any]) -> str:
    applied, refused = group["applied"], group["refused"]
    return (
        f"{group['n']} edits, {_hits(group['exact'])} right ({group['first']['n']} as the merger orders them); "
        f"{applied['n_applied']} applied, {applied['n_wrong']} of them wrong{_interval(applied['wrong_interval'])}, "
        f"{applied['n_grave']} gravely, "
        f"{applied['n_right_below']} right below; {refused['n_refused']} refused, {refused['n_right_refused']} right"
    )


def _hits(found: Mapping[str, Any]) -> str:
    return f"{found['n']} ({_share(found['share'])}{_interval(found['interval'])})"


def _share(share: float | None) -> str:
    return "none" if share is None else f"{share:.1%}"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _interval(interval: Sequence[float] | None) -> str:
    return "" if interval is None else f" [{interval[0]:.1%}, {interval[1]:.1%}]"

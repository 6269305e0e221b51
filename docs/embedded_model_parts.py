"""The generated parts of `embedded-model.md`: what the merge and the model reach alone and together, what a user waits
for, and what training learnt, from the files that are kept in `benchmarks/results`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from apply_eval.numbers import count, seconds, share
from docs.tables import table

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
SETS = {
    "sketched": "Sketched",
    "model-written": "As models write",
    "sketched-free": "Sketched, fewer of them, the model free and without hints too",
    "model-written-free": "As models write, fewer of them, the model free and without hints too",
}
SAYS = {
    "merge": "the predicted merge, guesses included; no model",
    "model-free-unhinted": "the model free, told nothing by the merger",
    "model-constrained-unhinted": "the model held to the sources, told nothing",
    "model-free": "the model free, with the merger's hints in the prompt",
    "model-constrained": "the model held to the sources, with the hints",
    "auto": "merge and model together, as the service answers",
}
"""What the rows measure; the unhinted ones are no longer run."""
MISSING = "Not measured yet with the weights and strategies of this version; `{}` does it.\n"


def ways() -> str:
    """A table a set."""
    found = [
        (title, path) for name, title in SETS.items() if (path := RESULTS / f"embedded-model-{name}.json").is_file()
    ]
    legend = table(("row", "what answers"), ((f"`{name}`", says) for name, says in SAYS.items()))
    tables = [f"{title}: {_about(read(path))}\n\n{_ways(read(path))}" for title, path in found]
    return "\n".join([legend, *(tables or [MISSING.format("make eval-embedded")])])


def _about(run: Mapping[str, Any]) -> str:
    start = run["provenance"]
    threads = run.get("torch_threads") or start["hardware"]["n_cpus"]
    part = "" if run["complete"] else ", stopped before its end"
    return (
        f"{run['n_edits']} edits{part}; {start['hardware']['cpu']}, {threads} threads; {start['created'][:10]}; "
        f"commit {str(start['commit'])[:10]}{' with uncommitted changes' if start['dirty'] else ''}; windows "
        f"{run['windows']}; an edit that takes more than {run['timeout_s']:g} s counts as refused."
    )


def _ways(run: Mapping[str, Any]) -> str:
    rows = (
        (
            f"`{name}`",
            with_interval(way, "exact_match"),
            with_interval(way, "silent_errors"),
            count(way["n_refused"]),
            count(way["tokens_per_pass"]),
            f"{seconds(way['latency_p50_s'])} / {seconds(way['latency_mean_s'])} / {seconds(way['latency_p95_s'])}",
        )
        for name, way in run["ways"].items()
    )
    head = ("", "exact", "silent errors", "refused", "tokens a pass", "an edit: median / mean / 95%")
    return table(head, rows) + _strategies(run)


def with_interval(way: Mapping[str, Any], name: str) -> str:
    """A share with its interval."""
    interval = way["intervals"].get(name)
    ends = "" if interval is None else f" [{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]"
    return share(way[name]) + ends


def _strategies(run: Mapping[str, Any]) -> str:
    found = run["ways"].get("auto")
    if found is None:
        return ""
    ran = ", ".join(f"`{name}` {n}" for name, n in found["strategies"].items())
    return f"\nStrategies that ran in `auto`: {ran}.\n"


def check() -> str:
    """What five minutes of training reached, beside its control."""
    path = RESULTS / "train-check.json"
    if not path.is_file():
        return MISSING.format("make train CHECK=benchmarks/results/train-check.json")
    found = read(path)
    rows = [("untrained control", found["control"]), ("trained", found["found"])]
    shown = table(
        ("network", "decisions right", "turns right", "cases"),
        ((name, share(one["decisions"]), share(one["turns"]), str(one["n_cases"])) for name, one in rows),
    )
    trained = ""
    if "steps" in found:
        trained = f"{found['steps']} updates, {found['tokens'] / 1e6:.2f}M tokens, {found['minutes']:.1f} minutes.\n\n"
    passed = "passed" if found["passed"] else "failed: " + "; ".join(found["reasons"])
    return trained + shown + f"\nThe check {passed}.\n"


def ablations() -> str:
    """The end of each variant's curve."""
    path = RESULTS / "ablations.json"
    if not path.is_file():
        return MISSING.format("make ablations")
    found = read(path)
    rows = [
        (
            f"`{name}`",
            one["says"],
            str(row["step"]),
            *(share(row[group]["turn_accuracy"]) for group in ("none", "spoilt")),
            *(share(row["merger"][field]) for field in ("decision_accuracy", "all_right", "free")),
        )
        for name, one in found["variants"].items()
        for row in (one["curve"][0], one["curve"][-1])
    ]
    head = ("variant", "what differs", "update", "turns, no hints", "turns, spoilt hints")
    return table((*head, "decisions, merger's hints", "edits all right", "free"), rows)


def read(path: Path) -> dict[str, Any]:
    """A kept result."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


EMBEDDED_MODEL_PARTS: Mapping[str, Callable[[], str]] = {
    "embedded-ways": ways,
    "embedded-check": check,
    "embedded-ablations": ablations,
}

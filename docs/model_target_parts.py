"""The generated parts of `models.md`: starts and answers of pretrained targets, and which model fits which card."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from docs.embedded_model_parts import MISSING, RESULTS, with_interval
from docs.tables import table


def runs() -> Iterator[dict[str, Any]]:
    """The kept runs of `make bench-models`, smallest model first."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("models-*.json")]
    targets = [run for run in found if run["kind"] == "model_target"]
    yield from sorted(targets, key=lambda run: run["starts"][0]["ready"]["processor_s"])


def starts() -> str:
    """A row for each start of each model."""
    head = ("model", "start", "ready", "first edit", "second edit", "row counts", "load average")
    rows = [row for run in runs() for row in _start_rows(run)]
    return table(head, rows) if rows else MISSING.format("make bench-models")


def _start_rows(run: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, found in zip(("first", "next"), run["starts"], strict=True):
        steps = (found[step] for step in ("ready", "first_edit", "second_edit"))
        clocks = (f"{step['clock_s']:.1f} s ({step['processor_s']:.1f} s)" for step in steps)
        buckets = ", ".join(map(str, found["buckets"]))
        load = f"{found['load_average']:.0f}"
        yield (f"{run['model']}, {run['dtype']}", name, *clocks, f"{found['determinism']}: {buckets}", load)


def answers() -> str:
    """A table for each model."""
    return "\n".join(map(_answers, runs())) or MISSING.format("make bench-models")


def _answers(run: Mapping[str, Any]) -> str:
    start = run["provenance"]
    about = (
        f"{run['model']}, {run['dtype']}: {run['n_edits']} edits of files of up to {run['max_chars']} characters; "
        f"{start['hardware']['cpu']}; {start['created'][:10]}; commit {str(start['commit'])[:10]}"
    )
    rows = (
        (
            f"`{name}`",
            with_interval(way, "exact_match"),
            with_interval(way, "silent_errors"),
            str(way["n_refused"]),
            "-" if way["tokens_per_pass"] is None else f"{way['tokens_per_pass']:.1f}",
        )
        for name, way in run["ways"].items()
    )
    return f"{about}.\n\n" + table(("", "exact", "silent errors", "refused", "tokens a pass"), rows)


def cards() -> str:
    """The smallest card of those asked about, for each model and format of its weights."""
    found = json.loads((RESULTS / "models-cards.json").read_text(encoding="utf-8"))
    rows = []
    for name, model in found["models"].items():
        fits = [
            f"{plan['needed'] / 1e9:.1f} GB: {plan['smallest_card_gib'] or 'none'} GiB"
            for plan in model["plans"].values()
        ]
        own = model["plans"]["own"]
        parts = f"{own['weights'] / 1e9:.1f} + {own['kv_cache'] / 1e9:.1f} GB"
        rows.append((f"{name}", f"{model['n_params'] / 1e9:.2f}e9", f"{model['context']:,}", parts, *fits))
    head = ("model", "weights", "context", "bf16: weights + keys and values", "bf16", "fp8", "int8")
    return table(head, rows)


MODEL_TARGET_PARTS: Mapping[str, Callable[[], str]] = {
    "model-starts": starts,
    "model-answers": answers,
    "model-cards": cards,
}

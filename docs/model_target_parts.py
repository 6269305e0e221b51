"""The generated parts of `models.md`: starts, answers and speeds of pretrained targets, and who fits which card."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from docs.embedded_model_parts import MISSING, RESULTS, with_interval
from docs.tables import table


def runs(kind: str) -> Iterator[dict[str, Any]]:
    """The kept runs of `make bench-models` of one kind (`model_` and the part), in the order of their files' names."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("models-*.json"))]
    yield from (run for run in found if run["kind"] == kind)


def starts() -> str:
    """A row for each start of each model."""
    head = ("model", "start", "ready", "first edit", "second edit", "row counts", "load average")
    rows = [row for run in runs("model_starts") for row in _start_rows(run)]
    return table(head, rows) if rows else MISSING.format("make bench-models")


def _start_rows(run: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, found in zip(("first", "next"), run["starts"], strict=True):
        steps = (found[step] for step in ("ready", "first_edit", "second_edit"))
        clocks = (f"{step['clock_s']:.1f} s ({step['processor_s']:.1f} s)" for step in steps)
        buckets = ", ".join(map(str, found["buckets"]))
        load = f"{found['load_average']:.1f}"
        yield (f"{run['model']}, {run['dtype']}", name, *clocks, f"{found['determinism']}: {buckets}", load)


def answers() -> str:
    """A table for each model."""
    return "\n".join(map(_answers, runs("model_answers"))) or MISSING.format("make bench-models")


def speeds() -> str:
    """A table for each model: every way of decoding, beside `plain` in the same run."""
    return "\n".join(map(_speeds, runs("model_speed"))) or MISSING.format("make bench-models")


def _speeds(run: Mapping[str, Any]) -> str:
    head = (
        "",
        "answered",
        "tokens an edit",
        "tokens a pass",
        "rejections an edit",
        "accepted",
        "tokens a second",
        "over plain",
    )
    rows = (
        (
            f"`{name}`",
            f"{way['n_scored'] - way['n_refused']}",
            *(_figure(way[field], ".1f") for field in ("tokens_per_edit", "tokens_per_pass", "rejections_per_edit")),
            _figure(way["acceptance_rate"], ".0%"),
            _figure(way["tok_s"], ".1f"),
            _figure(way["speedup_vs_plain"], ".1f"),
        )
        for name, way in run["ways"].items()
    )
    return f"{_about(run)}.\n\n" + table(head, rows)


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _about(run: Mapping[str, Any]) -> str:
    start = run["provenance"]
    asked = {"whole": ", each asked for by its whole new file", "instruction": ", each asked for by its subject alone"}
    return (
        f"{run['model']}, {run['dtype']}: {run['n_edits']} edits of files of up to {run['max_chars']} characters"
        f"{asked.get(run.get('asked', ''), '')}; "
        f"{start['hardware']['cpu']}; {start['created'][:10]}; commit {str(start['commit'])[:10]}"
    )


def _answers(run: Mapping[str, Any]) -> str:
    rows = (
        (
            f"`{name}`",
            with_interval(way, "exact_match"),
            with_interval(way, "silent_errors"),
            str(way["n_refused"]),
            _figure(way["tokens_per_pass"], ".1f"),
            _figure(way["rejections_per_edit"], ".1f"),
            _figure(way["acceptance_rate"], ".0%"),
        )
        for name, way in run["ways"].items()
    )
    head = ("", "exact", "silent errors", "refused", "tokens a pass", "rejections an edit", "accepted")
    return f"{_about(run)}.\n\n" + table(head, rows)


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
    "model-speeds": speeds,
    "model-cards": cards,
}

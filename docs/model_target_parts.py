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
    """A table for each model: how long its first start took, and the next one."""
    return "\n".join(map(_starts, runs("model_starts"))) or MISSING.format("make bench-models")


def _starts(run: Mapping[str, Any]) -> str:
    rows, notes = [], []
    for name, found in zip(("first", "next"), run["starts"], strict=True):
        steps = (found[step] for step in ("ready", "first_edit", "second_edit"))
        rows.append((name, *(f"{step['clock_s']:.1f} s ({step['processor_s']:.1f} s)" for step in steps)))
        counts = ", ".join(map(str, found["buckets"]))
        same = "equal in every bit" if found["determinism"] == "bitwise" else "equal up to rounding"
        notes.append(
            f"{name.capitalize()} start: results {same} in passes of {counts} tokens; "
            f"load average {found['load_average']:.1f}"
        )
    head = ("start", "ready", "first edit", "second edit")
    return f"{run['model']}, number format `{run['dtype']}`. {'. '.join(notes)}.\n\n" + table(head, rows)


def answers() -> str:
    """Two tables for each model: how right every way is, and what became of its drafts."""
    return "\n".join(map(_answers, runs("model_answers"))) or MISSING.format("make bench-models")


def speeds() -> str:
    """Two tables for each run: the speed of every way of decoding, and what became of its drafts."""
    return "\n".join(map(_speeds, runs("model_speed"))) or MISSING.format("make bench-models")


def _speeds(run: Mapping[str, Any]) -> str:
    rows = (
        (
            f"`{name}`",
            f"{way['n_scored'] - way['n_refused']} ({_figure(way['tokens_per_edit'], '.1f')} tokens each)",
            _figure(way["tok_s"], ".1f"),
            _figure(way["speedup_vs_plain"], ".1f"),
        )
        for name, way in run["ways"].items()
    )
    head = ("way", "edits answered", "tokens a second", "over plain")
    return f"{_about(run)}.\n\n" + table(head, rows) + "\n" + _drafts(run)


def _drafts(run: Mapping[str, Any]) -> str:
    """What became of the drafts, for each way that has any figure of them."""
    rows = (
        (
            f"`{name}`",
            _figure(way["tokens_per_pass"], ".1f"),
            _figure(way["rejections_per_edit"], ".1f"),
            _figure(way["acceptance_rate"], ".0%"),
        )
        for name, way in run["ways"].items()
        if way["tokens_per_pass"] is not None
    )
    return table(("way", "tokens a pass", "rejections an edit", "accepted"), rows)


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _about(run: Mapping[str, Any]) -> str:
    start = run["provenance"]
    asked = {
        "whole": ", each sent as the whole new file",
        "instruction": ", each sent as an instruction alone: the subject line of its commit",
    }
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
        )
        for name, way in run["ways"].items()
    )
    right = table(("way", "exact", "silent errors", "refused"), rows)
    return f"{_about(run)}.\n\n{right}\n{_drafts(run)}"


def cards() -> str:
    """The smallest card of those asked about, for each model and format of its weights."""
    found = json.loads((RESULTS / "models-cards.json").read_text(encoding="utf-8"))
    rows = []
    for name, model in found["models"].items():
        fits = [
            f"{plan['smallest_card_gib'] or 'none'} GiB ({plan['needed'] / 1e9:.1f} GB)"
            for plan in model["plans"].values()
        ]
        own = model["plans"]["own"]
        parts = f": weights {own['weights'] / 1e9:.1f}, keys and values {own['kv_cache'] / 1e9:.1f})"
        fits[0] = fits[0].removesuffix(")") + parts
        about = f"{name}: {model['n_params'] / 1e9:.2f} billion weights, context {model['context']:,}"
        rows.append((about, *fits))
    return table(("model", "bfloat16", "fp8", "int8"), rows)


MODEL_TARGET_PARTS: Mapping[str, Callable[[], str]] = {
    "model-starts": starts,
    "model-answers": answers,
    "model-speeds": speeds,
    "model-cards": cards,
}

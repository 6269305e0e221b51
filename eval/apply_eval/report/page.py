"""The HTML report: one file, no script, no font, no picture from elsewhere; light and dark, phone and desk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from apply_eval.provenance import shown_command
from apply_eval.report.charts import colour
from apply_eval.report.figures import figures
from apply_eval.report.numbers import COLUMNS, DASH, MORE_COLUMNS, with_interval
from apply_eval.report.samples import HEADINGS, samples
from apply_eval.report.terminal import notes, used_columns
from apply_eval.running.results import RunResults, write_whole

REPORT = "report.html"


def write_report(results: RunResults, folder: Path, *, others: Sequence[RunResults] = ()) -> Path:
    """Write `report.html` into `folder`; its path."""
    return write_whole(folder / REPORT, render_report(results, others=others))


def render_report(results: RunResults, *, others: Sequence[RunResults] = ()) -> str:
    """The page's text.  `others`: runs of the same at other concurrencies."""
    environment = Environment(
        loader=PackageLoader("apply_eval", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("page.html.jinja").render(
        style=Markup(_read("style.css")),
        title=_title(results.values),
        notes=notes(results.values),
        facts=_facts(results.values),
        main=_table(results, COLUMNS),
        more=_table(results, MORE_COLUMNS),
        figures=[figure._replace(svg=Markup(figure.svg)) for figure in figures(results, others)],
        samples=[
            sample._replace(lines=tuple(line._replace(strip=Markup(line.strip)) for line in sample.lines))
            for sample in samples(results)
        ],
        headings=HEADINGS,
        provenance=_provenance(results.values),
    )
    return page + "\n"


def _read(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _table(results: RunResults, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Headings, and a row a contestant: name, colour, and (text, interval) pairs.  Columns that nobody fills are left
    out."""
    summary = results.summary
    used = used_columns(columns, summary)
    rows = [
        {"name": name, "class": colour(i), "cells": [_cell(found, field, show) for field, (_, show) in used.items()]}
        for i, (name, found) in enumerate(summary.items())
    ]
    return {"headings": [heading for heading, _ in used.values()], "rows": rows}


def _cell(found: Mapping[str, Any], field: str, show: Any) -> dict[str, str]:
    value, interval = found.get(field), found["intervals"].get(field)
    tip = with_interval(show, value, interval) if interval is not None and value is not None else ""
    low_high = f"{show(interval[0])}–{show(interval[1])}" if tip else ""
    return {"text": show(value) if value is not None else DASH, "interval": low_high}


def _title(values: Mapping[str, Any]) -> str:
    model, server = values["plan"]["model"], values["plan"]["server"]
    return f"apply-eval: {model['name'] if model else server['url'] if server else 'no model'}"


def _facts(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The line under the title."""
    plan, start = values["plan"], values["provenance"] or {}
    hardware = start.get("hardware", {})
    return [
        ("data", ", ".join(item["name"] for item in plan["data"])),
        ("samples", str(len(values["samples"]))),
        ("strategy", plan["request"]["strategy"]),
        ("constraint", plan["request"]["constrain"] or "the target's own choice"),
        ("at a time", str(plan["concurrency"])),
        ("machine", f"{hardware.get('cpu', '?')}, {hardware.get('n_cpus', '?')} CPUs"),
        ("begun", str(values["sessions"][0]["created"]) if values["sessions"] else "?"),
    ]


def _provenance(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is needed to repeat the run."""
    start = values["provenance"] or {}
    model = values["plan"]["model"] or {}
    versions = ", ".join(f"{name} {number}" for name, number in start.get("versions", {}).items())
    dirty = " with uncommitted changes" if start.get("dirty") else ""
    return [
        ("command", shown_command(start["command"]) if "command" in start else ""),
        ("commit", f"{start.get('commit')}{dirty}"),
        *[(f"data: {item['name']}", f"sha256 {item['sha256']}") for item in start.get("data", [])],
        ("model", f"{model.get('name', 'none')}, sha256 {model.get('sha256')}, {model.get('determinism', '')}"),
        ("device", str(model.get("device", ""))),
        ("seed", str(start.get("seed"))),
        ("versions", versions),
        ("hardware", ", ".join(f"{key}: {value}" for key, value in start.get("hardware", {}).items())),
        ("starts", str(len(values["sessions"]))),
    ]

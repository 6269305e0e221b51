"""The generated parts of `evaluation.md`: the harness's options, and the tables of the runs that are kept in
`benchmarks/results/eval-*.json`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from apply_eval.cli import build_parser
from apply_eval.numbers import COLUMNS, GROUPS, MORE_COLUMNS, notes, share, times, used_columns, with_interval
from apply_eval.provenance import shown_command
from apply_eval.results import RunResults, read_results
from apply_eval.summary import PLAIN
from docs.tables import table

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
COMMANDS = ("quick", "run", "merge", "lossless", "report", "compare")
WITH_INTERVAL = ("exact_match", "silent_errors", "speedup_vs_plain")


def commands() -> str:
    """The options of the commands that measure."""
    parser = build_parser()
    subparsers = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return "\n".join(f"### `apply-eval {name}`\n\n{_options(subparsers.choices[name])}" for name in COMMANDS)


def _options(command: argparse.ArgumentParser) -> str:
    own = [action for action in command._actions if action.dest != "help"]
    return table(("option", "meaning"), ((f"`{_spelling(action)}`", _meaning(action)) for action in own))


def _spelling(action: argparse.Action) -> str:
    if not action.option_strings:
        return str(action.metavar or action.dest)
    if action.nargs == 0:
        return action.option_strings[0]
    value = "|".join(map(str, action.choices)) if action.choices else action.metavar or action.dest.upper()
    return f"{action.option_strings[0]} {value}"


def _meaning(action: argparse.Action) -> str:
    return (action.help or "") % {"default": action.default}


def results() -> str:
    """Every kept run, in the order of their names."""
    kept = sorted(RESULTS.glob("eval-*.json"))
    if not kept:
        return "No results are kept yet; `make eval-dev` makes them.\n"
    return "\n".join(f"### {path.stem.removeprefix('eval-')}\n\n{_run(read_results(path))}" for path in kept)


def _run(run: RunResults) -> str:
    parts = [_head(run.values), _table(run, COLUMNS), _table(run, MORE_COLUMNS)]
    parts += [
        _groups(run, way, what)
        for way, what in GROUPS.items()
        if any(len(found.get(way, {})) > 1 for found in run.summary.values())
    ]
    return "\n".join(parts)


def _head(values: Mapping[str, Any]) -> str:
    start, plan = values["provenance"], values["plan"]
    data = ", ".join(item["name"] for item in plan["data"])
    hardware = f"{start['hardware']['cpu']}, {start['hardware']['n_cpus']} CPUs"
    target = plan["model"]["name"] if plan["model"] else "no model"
    commit = f"{str(start['commit'])[:10]}{' with uncommitted changes' if start['dirty'] else ''}"
    lines = [
        f"`{shown_command(start['command'])}`",
        f"{data}; {len(values['samples'])} samples; target {target}; {hardware}; {start['created'][:10]}; "
        f"commit {commit}.",
        *(f"{note[0].upper()}{note[1:]}." for note in notes(values)),
    ]
    return "\n\n".join(lines) + "\n"


def _table(run: RunResults, columns: Mapping[str, Any]) -> str:
    used = used_columns(columns, run.summary)
    rows = [[f"`{name}`", *_cells(found, used)] for name, found in run.summary.items()]
    return table(("", *(column.heading for column in used.values())), rows)


def _cells(found: Mapping[str, Any], columns: Mapping[str, Any]) -> Iterator[str]:
    for field, column in columns.items():
        interval = found["intervals"].get(field) if field in WITH_INTERVAL else None
        yield with_interval(column.show, found.get(field), interval)


def _groups(run: RunResults, way: str, what: str) -> str:
    """Exact match, silent errors and speed-up of the contestant that the service uses by default, else the last."""
    name = "merged_edit" if "merged_edit" in run.names else [n for n in run.names if n != PLAIN][-1]
    rows = [
        (
            key,
            str(found["n_scored"]),
            with_interval(share, found["exact_match"], found["intervals"].get("exact_match")),
            share(found["silent_errors"]),
            times(found["speedup_vs_plain"]),
        )
        for key, found in run.summary[name][way].items()
    ]
    return f"`{name}` by {what}:\n\n" + table((what, "scored", "exact", "silent errors", "speed-up"), rows)


def fields() -> str:
    """The fields of a summary that are figures in tables."""
    rows = ((f"`{field}`", column.heading, column.meaning) for field, column in {**COLUMNS, **MORE_COLUMNS}.items())
    return table(("field", "heading", "meaning"), rows)


EVALUATION_PARTS: Mapping[str, Callable[[], str]] = {
    "evaluation-commands": commands,
    "evaluation-fields": fields,
    "evaluation-results": results,
}

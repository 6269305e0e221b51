"""A result of `benchmarks.decoding` as Markdown: what stands in docs/performance.md, and what the command prints.

`python -m docs.generate` writes the page; the columns and words serve the benchmark of GPUs as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from apply_eval.provenance import shown_command
from benchmarks.report import Row, label, number, ratio, read_committed, table

BUSY = 0.5
"""Load from which on a machine counts as used by others: the figures are then too low, and uneven."""

COLUMNS: Mapping[str, Callable[[Row], str]] = {
    "tok/s": lambda row: number(row["tok_s"]),
    "against plain": lambda row: ratio(row.get("vs_plain")),
    "against HF lookup 10": lambda row: ratio(row.get("vs_hf_prompt_lookup")),
    "against HF lookup 128": lambda row: ratio(row.get("vs_hf_prompt_lookup_128")),
    "chars/s end to end": lambda row: number(row["chars_s"]),
    "tokens a pass": lambda row: number(row["tokens_per_pass"]),
    "rejections an edit": lambda row: number(row["rejections_per_edit"]),
    "acceptance": lambda row: "" if row["acceptance"] is None else f"{row['acceptance']:.1%}",
    "first token, ms": lambda row: number(row["first_token_s"], 1e3),
    "end to end, s": lambda row: number(row["end_to_end_s"]),
}
"""Of an edit alone."""


def render_all() -> str:
    """Every committed result, newest first."""
    return "\n".join(map(render, read_committed("bench-*.json"))) or "No results yet.\n"


def render(result: Row) -> str:
    """One result: where it comes from, then the tables of each target."""
    parts = [_heading(result)]
    for target in result["targets"]:
        rows = [row for row in result["summary"] if row["target"] == target["name"]]
        parts += [_target_heading(target), alone_table(rows, COLUMNS), batch_table(rows)]
    return "\n".join(filter(None, parts))


def _heading(result: Row) -> str:
    where, device = result["provenance"], result["device"]
    versions = ", ".join(f"{name} {where['versions'][name]}" for name in ("torch", "transformers"))
    data = ", ".join(item["name"] for item in where["data"])
    load = device.get("load_before") or 0.0
    busy = f"; **the machine was not idle** (load {load:.1f} before)" if load >= BUSY else ""
    stopped = "" if result["is_complete"] else "**stopped before its end**; "
    constraint = {"none": "off", "sources": "on, so the library's peers are left out"}[result["constrain"]]
    commit = str(where["commit"])[:12] + (" with uncommitted changes" if where["dirty"] else "")
    return (
        f"## {device['name']}, {where['created'][:10]}\n\n"
        f"- command: `{shown_command(where['command'])}`, commit {commit}\n"
        f"- {device['threads']} threads, {versions}; {where['hardware']['system']}, {where['hardware']['cpu']}{busy}\n"
        f"- {stopped}data: {data}; seed {where['seed']}; windows off, copy constraint {constraint}\n"
    )


def _target_heading(target: Row) -> str:
    kind = "random weights, the known answer replayed" if target["is_replay"] else "its own choices"
    return (
        f"### `{target['name']}`\n\n"
        f"{target['n_params'] / 1e6:,.1f}M parameters, {target['dtype']}, {target['determinism']}; {kind}. "
        f"{target['n_cases']} edits ({target['n_too_long']} more were too long), median prompt "
        f"{target['prompt_tokens']:,} and output {target['output_tokens']:,} tokens "
        f"of {target['chars_a_token']:.2f} characters.\n"
    )


def alone_table(rows: Sequence[Row], columns: Mapping[str, Callable[[Row], str]]) -> str:
    """Edits decoded alone; empty where there are none."""
    lines = [[label(row["contender"]), *(show(row) for show in columns.values())] for row in rows if row["batch"] == 1]
    return table([["decodes", *columns], *lines]) if lines else ""


def batch_table(rows: Sequence[Row]) -> str:
    """Total tokens a second by batch size, and the ratio to plain decoding with the same batching; empty where no edits
    were decoded together."""
    batches = sorted({row["batch"] for row in rows})
    if not any(batch > 1 for batch in batches):
        return ""
    cells: dict[str, dict[int, str]] = {}
    for row in rows:
        against = ratio(row.get("vs_plain"))
        cell = number(row["tok_s"]) + (f" ({against})" if against else "")
        cells.setdefault(row["contender"], {})[row["batch"]] = cell
    lines = [[label(name), *(found.get(n, "") for n in batches)] for name, found in cells.items()]
    head = ["total tok/s (against plain in the same batch)", *(f"batch {n}" for n in batches)]
    return table([head, *lines])

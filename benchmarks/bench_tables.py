"""A result of `benchmarks.bench` as Markdown: what stands in docs/performance.md, and what the command prints.

python -m benchmarks.bench_tables FILE.json...
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from apply_eval.provenance import shown_command

RESULTS = Path(__file__).parent / "results"
PATTERN = "bench-*.json"
ALONE = (
    "decodes",
    "tok/s",
    "against plain",
    "against HF prompt lookup",
    "chars/s end to end",
    "tokens a pass",
    "rejections an edit",
    "acceptance",
    "first token, ms",
    "end to end, s",
)
LABELS = {
    "plain": "**plain** (the faster undrafted run)",
    "plain_engine": "no draft, our engine, unpadded",
    "hf_plain": "HF `generate`",
    "hf_prompt_lookup": "HF prompt lookup, 10 tokens",
}
"""Drafters of ours go by their own names."""

BUSY = 0.5

Row = Mapping[str, Any]


def print_files(render: Callable[[Row], str]) -> int:
    """The results in the files that the command line names."""
    for name in sys.argv[1:]:
        print(render(json.loads(Path(name).read_text(encoding="utf-8"))))
    return 0


def read_committed(pattern: str) -> list[Row]:
    """Every committed result whose name matches, newest first."""
    results: list[Row] = [json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob(pattern)]
    return sorted(results, key=lambda result: str(result["provenance"]["created"]), reverse=True)


def render_all() -> str:
    """Every committed result, newest first."""
    return "\n".join(render(result) for result in read_committed(PATTERN)) or "No results yet.\n"


def render(result: Row) -> str:
    """One result: where it comes from, then the tables of each target."""
    parts = [_heading(result)]
    for target in result["targets"]:
        rows = [row for row in result["summary"] if row["target"] == target["name"]]
        parts.append(_target_heading(target))
        parts.append(_alone_table([row for row in rows if row["batch"] == 1]))
        if any(row["batch"] > 1 for row in rows):
            parts.append(_batch_table(rows))
    return "\n".join(parts)


def _heading(result: Row) -> str:
    where, device = result["provenance"], result["device"]
    versions = ", ".join(f"{name} {where['versions'][name]}" for name in ("torch", "transformers"))
    data = ", ".join(item["name"] for item in where["data"])
    machine = f"{where['hardware']['system']}, {where['hardware']['cpu']}{_load(device)}"
    stopped = "" if result["is_complete"] else "**stopped before its end**; "
    constraint = {"none": "off", "sources": "on, so the library's peers are left out"}[result["constrain"]]
    commit = str(where["commit"])[:12] + (" with uncommitted changes" if where["dirty"] else "")
    return (
        f"## {device['name']}, {where['created'][:10]}\n\n"
        f"- command: `{shown_command(where['command'])}`, commit {commit}\n"
        f"- {device['threads']} threads, {versions}; {machine}\n"
        f"- {stopped}data: {data}; seed {where['seed']}; windows off, copy constraint {constraint}\n"
    )


def _load(device: Row) -> str:
    """Said where others used the machine: the figures are then too low, and uneven."""
    load = device.get("load_before")
    return "" if load is None or load < BUSY else f"; **the machine was not idle** (load {load:.1f} before)"


def _target_heading(target: Row) -> str:
    kind = "random weights, the known answer replayed" if target["is_replay"] else "its own choices"
    return (
        f"### `{target['name']}`\n\n"
        f"{target['n_params'] / 1e6:,.1f}M parameters, {target['dtype']}, {target['determinism']}; {kind}. "
        f"{target['n_cases']} edits ({target['n_too_long']} more were too long), median prompt "
        f"{target['prompt_tokens']:,} and output {target['output_tokens']:,} tokens "
        f"of {target['chars_a_token']:.2f} characters.\n"
    )


def _alone_table(rows: Sequence[Row]) -> str:
    lines = [ALONE]
    for row in rows:
        lines.append(
            (
                LABELS.get(row["contender"], f"`{row['contender']}`") + _winner(row),
                number(row["tok_s"]),
                ratio(row.get("vs_plain")),
                ratio(row.get("vs_hf_prompt_lookup")),
                number(row["chars_s"]),
                number(row["tokens_per_pass"]),
                number(row["rejections_per_edit"]),
                "" if row["acceptance"] is None else f"{row['acceptance']:.1%}",
                number(row["first_token_s"], 1e3),
                number(row["end_to_end_s"]),
            )
        )
    return table(lines)


def _winner(row: Row) -> str:
    won = [f"{LABELS[name]}: {n}" for name, n in row.get("won_by", {}).items()]
    return f" ({', '.join(won)})" if won else ""


def _batch_table(rows: Sequence[Row]) -> str:
    """Total tokens a second by batch size, and the ratio to plain decoding with the same batching."""
    batches = sorted({row["batch"] for row in rows})
    contenders = list(dict.fromkeys(row["contender"] for row in rows))
    cells = {(row["contender"], row["batch"]): _batch_cell(row) for row in rows}
    lines = [("total tok/s (against plain in the same batch)", *(f"batch {n}" for n in batches))]
    for name in contenders:
        lines.append((LABELS.get(name, f"`{name}`"), *(cells.get((name, n), "") for n in batches)))
    return table(lines)


def _batch_cell(row: Row) -> str:
    against = ratio(row.get("vs_plain"))
    return number(row["tok_s"]) + (f" ({against})" if against else "")


def number(value: float | None, scale: float = 1.0) -> str:
    """Three significant figures, thousands apart; empty for None."""
    if value is None:
        return ""
    value *= scale
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ratio(value: Row | None) -> str:
    """`13.2x [11.0, 15.1]`."""
    if value is None:
        return ""
    interval = "" if value["low"] is None else f" [{number(value['low'])}, {number(value['high'])}]"
    return f"{number(value['median'])}x{interval}"


def table(lines: Iterable[Sequence[str]]) -> str:
    head, *body = lines
    rows = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    sys.exit(print_files(render))

"""A result of `benchmarks.gpu` as Markdown: what stands in docs/performance.md, and what the command prints."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from apply_eval.provenance import shown_command
from benchmarks.decoding.samples import Sample, summarise
from benchmarks.decoding.tables import COLUMNS, alone_table, batch_table
from benchmarks.report import Row, label, read_committed, table

GPU_COLUMNS: Mapping[str, Callable[[Row], str]] = {
    **COLUMNS,
    "right": lambda row: f"{row['n_exact']} of {row['n_edits']}",
}


def render_all() -> str:
    """Every committed result of a GPU, newest first; of a run on a CPU, whose speeds say nothing of a GPU's, how it
    ended."""
    results = read_committed("gpu-*.json")
    on_gpus = [render(result) for result in results if result["device"]["is_gpu"]]
    on_cpus = [_trial(result) for result in results if not result["device"]["is_gpu"]]
    return "\n".join([*(on_gpus or ["No result of a GPU yet.\n"]), *_pretrained(), *on_cpus])


def _pretrained() -> list[str]:
    """The results of `benchmarks.gpu.real`: how often each model is right, then how fast."""
    results = read_committed("real-gpu-*.json")
    if not results:
        return []
    lines = [["model", "edits", "right", "our merge right", "ready, s", "`merged_edit`, median ms an edit"]]
    speeds = []
    for result in results:
        name = result["target"]["name"] + (", with the adapter" if result["adapter"] else "")
        answers = result["answers"]
        right, merged = (sum(row.get(key, False) for row in answers) for key in ("is_right", "merge_is_right"))
        took_ms = 1e3 * statistics.median(row["end_to_end_s"] for row in answers if "end_to_end_s" in row)
        lines.append([name, str(len(answers)), str(right), str(merged), f"{result['ready_s']:.1f}", f"{took_ms:.0f}"])
        rows = summarise([Sample(**row) for row in result["samples"]])
        speeds += [f"**{name}**\n", alone_table(rows, GPU_COLUMNS)]
    about = (
        f"### Pretrained models on {results[0]['device']['name']}\n\nThe models' own choices: greedy, free, on edits "
        "with snippets that a model wrote. Right is the wanted text to the byte.\n"
    )
    return [about, table(lines), *speeds]


def _trial(result: Row) -> str:
    pieces = result["pieces"]
    found = [check["is_ok"] for piece in pieces for check in piece.get("checks", ())]
    is_whole = all(piece["is_complete"] and not piece.get("failures") for piece in pieces)
    return (
        f"On a CPU ({result['device']['name']}, {result['provenance']['created'][:10]}) all of it ran "
        f"{'' if is_whole else '**not** '}to its end, with shapes of a CPU's size: {found.count(True)} checks held, "
        f"{found.count(False)} failed, {found.count(None)} could not run there.\n"
    )


def render(result: Row) -> str:
    """One result: machine, checks, the tables of each shape, and what broke or is missing."""
    parts = [_heading(result)]
    parts += [_check_table(piece["checks"]) for piece in result["pieces"] if "checks" in piece]
    shapes: dict[str, list[Row]] = {}
    for piece in result["pieces"]:
        if piece["samples"]:
            shapes.setdefault(piece["target"]["name"], []).append(piece)
    for pieces in shapes.values():
        rows = summarise([Sample(**row) for piece in pieces for row in piece["samples"]])
        parts += [_target_heading(pieces), alone_table(rows, GPU_COLUMNS), batch_table(rows)]
        skipped = [skip for piece in pieces for skip in piece["skipped"]]
        parts += [f"- {label(skip['contender'])}, batch {skip['batch']}: {skip['reason']}\n" for skip in skipped]
    parts += [_failure(piece["piece"], one) for piece in result["pieces"] for one in piece.get("failures", ())]
    if todo := [piece["piece"] for piece in result["pieces"] if not piece["is_complete"]]:
        parts.append(f"Not measured, or not to the end: {', '.join(todo)}.\n")
    return "\n".join(filter(None, parts))


def _heading(result: Row) -> str:
    where, device = result["provenance"], result["device"]
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items() if name != "python")
    data = ", ".join(item["name"] for item in result["edits"]["provenance"]["data"])
    commit = str(where["commit"] or result["edits"]["provenance"]["commit"])[:12]
    no_gpu = "" if device["is_gpu"] else "**No GPU was at hand: this ran on a CPU, with shapes of a CPU's size.** "
    runs_on = f"CUDA {device['cuda']}" if device["is_gpu"] else f"{device['threads']} threads"
    return (
        f"## {device['name']}, {where['created'][:10]}\n\n"
        f"{no_gpu}Random weights, the known answers replayed; every forward is really computed.\n\n"
        f"- command: `{shown_command(where['command'])}`, commit {commit}\n"
        f"- {versions}, {runs_on}; load {device['load_before']} before\n"
        f"- edits: {result['edits']['n']} of {data}. The merge is made beforehand, on another machine (median "
        f"{1e3 * statistics.median(result['merge_s']):.1f} ms there), and is not part of end to end; encoding the "
        "prompt, reading it, decoding and decoding the text are\n"
    )


def _check_table(checks: Sequence[Row]) -> str:
    words = {True: "yes", False: "**NO**", None: "could not run"}
    lines = [
        [
            check["name"],
            words[check["is_ok"]],
            *("" if check[key] is None else f"{check[key]:.3g}" for key in ("worst", "limit")),
            str(check["n"] or ""),
            check["note"].replace("|", "/").replace("\n", " "),
        ]
        for check in checks
    ]
    return "### Correctness\n\n" + table([["check", "holds", "worst", "allowed", "compared", "note"], *lines])


def _failure(piece: str, failure: Row) -> str:
    where = failure["frames"][-1].split(":", 1)[0] if failure["frames"] else "an unknown place"
    message = failure["errors"][0].splitlines()[0][:200].replace("`", "'")
    return f"**Failed**, {piece}: {failure['during']}: `{message}` (in {where}; the result's file has the rest).\n"


def _target_heading(pieces: Sequence[Row]) -> str:
    target = pieces[0]["target"]
    passes = ", ".join(f"{n} rows {ms:.2f} ms" for n, ms in target["pass_ms"].items())
    edits = "; ".join(
        f"{piece['piece']}: {piece['target']['n_cases']} edits, median prompt {piece['target']['prompt_tokens']:,} and "
        f"output {piece['target']['output_tokens']:,} tokens"
        for piece in pieces
    )
    after = [size for size, way in target["fp8_scales"].items() if way == "after"]
    notes = [*target["notes"], *([f"fp8 products of {', '.join(after)} scaled afterwards"] if after else [])]
    return (
        f"### `{target['name']}`\n\n"
        f"{target['n_params'] / 1e9:.3g}B parameters, weights {target['weights']}, the rest {target['dtype']}; "
        f"attention {target['attention']}, {'captured' if target['has_graphs'] else 'eager'} passes; "
        f"{target['determinism']}{''.join(f'; {note}' for note in notes)}. {edits}, of {target['chars_a_token']} "
        f"characters.\n\nPasses: {passes}. Each reads {target['weight_bytes_read'] / 1e9:.3g} GB of "
        "weights.\n"
    )

"""A result of `benchmarks.bench_gpu` as Markdown: what stands in docs/performance.md, and what the command prints.

python -m benchmarks.bench_gpu_tables FILE.json...
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from apply_eval.provenance import shown_command
from benchmarks.bench_gpu_sample import Measured, sample_of
from benchmarks.bench_summary import summarise, with_plain
from benchmarks.bench_tables import LABELS, number, print_files, ratio, read_committed, table

PATTERN = "gpu-*.json"
MERGE_NOTE = "The merge is made beforehand, on another machine"
ALONE = (
    "decodes",
    "tok/s",
    "against plain",
    "chars/s",
    "chars/s end to end",
    "tokens a pass",
    "acceptance",
    "first token, ms",
    "end to end, ms",
    "roofline, decoding",
    "roofline, end to end",
    "right",
)

Row = Mapping[str, Any]


def render_all() -> str:
    """Every committed result of a GPU, newest first; of a run on a CPU, whose speeds say nothing of a GPU's, how it
    ended."""
    results = read_committed(PATTERN)
    on_gpus = [render(result) for result in results if result["device"]["is_gpu"]]
    on_cpus = [_trial(result) for result in results if not result["device"]["is_gpu"]]
    return "\n".join([*(on_gpus or ["No result of a GPU yet.\n"]), *on_cpus])


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
    """One result: machine, checks, then the tables of each shape."""
    parts = [_heading(result)]
    for piece in result["pieces"]:
        if "checks" in piece:
            parts.append(_check_table(piece["checks"]))
    shapes: dict[str, list[Row]] = {}
    for piece in result["pieces"]:
        if piece["samples"]:
            shapes.setdefault(piece["target"]["name"], []).append(piece)
    for name, pieces in shapes.items():
        parts.append(_shape(name, pieces))
    parts += [_failure(piece["piece"], one) for piece in result["pieces"] for one in piece.get("failures", ())]
    todo = [piece["piece"] for piece in result["pieces"] if not piece["is_complete"]]
    if todo:
        parts.append(f"Not measured, or not to the end: {', '.join(todo)}.\n")
    return "\n".join(parts)


def _heading(result: Row) -> str:
    where, device = result["provenance"], result["device"]
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items() if name != "python")
    data = ", ".join(item["name"] for item in result["edits"]["provenance"]["data"])
    commit = str(where["commit"] or result["edits"]["provenance"]["commit"])[:12]
    no_gpu = "" if device["is_gpu"] else "**No GPU was at hand: this ran on a CPU, with shapes of a CPU's size.** "
    merge_ms = 1e3 * statistics.median(result["merge_s"])
    return (
        f"## {device['name']}, {where['created'][:10]}\n\n"
        f"{no_gpu}Random weights, the known answers replayed; every forward is really computed.\n\n"
        f"- command: `{shown_command(where['command'])}`, commit {commit}\n"
        f"- {versions}" + _runs_on(device) + "\n"
        f"- edits: {result['edits']['n']} of {data}. {MERGE_NOTE} (median {merge_ms:.1f} ms there), and is not part of "
        "end to end; encoding the prompt, reading it, decoding and decoding the text are\n"
    )


def _runs_on(device: Row) -> str:
    if device["is_gpu"]:
        return f", CUDA {device['cuda']}"
    load = device["load_before"]
    return f", {device['threads']} threads" + ("" if load is None else f", load {load} (processes that want a core)")


def _check_table(checks: Sequence[Row]) -> str:
    words = {True: "yes", False: "**NO**", None: "could not run"}
    lines = [("check", "holds", "worst", "allowed", "compared", "note")]
    lines += [
        (
            check["name"],
            words[check["is_ok"]],
            _exactly(check["worst"]),
            _exactly(check["limit"]),
            str(check["n"] or ""),
            check["note"].replace("|", "/").replace("\n", " "),
        )
        for check in checks
    ]
    return "### Correctness\n\n" + table(lines)


def _failure(piece: str, failure: Row) -> str:
    where = failure["frames"][-1].split(":", 1)[0] if failure["frames"] else "an unknown place"
    message = failure["errors"][0].splitlines()[0][:200].replace("`", "'")
    return f"**Failed**, {piece}: {failure['during']}: `{message}` (in {where}; the result's file has the rest).\n"


def _exactly(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _shape(name: str, pieces: Sequence[Row]) -> str:
    target = pieces[0]["target"]
    measured = [sample_of(row) for piece in pieces for row in piece["samples"]]
    rows = summarise([one.sample for one in measured])
    shares = _shares(measured)
    parts = [_target_heading(name, target, pieces)]
    if alone := [row for row in rows if row["batch"] == 1]:
        parts.append(_alone_table(alone, shares))
    if any(row["batch"] > 1 for row in rows):
        parts.append(_batch_table(rows, shares))
    skipped = [skip for piece in pieces for skip in piece["skipped"]]
    parts += [f"- {LABELS.get(s['contender'], s['contender'])}, batch {s['batch']}: {s['reason']}\n" for s in skipped]
    return "\n".join(parts)


def _target_heading(name: str, target: Row, pieces: Sequence[Row]) -> str:
    card = target["card"]
    passes = ", ".join(
        f"{n} rows {ms:.2f} ms ({target['ideal_pass_ms'][n]:.2f})" for n, ms in target["pass_ms"].items()
    )
    counts = "; ".join(
        f"{piece['target']['n_cases']} edits {'alone' if piece['piece'].endswith('alone') else 'in batches'}, median "
        f"prompt {piece['target']['prompt_tokens']:,} and output {piece['target']['output_tokens']:,} tokens"
        for piece in pieces
    )
    graphs = "captured passes" if target["has_graphs"] else "eager passes"
    notes = f" ({'; '.join(target['notes'])})" if target["notes"] else ""
    return (
        f"### `{name}`\n\n"
        f"{target['n_params'] / 1e9:.3g}B parameters, weights {target['weights']}, the rest {target['dtype']}; "
        f"attention {target['attention']}, {graphs}{notes}; {target['determinism']}{_scales(target)}. {counts}, of "
        f"{target['chars_a_token']} characters.\n\n"
        f"Roofline: {card['bytes_s'] / 1e12:.3g} TB/s, {card['flop_s'] / 1e12:.3g} TFLOP/s ({card['source']}). "
        f"Passes of the self-test, and what they take at best: {passes}.\n"
    )


def _scales(target: Row) -> str:
    """Which fp8 matrices are scaled by a kernel of their own."""
    after = [size for size, way in target.get("fp8_scales", {}).items() if way == "after"]
    return f"; fp8 products of {', '.join(after)} scaled afterwards" if after else ""


Shares = Mapping[tuple[int, str], tuple[float, float | None]]


def _shares(measured: Sequence[Measured]) -> Shares:
    """By batch and contender: median shares of the roofline, decoding and end to end."""
    by_key: dict[tuple[int, str], list[Measured]] = {}
    ideal = {id(one.sample): one for one in measured}
    for one in measured:
        by_key.setdefault((one.sample.batch, one.sample.contender), []).append(one)
    for sample in with_plain([one.sample for one in measured]):
        if sample.contender == "plain":
            match = next(m for m in ideal.values() if m.sample.decode_s == sample.decode_s)
            by_key.setdefault((sample.batch, "plain"), []).append(match)
    return {key: (_decode_share(found), _whole_share(found)) for key, found in by_key.items()}


def _decode_share(found: Sequence[Measured]) -> float:
    return statistics.median(one.ideal_decode_s / one.sample.decode_s for one in found)


def _whole_share(found: Sequence[Measured]) -> float | None:
    whole = [one.ideal_end_to_end_s / one.sample.end_to_end_s for one in found if one.sample.end_to_end_s is not None]
    return statistics.median(whole) if whole else None


def _alone_table(rows: Sequence[Row], shares: Shares) -> str:
    lines: list[Sequence[str]] = [ALONE]
    for row in rows:
        decode, whole = shares[1, row["contender"]]
        lines.append(
            (
                _label(row["contender"]),
                number(row["tok_s"]),
                ratio(row.get("vs_plain")),
                number(row["decode_chars_s"]),
                number(row["chars_s"]),
                number(row["tokens_per_pass"]),
                "" if row["acceptance"] is None else f"{row['acceptance']:.1%}",
                number(row["first_token_s"], 1e3),
                number(row["end_to_end_s"], 1e3),
                f"{decode:.0%}",
                "" if whole is None else f"{whole:.0%}",
                f"{row['n_exact']} of {row['n_edits']}",
            )
        )
    return table(lines)


def _batch_table(rows: Sequence[Row], shares: Shares) -> str:
    batches = sorted({row["batch"] for row in rows})
    names = list(dict.fromkeys(row["contender"] for row in rows))
    cells = {(row["contender"], row["batch"]): row for row in rows}
    lines = [("total tok/s (against plain; roofline)", *(f"batch {n}" for n in batches))]
    lines += [(_label(name), *(_cell(cells.get((name, n)), shares) for n in batches)) for name in names]
    return table(lines)


def _cell(row: Row | None, shares: Shares) -> str:
    if row is None:
        return ""
    share = f"{shares[row['batch'], row['contender']][0]:.0%}"
    against = ratio(row.get("vs_plain"))
    return f"{number(row['tok_s'])} ({against}; {share})" if against else f"{number(row['tok_s'])} ({share})"


def _label(name: str) -> str:
    return LABELS.get(name, f"`{name}`")


if __name__ == "__main__":
    sys.exit(print_files(render))

"""The generated parts of docs/sizing.md and docs/scaling.md: the arithmetic of `benchmarks.sizing`, and committed
results of the simulation, of its check, and of the fleet on Ray Serve."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from apply_eval.provenance import shown_command
from apply_service.engine.replay_shapes import ReplayShape, read_shapes
from benchmarks.sizing import H200, Roofline, count_edit, predicted_s, samples_alone
from docs.tables import table

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
COUNTED = "bench-cpu-model-written.json"
"""Edits as models write them: the only committed counts of drafts that are sometimes wrong."""
MEASURED = (COUNTED, "bench-cpu-sketched.json", "bench-cpu-batches.json")
SIMULATED = "sizing_simulation.json"
CHECKED = "sizing_check.json"
RAY = "ray_check.json"
BUSY = 0.7
"""Share of its time that a device should be busy: beyond, waiting grows fast (the simulation's table)."""
CACHED_SHARES = (0.0, 0.5)


def read(name: str) -> Mapping[str, Any]:
    result: Mapping[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return result


def shapes() -> Sequence[ReplayShape]:
    """The published ones."""
    return [shape for shape in read_shapes().values() if shape.published_params is not None]


def roofline() -> str:
    rows = []
    for shape in shapes():
        roof = Roofline.of(shape, H200)
        times = [f"{1e3 * roof.pass_s(n):.3g}" for n in (128, 256, 512, 1024)]
        rows.append([f"`{shape.name}`", *times, f"{roof.knee:.0f}", f"{1 / roof.memory_s:,.0f}"])
    return table(["model", "up to 128 rows, ms", "256", "512", "1,024", "knee, rows", "undrafted tok/s"], rows)


def capacity() -> str:
    edit = count_edit(read(COUNTED))
    counted = (
        f"The mean edit of `{COUNTED}`: a prompt of {edit.prompt_tokens:,.0f} tokens, an output of "
        f"{edit.output_tokens:,.0f}, {edit.rows:,.0f} rows verified in {edit.passes:.1f} passes."
    )
    rows = []
    for shape in shapes():
        roof = Roofline.of(shape, H200)
        for cached in CACHED_SHARES:
            alone = (1e3 * edit.alone_s(roof, cached=cached), 1e3 * edit.undrafted_s(roof, cached=cached))
            most = 1 / edit.device_s(roof, cached=cached)
            cells = [*(f"{ms:,.0f}" for ms in alone), f"{most:.3g}", f"{BUSY * most:.3g}"]
            rows.append([f"`{shape.name}`", f"{cached:.0%}", *cells])
    head = ["model", "prompt cached", "alone, ms", "undrafted, ms", "most edits/s", f"edits/s at {BUSY:.0%} busy"]
    return f"{counted}\n\n{table(head, rows)}"


def check() -> str:
    """The same arithmetic with passes that a CPU's self-test measured, beside that run's own times."""
    rows = []
    for name in MEASURED:
        result = read(name)
        [target] = result["targets"]
        pass_s = {int(n): ms / 1e3 for n, ms in target["pass_ms"].items()}
        samples = samples_alone(result)
        predicted = [predicted_s(one, pass_s) for one in samples]
        measured = [(one["first_token_s"], one["decode_s"]) for one in samples]
        ratio = statistics.median(sum(a) / sum(b) for a, b in zip(predicted, measured, strict=True))
        times = [statistics.median(pair[i] for pair in pairs) for i in (0, 1) for pairs in (predicted, measured)]
        rows.append([f"`{name}`", target["name"], *(f"{value:.2f}" for value in times), f"{ratio:.2f}"])
    head = ["result", "target", "first token, s: predicted", "measured", "decode, s: predicted", "measured", "ratio"]
    return table(head, rows)


# -- the simulation ----------------------------------------------------------------------------------------------------
def _latencies(row: Mapping[str, Any]) -> list[str]:
    return [f"{1e3 * row[f'p{p}_s']:,.0f}" for p in (50, 95, 99)]


LATENCY_HEAD = ["p50, ms", "p95, ms", "p99, ms"]


def waiting() -> str:
    rows = [
        [f"{row['load']:.0%}", f"{row['edits_per_s']:.1f}", *_latencies(row), f"{row['busy']:.0%}"]
        for row in read(SIMULATED)["load"]
    ]
    return table(["load", "edits/s", *LATENCY_HEAD, "busy"], rows)


def routing() -> str:
    rows = [
        [row["routing"], *_latencies(row), f"{row['hits']:.0%}", f"{row['busy']:.0%}"]
        for row in read(SIMULATED)["routing"]
    ]
    return table(["routing", *LATENCY_HEAD, "hits", "busy"], rows)


def scaling() -> str:
    rows = [
        [row["engines"], f"{row['target']:g}", f"{row['mean_engines']:.1f}", *_latencies(row), f"{row['hits']:.0%}"]
        for row in read(SIMULATED)["scaling"]
    ]
    return table(["engines", "target", "on average", *LATENCY_HEAD, "hits"], rows)


def held_against() -> str:
    """Predicted and measured waiting, and how steady the machine was."""
    result = read(CHECKED)
    predicted, measured = result["predicted_s"], result["measured_s"]
    rows = [
        [key, f"{predicted[key]:.3f}", f"{measured[key]:.3f}", f"{predicted[key] / measured[key]:.2f}"]
        for key in predicted
    ]
    return f"{_conditions(result)}\n\n{table(['', 'predicted, s', 'measured, s', 'ratio'], rows)}"


def _conditions(result: Mapping[str, Any]) -> str:
    alone = result["alone"]
    return (
        f"`{shown_command(result['provenance']['command'])}`, {_made(result)}. "
        f"Timed by {result['clock']}. {result['edits']} edits in {result['seconds']:g} s: "
        f"{result['load']:.0%} of what one edit after the other would allow. Fitted on {alone['edits']} edits made "
        f"alone: {alone['row_ms']:.3f} ms a row, {alone['key_us']:.4f} microseconds a key that a row sees, "
        f"{alone['edit_ms']:.0f} ms an edit beside these; by them, those that came kept the engine busy for "
        f"{result['offered']:.0%} of the time. The first took "
        f"{result['alone_mean_s']:.2f} s on average before the run, and {result['alone_again_mean_s']:.2f} s after it, "
        "when the prefix cache knew some of them."
    )


def _made(result: Mapping[str, Any]) -> str:
    made = result["provenance"]
    return (
        f"{made['created'][:10]}, {made['hardware']['cpu']}, "
        f"{made['hardware']['n_cpus']} core(s), load {result['load_before']:g} before (other work on the same core(s))"
    )


# -- Ray ---------------------------------------------------------------------------------------------------------------
def ray_measured() -> str:
    result = read(RAY)
    rows = []
    for name, phase in result["phases"].items():
        hits = [f"{phase[key]:.0%}" for key in ("hit_rate", "cached_share")]
        ended = ", ".join(f"{n} {how}" for how, n in phase["ended"].items())
        again = str(phase.get("asked_again", ""))
        rows.append([name, ended, again, *hits, f"{phase['median_s']:.2f}", f"{phase['longest_s']:.1f}"])
    told = (
        f"`{shown_command(result['provenance']['command'])}`, {_made(result)}. "
        f"Two engines of the embedded model, {result['clients']} clients, {result['files']} files edited "
        f"{result['edits_a_file']} times in a row, every second edit as a stream. Hits count from a file's "
        "second edit on; the times are those of this core and say nothing of others."
    )
    head = ["phase", "ended", "asked again", "prefix-cache hits", "prompt tokens cached", "median, s", "longest, s"]
    broken = "; ".join(result["broken"]) or "none"
    return f"{told}\n\n{table(head, rows)}\nBroken promises: {broken}."


def _once_kept(part: Callable[[], str], name: str) -> Callable[[], str]:
    """The part, or a word that there is no such result."""
    return lambda: part() if (RESULTS / name).is_file() else "Not measured yet.\n"


SIZING_PARTS: Mapping[str, Callable[[], str]] = {
    "sizing-roofline": roofline,
    "sizing-capacity": capacity,
    "sizing-check": check,
    "sizing-waiting": _once_kept(waiting, SIMULATED),
    "sizing-routing": _once_kept(routing, SIMULATED),
    "sizing-scaling": _once_kept(scaling, SIMULATED),
    "sizing-held-against": _once_kept(held_against, CHECKED),
    "scaling-measured": _once_kept(ray_measured, RAY),
}

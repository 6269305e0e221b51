"""The generated parts of docs/sizing.md: the arithmetic of `benchmarks.sizing`, and results of the simulation."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from apply_service.engine.replay_shapes import ReplayShape, read_shapes
from benchmarks.sizing import H200, Roofline, count_edit, predicted_s, samples_alone
from docs.tables import table

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
COUNTED = "bench-cpu-model-written.json"
"""Edits as models write them: the only committed counts of drafts that are sometimes wrong."""
MEASURED = (COUNTED, "bench-cpu-sketched.json", "bench-cpu-batches.json")
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


SIZING_PARTS: Mapping[str, Callable[[], str]] = {
    "sizing-roofline": roofline,
    "sizing-capacity": capacity,
    "sizing-check": check,
}

"""What a user waits for with the embedded model: the start, a file of 300 lines, and long files in windows.

    python -m benchmarks.embedded.goals [--runs 5] [--torch-threads 2] [--sizes 300,2000,20000] [--out FILE.json]

Files are made up: functions of ten lines, some hunks, a snippet that shows two lines around each change and markers for
the rest.  Every answer is compared with the right one.  The start is that of a new process: imports, then weights and
self-test (kept from an earlier start, or measured anew), with the processor time beside the time on the wall.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from apply_eval.provenance import provenance
from apply_service.build import build_runtime
from apply_service.errors import ApplyError
from apply_service.pipeline import apply
from apply_service.settings import Settings
from apply_service.target import Runtime
from apply_service.types import ApplyRequest, Strategy

RESULTS = Path(__file__).parents[1] / "results" / "embedded-goals.json"
HUNKS = 2
MARKER = "# ... existing code ..."
FUNCTION = '''def load_{n}(items, start={n}):
    """Loads number {n}."""
    found = []
    limit = compute_limit_{n}(items)
    for item in items:
        if item > limit:
            found.append(load(item, {n}))
    return found


'''
MAX_WHOLE_LINES = 300
"""Longer files do not fit the context whole."""
START = """
import json, time
started = time.perf_counter(), time.process_time()
import apply_service.engine.numpy_local
from apply_service.build import build_runtime
from apply_service.settings import Settings
imported = time.perf_counter(), time.process_time()
build_runtime(Settings()).load("embedded")
loaded = time.perf_counter(), time.process_time()
print(json.dumps({"import_s": imported[0] - started[0], "load_s": loaded[0] - imported[0],
                  "total_s": loaded[0] - started[0], "processor_s": loaded[1] - started[1]}))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--torch-threads", type=int)
    parser.add_argument("--sizes", default="300,2000,20000")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    result: dict[str, Any] = {"kind": "embedded_goals", "schema_version": 1, "provenance": provenance([])}
    result |= {"torch_threads": options.torch_threads, "runs": options.runs}
    result["starts"] = measure_starts(options.runs)
    runtime = build_runtime(Settings(torch_threads=options.torch_threads, prefix_cache_mb=0))
    result["files"] = [
        row for size in options.sizes.split(",") for row in measure_file(int(size), runtime, options.runs)
    ]
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: result[name] for name in ("starts", "files")}, indent=1))
    return 0


def measure_starts(n_runs: int) -> list[dict[str, Any]]:
    """Medians of new processes: with the self-test kept, and anew.  The first start of all does not count."""
    with tempfile.TemporaryDirectory() as kept:
        warm = [start(kept) for _ in range(n_runs + 1)][1:]
    cold = []
    for _ in range(min(n_runs, 3)):  # each takes seconds
        with tempfile.TemporaryDirectory() as fresh:
            cold.append(start(fresh))
    return [
        {"self_test": name, "n": len(rows)}
        | {key: round(statistics.median(row[key] for row in rows), 3) for key in rows[0]}
        for name, rows in {"kept": warm, "measured": cold}.items()
    ]


def start(state_dir: str) -> dict[str, float]:
    """One new process that imports and loads, with its state in a folder."""
    environment = {**os.environ, "APPLY_STATE_DIR": state_dir}
    done = subprocess.run([sys.executable, "-c", START], env=environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


class Case(NamedTuple):
    original: str
    update: str
    wanted: str


def make_file(n_lines: int, n_hunks: int) -> Case:
    """A file of functions, and as many hunks spread over it: in each a line changes and one comes."""
    functions = [FUNCTION.format(n=n).split("\n") for n in range(n_lines // FUNCTION.count("\n"))]
    wanted = [list(lines) for lines in functions]
    shown = [MARKER]
    for hunk in range(n_hunks):
        number = (2 * hunk + 1) * len(functions) // (2 * n_hunks)
        lines = wanted[number]
        lines[3:4] = [f"    limit = compute_limit_{number}(items, {7 * number})", "    check(limit)"]
        shown += [*lines[:6], MARKER]
    before, after = ("".join(map("\n".join, text)) for text in (functions, wanted))
    return Case(before, "\n".join(shown) + "\n", after)


def measure_file(n_lines: int, runtime: Runtime, n_runs: int) -> list[dict[str, Any]]:
    """With the default windows, and whole where that fits."""
    case = make_file(n_lines, HUNKS)
    rows = [{"windows": "default"} | measure(case, runtime, strategy, n_runs) for strategy in ("auto", "model")]
    if n_lines <= MAX_WHOLE_LINES:
        rows.append({"windows": "never"} | measure(case, replace(runtime, windows="never"), "model", n_runs))
    return rows


def measure(case: Case, runtime: Runtime, strategy: Strategy, n_runs: int) -> dict[str, Any]:
    """Medians of an edit, after one run that does not count."""
    request = ApplyRequest(original=case.original, update=case.update, path="long.py", strategy=strategy)
    row: dict[str, Any] = {"n_lines": case.original.count("\n"), "asked": strategy}
    seconds = []
    try:
        for _ in range(n_runs + 1):
            started = time.perf_counter()
            result = apply(request, runtime)
            seconds.append(time.perf_counter() - started)
    except ApplyError as error:
        return row | {"refused": error.code}
    return row | {
        "strategy": result.strategy,
        "is_exact": result.merged_code == case.wanted,
        "n_windows": len(result.windows),
        "n_window_lines": sum(window.end_line - window.start_line for window in result.windows),
        "passes": result.stats.passes,
        "prefill_passes": result.stats.prefill_passes,
        "tokens": result.stats.completion_tokens,
        "median_s": round(statistics.median(seconds[1:]), 4),
        "n": n_runs,
    }


if __name__ == "__main__":
    sys.exit(main())

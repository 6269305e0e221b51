"""What a user waits for with the embedded model: the start, a file of 300 lines, and long files in windows.

    python -m benchmarks.embedded_goals [--runs 5] [--torch-threads 2] [--out FILE.json]

Files are made up as in `merge_time`: functions of ten lines, some hunks, a snippet that shows two lines around each
change.  Every answer is compared with the right one.  The start is that of a new process: imports, then weights and
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
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from apply_eval.provenance import provenance
from apply_service.build import build_runtime
from apply_service.errors import ApplyError
from apply_service.pipeline import apply
from apply_service.runtime import Runtime
from apply_service.settings import Settings
from apply_service.types import ApplyRequest, Strategy
from benchmarks.merge_time import Case, make_file

RESULTS = Path(__file__).parent / "results" / "embedded-goals.json"
HUNKS = 2
SIZES = (300, 2_000, 20_000)
MAX_WHOLE_LINES = 300
"""Longer files do not fit the context whole."""
MAX_COLD = 3
"""Starts whose self-test is measured anew: each takes seconds."""

START = """
import json, time
started = time.perf_counter(), time.process_time()
import apply_service.engine.loading
from apply_service.build import build_runtime
from apply_service.settings import Settings
imported = time.perf_counter(), time.process_time()
build_runtime(Settings()).load("embedded")
loaded = time.perf_counter(), time.process_time()
print(json.dumps({"import_s": imported[0] - started[0], "load_s": loaded[0] - imported[0],
                  "total_s": loaded[0] - started[0], "processor_s": loaded[1] - started[1]}))
"""


def main() -> int:
    options = _parse()
    result: dict[str, Any] = {"kind": "embedded_goals", "schema_version": 1, "provenance": provenance([])}
    result |= {"torch_threads": options.torch_threads, "runs": options.runs}
    result["starts"] = measure_starts(options.runs)
    result["files"] = measure_files(options.runs, options.torch_threads, options.sizes)
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: result[name] for name in ("starts", "files")}, indent=1))
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--torch-threads", type=int)
    parser.add_argument("--sizes", type=lambda text: tuple(map(int, text.split(","))), default=SIZES)
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


# -- the start -------------------------------------------------------------------------------------------------------
def measure_starts(n_runs: int) -> list[dict[str, Any]]:
    """Medians of new processes: with the self-test kept, and anew.  The first start of all does not count."""
    with tempfile.TemporaryDirectory() as kept:
        start(kept)
        warm = [start(kept) for _ in range(n_runs)]
    cold = []
    for _ in range(min(n_runs, MAX_COLD)):
        with tempfile.TemporaryDirectory() as fresh:
            cold.append(start(fresh))
    return [{"self_test": "kept", **medians(warm)}, {"self_test": "measured", **medians(cold)}]


def start(state_dir: str) -> dict[str, float]:
    """One new process that imports and loads, with its state in a folder."""
    environment = {**os.environ, "APPLY_STATE_DIR": state_dir}
    done = subprocess.run([sys.executable, "-c", START], env=environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def medians(rows: list[dict[str, float]]) -> dict[str, float]:
    """The median of every field."""
    return {name: round(statistics.median(row[name] for row in rows), 3) for name in rows[0]} | {"n": len(rows)}


# -- files -----------------------------------------------------------------------------------------------------------
def measure_files(n_runs: int, threads: int | None, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """Every size: with the default windows, and whole where that fits."""
    runtime = build_runtime(Settings(torch_threads=threads, prefix_cache_mb=0))
    rows = []
    for n_lines in sizes:
        case = make_file(n_lines, HUNKS, name=f"{n_lines}-lines", seed=1, n_runs=n_runs)
        for strategy in ("auto", "model"):
            rows.append(measure_file(case, runtime, strategy, {"windows": "default"}))
        if n_lines <= MAX_WHOLE_LINES:
            rows.append(measure_file(case, replace(runtime, windows="never"), "model", {"windows": "never"}))
    return rows


def measure_file(case: Case, runtime: Runtime, strategy: Strategy, more: Mapping[str, str]) -> dict[str, Any]:
    """Medians of an edit, after one run that does not count."""
    request = ApplyRequest(original=case.original, update=case.update, path="long.py", strategy=strategy)
    row: dict[str, Any] = {"n_lines": case.original.count("\n"), "asked": strategy, **more}
    try:
        result = apply(request, runtime)
        seconds = [_timed(request, runtime) for _ in range(case.n_runs)]
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
        "median_s": round(statistics.median(seconds), 4),
        "n": len(seconds),
    }


def _timed(request: ApplyRequest, runtime: Runtime) -> float:
    started = time.perf_counter()
    apply(request, runtime)
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())

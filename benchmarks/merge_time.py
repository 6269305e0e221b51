"""What the predicted merge costs: a long file with eight hunks, a very long one, and one huge line, on one core.

    python -m benchmarks.merge_time [--runs 20] [--seed 1] [--case NAME] [--out FILE.json]

Files and edits are made up from the seed; each snippet shows two lines around a change and markers for the rest.  Every
answer is compared with the right one; a typed refusal is a result, too.  Cold: the caches of trees are emptied.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apply_eval.provenance import provenance
from apply_service.edits.lazy_snippet import LazySnippet
from apply_service.errors import ApplyError
from apply_service.syntax.scopes import cached_scopes
from apply_service.syntax.trees import parse
from apply_service.types import Prediction

MARKER = "# ... existing code ..."
LINES_A_FUNCTION = 10
HUGE = 5_000_000
SHORT_RUNS = 3
"""Runs of the cases that take seconds."""


@dataclass(frozen=True, slots=True)
class Case:
    """One edit and the text that it asks for."""

    name: str
    original: str
    update: str
    wanted: str
    n_runs: int


def main() -> int:
    options = _parse()
    cases = [make(options.seed, options.runs) for name, make in CASES.items() if options.case in (None, name)]
    rows = [_measure(case) for case in cases]
    result: dict[str, Any] = {"kind": "merge_time", "schema_version": 1}
    result["provenance"] = provenance([], seed=options.seed)
    result["cases"] = rows
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(rows, indent=1))
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


# -- cases -----------------------------------------------------------------------------------------------------------
def make_file(n_lines: int, n_hunks: int, *, name: str, seed: int, n_runs: int) -> Case:
    """A file of functions, and as many hunks spread over it: in each a line changes and one comes."""
    rng = random.Random(seed)
    functions = [_function(n, rng) for n in range(n_lines // LINES_A_FUNCTION)]
    wanted = [list(lines) for lines in functions]
    shown = [MARKER]
    for hunk in range(n_hunks):
        number = (2 * hunk + 1) * len(functions) // (2 * n_hunks)
        lines = wanted[number]
        lines[3:4] = [f"    limit = compute_limit_{number}(items, {rng.randrange(1000)})", "    check(limit)"]
        shown += [*lines[:6], MARKER]
    return Case(name, _join(functions), "\n".join(shown) + "\n", _join(wanted), n_runs)


def _function(number: int, rng: random.Random) -> list[str]:
    word = rng.choice(("load", "store", "merge", "split", "count", "trace"))
    return [
        f"def {word}_{number}(items, start={rng.randrange(1000)}):",
        f'    """Makes {word} number {number}."""',
        "    found = []",
        f"    limit = compute_limit_{number}(items)",
        "    for item in items:",
        "        if item > limit:",
        f"            found.append({word}(item, {rng.randrange(1000)}))",
        "    return found",
        "",
        "",
    ]


def _join(functions: list[list[str]]) -> str:
    return "\n".join(line for lines in functions for line in lines) + "\n"


def make_line(*, name: str, seed: int, is_changed: bool) -> Case:
    """One huge line between short ones; the edit changes it, or only the line above."""
    rng = random.Random(seed)
    numbers = ",".join(str(rng.randrange(10**9)) for _ in range(HUGE // 10))
    huge = f"const data = [{numbers}];"
    new = huge.replace("[", "[0,", 1) if is_changed else huge
    original = f"const first = 1;\n{huge}\nconst last = 3;\n"
    wanted = f"const first = 2;\n{new}\nconst last = 3;\n"
    update = wanted if is_changed else "const first = 2;\n// ... existing code ...\nconst last = 3;\n"
    return Case(name, original, update, wanted, SHORT_RUNS)


CASES: dict[str, Callable[[int, int], Case]] = {
    "1500-lines": lambda seed, runs: make_file(1500, 8, name="1500-lines", seed=seed, n_runs=runs),
    "20000-lines": lambda seed, _: make_file(20_000, 8, name="20000-lines", seed=seed, n_runs=SHORT_RUNS),
    "huge-line-kept": lambda seed, _: make_line(name="huge-line-kept", seed=seed, is_changed=False),
    "huge-line-changed": lambda seed, _: make_line(name="huge-line-changed", seed=seed, is_changed=True),
}
"""Each makes a case from the seed and the wanted number of runs."""


# -- measuring -------------------------------------------------------------------------------------------------------
def _measure(case: Case) -> dict[str, Any]:
    """Medians of processor and wall time, after one run that does not count."""
    answer, *_ = _run(case)
    runs = [_run(case) for _ in range(case.n_runs)]
    row = {"case": case.name, "n_lines": case.original.count("\n"), "n_characters": len(case.original)}
    row |= {"n_runs": case.n_runs, "median_cpu_ms": round(statistics.median(cpu for _, cpu, _ in runs), 1)}
    row |= {"median_ms": round(statistics.median(wall for *_, wall in runs), 1)}
    row |= {"max_ms": round(max(wall for *_, wall in runs), 1)}
    if isinstance(answer, ApplyError):
        return row | {"refused": answer.code}
    return row | {"is_exact": answer.text == case.wanted, "certainty": answer.certainty.value}


def _run(case: Case) -> tuple[Prediction | ApplyError, float, float]:
    """What came of it, and its milliseconds of processor and wall time."""
    parse.cache_clear()
    cached_scopes.cache_clear()
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    try:
        answer: Prediction | ApplyError = LazySnippet().predict(case.original, case.update, language=None, path=None)
    except ApplyError as refusal:
        answer = refusal
    return answer, (time.process_time() - cpu_s) * 1e3, (time.perf_counter() - wall_s) * 1e3


if __name__ == "__main__":
    sys.exit(main())

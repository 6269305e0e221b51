"""What the checks cost: milliseconds of processor time an answer, by check and by language, scaled to 1,500 lines.

    python -m benchmarks.checks --data F.jsonl[.xz] [--limit 100] [--min-lines 500] [--seed 1] [--out FILE.json]

The tree and scopes of the original are in the cache, as they are after the merge; all else is cold.  The best of three
runs counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from apply_eval.provenance import provenance
from apply_service.checks import run_checks
from apply_service.checks.line_changes import find_changes
from apply_service.registry import CHECKS
from apply_service.syntax.scopes import cached_scopes
from apply_service.syntax.trees import parse
from apply_service.types import Certainty
from benchmarks.check_cases import Case, read_cases

LINES = 1500
RUNS = 3


def main() -> int:
    options = _parse()
    cases = list(read_cases(options.data, limit=options.limit, seed=options.seed, min_lines=options.min_lines))
    if not cases:
        sys.exit(f"no edit of a whole file of at least {options.min_lines} lines could be sketched")
    everything: defaultdict[str, list[float]] = defaultdict(list)
    by_check: defaultdict[str, list[float]] = defaultdict(list)
    for case in cases:
        everything[case.language or "unknown"].append(_time(case, list(CHECKS)))
        for name in CHECKS:
            by_check[name].append(_time(case, [name]))
    result: dict[str, Any] = {"kind": "checks", "schema_version": 1, "lines": LINES}
    result["provenance"] = provenance([options.data], seed=options.seed)
    result["all_ms"] = statistics.median(ms for times in everything.values() for ms in times)
    result["by_language_ms"] = _medians(everything)
    result["by_check_ms"] = _medians(by_check)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: result[name] for name in ("all_ms", "by_language_ms", "by_check_ms")}, indent=1))
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--min-lines", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def _medians(times: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    return {
        name: {"n": len(values), "median": round(statistics.median(values), 2), "max": round(max(values), 2)}
        for name, values in sorted(times.items())
    }


def _time(case: Case, names: Sequence[str]) -> float:
    """Milliseconds for the right answer of a case, as if its file had `LINES` lines."""
    item = case.answer(case.after, Certainty.LIKELY)
    return min(_once(lambda: run_checks(item, names), case) for _ in range(RUNS)) * LINES / item.original.count("\n")


def _once(run: Callable[[], object], case: Case) -> float:
    parse.cache_clear()
    find_changes.cache_clear()
    cached_scopes.cache_clear()
    cached_scopes(case.before, case.language)
    started_s = time.process_time()
    run()
    return (time.process_time() - started_s) * 1e3


if __name__ == "__main__":
    sys.exit(main())

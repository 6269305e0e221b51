"""How often the checks speak: of right answers (false alarms) and of spoiled ones (detection), by check and spoiler.

    python -m benchmarks.check_rates --data F.jsonl[.xz] [--limit 2000] [--spoiled 500] [--seed 1] [--out FILE.json]

The data set gives real edits of whole files; each is sketched as a lazy snippet whose true merge is known.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from apply_eval.provenance import provenance
from apply_service.checks import run_checks
from apply_service.protocols import CheckInput
from apply_service.types import Certainty, Verdict
from benchmarks.check_cases import SPOILERS, Case, read_cases


def main() -> int:
    options = _parse()
    cases = list(read_cases(options.data, limit=options.limit, seed=options.seed))
    if not cases:
        sys.exit("no edit of a whole file could be sketched")
    result: dict[str, Any] = {"kind": "check_rates", "schema_version": 1}
    result["provenance"] = provenance([options.data], seed=options.seed)
    result["n_right"] = len(cases)
    result["right"] = {certainty.value: _false_alarms(cases, certainty) for certainty in Certainty}
    result["spoiled"] = {
        certainty.value: _detection(cases[: options.spoiled], certainty, options.seed) for certainty in Certainty
    }
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    _print(result)
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=2000)
    parser.add_argument("--spoiled", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def _findings(item: CheckInput) -> list[Verdict]:
    return [verdict for verdict in run_checks(item) if not verdict.is_pass]


def _kinds(verdicts: Iterable[Verdict]) -> set[str]:
    return {f"{verdict.check}/{verdict.severity}" for verdict in verdicts}


def _false_alarms(cases: Sequence[Case], certainty: Certainty) -> dict[str, float]:
    counts: Counter[str] = Counter()
    for case in cases:
        counts.update(_kinds(_findings(case.answer(case.after, certainty))))
    return {kind: count / len(cases) for kind, count in sorted(counts.items())}


def _detection(cases: Sequence[Case], certainty: Certainty, seed: int) -> dict[str, dict[str, Any]]:
    rng = random.Random(seed)
    totals: Counter[str] = Counter()
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for case in cases:
        if _findings(case.answer(case.after, certainty)):
            continue  # a false alarm would count as a detection
        for name, spoil in SPOILERS.items():
            merged = spoil(case, rng)
            if merged is None or merged == case.after:
                continue
            verdicts = _findings(case.answer(merged, certainty))
            totals[name] += 1
            found[name].update(_kinds(verdicts))
            found[name]["any"] += bool(verdicts)
            found[name]["any error"] += any(verdict.severity == "error" for verdict in verdicts)
    return {name: {"n": n, **{kind: k / n for kind, k in found[name].most_common()}} for name, n in totals.items()}


def _print(result: dict[str, Any]) -> None:
    print(f"right answers: {result['n_right']}")
    for certainty, rates in result["right"].items():
        print(f"  {certainty:8}", ", ".join(f"{kind} {rate:.2%}" for kind, rate in rates.items()) or "no finding")
    for certainty, spoilers in result["spoiled"].items():
        print(f"spoiled answers, prediction {certainty}:")
        for name, row in spoilers.items():
            print(f"  {name:16} n={row['n']:4}  found {row['any']:.1%}  as an error {row['any error']:.1%}")


if __name__ == "__main__":
    sys.exit(main())

"""What many clients at once do to the service: no 5xx, no slot that stays taken, flat memory, 429 where it is too much.

    python -m benchmarks.load [--minutes 10] [--clients 64] [--seed 1] [--data F.jsonl] [--out FILE.json]
                              [-- options of `apply-service serve`]
    python -m docs.generate

The result is kept in benchmarks/results/load.json, and docs/operations.md shows it.

Phase *load*: clients that wait, stream, set short deadlines and go away at random, on a queue that holds them all.
Phase *overload*: the same number of patient clients on a server whose queue holds few of them.  After each the server
must be idle again and answer one more edit.  The exit code says whether every promise was kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apply_eval.cli import OWN_EDITS
from apply_eval.datasets import read_records
from apply_eval.provenance import provenance, safe_options
from apply_service.clients.http import HttpClient
from apply_service.types import ApplyRequest
from benchmarks.load_clients import CLIENT_TIMEOUT_S, SHARES, Load, run_load
from benchmarks.load_report import MAX_GROWTH, faults, latency_table, stage_table, summarise
from benchmarks.server_process import Watch, read_gauges, serving

RESULT = Path(__file__).parent / "results" / "load.json"
OVERLOAD_SHARE = 0.2
"""The second phase lasts so much of the first."""

OVERLOAD_OPTIONS = ("--queue-limit", "4", "--max-active", "4")
IDLE_TIMEOUT_S = 30.0
BLOCK = "<<<<<<< SEARCH\na = 1\n=======\na = 10\n>>>>>>> REPLACE\n"
ONE_EDIT = ApplyRequest(original="a = 1\nb = 2\n", update=BLOCK, path="a.py")


def main() -> int:
    options = _parse()
    records = read_records(options.data)
    seconds = options.minutes * 60
    load = Load(records, options.clients, seconds, options.seed, SHARES)
    over = Load(records, options.clients, seconds * OVERLOAD_SHARE, options.seed, {"whole": 1.0})
    patience = ("--default-timeout-s", str(CLIENT_TIMEOUT_S))
    room = ("--queue-limit", str(max(64, 2 * options.clients)))
    phases = {
        "load": _run_phase(load, [*patience, *room, *options.serve]),
        "overload": _run_phase(over, [*patience, *options.serve, *OVERLOAD_OPTIONS]),
    }
    broken = list(_broken(phases))
    result = {
        "kind": "load",
        "schema_version": 1,
        "provenance": provenance([options.data], seed=options.seed),
        "clients": options.clients,
        "minutes": options.minutes,
        "shares": SHARES,
        "phases": phases,
        "broken": broken,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result) + "\n", encoding="utf-8")
    for name, phase in phases.items():
        print(f"\n## {name}\n\n{latency_table(phase)}\n\n{stage_table(phase)}\n\n{json.dumps(phase['ended'])}")
        print(_line(phase))
    print("\nbroken: " + ("; ".join(broken) or "nothing"))
    return 1 if broken else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, default=OWN_EDITS)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("serve", nargs="*", metavar="-- OPTION", help="options of `apply-service serve`")
    return parser.parse_args()


def _run_phase(load: Load, options: Sequence[str]) -> dict[str, Any]:
    """What was measured, and how the server stopped afterwards: a bad end does not cost the measurement."""
    summary: dict[str, Any] = {"options": safe_options(options), "stopped": "gracefully"}
    try:
        with serving(options) as url:
            summary |= _measure(url, load)
    except RuntimeError as error:
        if "faults" not in summary:
            raise
        summary["stopped"] = str(error)
    return summary


def _measure(url: str, load: Load) -> dict[str, Any]:
    HttpClient(url).apply(ONE_EDIT)  # whatever is made on first use is made now
    with Watch(url) as watch:
        samples = asyncio.run(run_load(url, load))
    print(f"{len(samples)} requests ended", file=sys.stderr, flush=True)
    return {
        **summarise(samples, watch.gauges),
        "faults": _count(faults(samples)),
        "is_idle_after": _becomes_idle(url),
        "answers_after": HttpClient(url).apply(ONE_EDIT).merged_code == "a = 10\nb = 2\n",
    }


def _count(names: Sequence[str]) -> dict[str, int]:
    return {name: names.count(name) for name in sorted(set(names))}


def _becomes_idle(url: str) -> bool:
    """Whether no edit waits or holds a slot, soon after the last client has gone."""
    started = time.monotonic()
    while time.monotonic() - started < IDLE_TIMEOUT_S:
        gauges = read_gauges(url, started)
        if gauges.queue_length == gauges.n_active == 0:
            return True
        time.sleep(0.2)
    return False


def _broken(phases: dict[str, dict[str, Any]]) -> Sequence[str]:
    """The promises that were not kept, in words."""
    found = []
    for name, phase in phases.items():
        found += [f"{name}: {n} x {fault}" for fault, n in phase["faults"].items()]
        if not phase["is_idle_after"]:
            found.append(f"{name}: a slot stays taken")
        if phase["stopped"] != "gracefully":
            found.append(f"{name}: {phase['stopped']}")
        if not phase["answers_after"]:
            found.append(f"{name}: a wrong answer afterwards")
    growth = phases["load"]["memory_mb"]
    if growth is not None and growth["growth"] > MAX_GROWTH * growth["first"]:
        found.append(f"memory grew by {growth['growth']} MiB")
    if not any(ending.startswith("429") for ending in phases["overload"]["ended"]):
        found.append("overload: nobody was refused")
    return found


def _line(phase: dict[str, Any]) -> str:
    return (
        f"{phase['answers_per_s']} answers/s; memory MiB {phase['memory_mb']}; "
        f"most active {phase['max_active']}, most waiting {phase['max_queue_length']}"
    )


if __name__ == "__main__":
    sys.exit(main())

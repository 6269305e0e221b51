"""What HTTP costs on top of the pipeline: milliseconds between what a client waits and what the pipeline worked.

    python -m benchmarks.http_overhead [--requests 300] [--data F.jsonl] [--out FILE.json]
                                       [-- options of `apply-service serve`]

One client, one connection kept open, one request after another against a server process of its own.  The overhead of a
request is its latency less the pipeline's own time (`timings_s.total_s` of the same answer), so it holds everything
else: socket, HTTP, layers, JSON both ways, hashing of keys, the queue, and the two hand-overs between threads.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from apply_eval.cli import OWN_EDITS
from apply_eval.datasets import read_records
from apply_eval.metrics.intervals import quantile_interval
from apply_eval.provenance import provenance
from benchmarks.server_process import serving

GOAL_MS = 3.0
N_WARM = 20
LONG_LINES = 5000
SEED = 1
HEADERS = {"Content-Type": "application/json"}


class Case(NamedTuple):
    """A kind of request, and its bodies, which take turns."""

    name: str
    bodies: tuple[bytes, ...]
    n_requests: int


class Timing(NamedTuple):
    """One request, in milliseconds."""

    latency_ms: float
    pipeline_ms: float

    @property
    def overhead_ms(self) -> float:
        return self.latency_ms - self.pipeline_ms


def main() -> int:
    options = _parse()
    with serving(options.serve) as url:
        cases = {case.name: _row(_run(url, case)) for case in _cases(options)}
    result = {
        "kind": "http_overhead",
        "schema_version": 1,
        "provenance": provenance([options.data], seed=SEED),
        "options": options.serve,
        "goal_ms": GOAL_MS,
        "cases": cases,
    }
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(_table(cases))
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--data", type=Path, default=OWN_EDITS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("serve", nargs="*", metavar="-- OPTION", help="options of `apply-service serve`")
    return parser.parse_args()


def _cases(options: argparse.Namespace) -> Iterator[Case]:
    small = {"original": "a = 1\nb = 2\n", "update": _replacement("a = 1", "a = 10"), "path": "a.py"}
    lines = "".join(f"value_{i} = {i}\n" for i in range(LONG_LINES))
    large = {"original": lines, "update": _replacement("value_7 = 7", "value_7 = 8"), "path": "a.py"}
    yield Case("exact, 2 lines", (_encode(small),), options.requests)
    yield Case("exact, 2 lines, streamed", (_encode(small | {"stream": True}),), options.requests)
    yield Case(f"exact, {LONG_LINES} lines", (_encode(large),), max(20, options.requests // 5))
    records = read_records(options.data)
    edits = ({"original": r.before, "update": r.update, "path": r.path} for r in records)
    yield Case("model, the project's own edits", tuple(map(_encode, edits)), max(20, options.requests // 5))


def _replacement(old: str, new: str) -> str:
    return f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"


def _encode(body: Mapping[str, object]) -> bytes:
    return json.dumps(body).encode()


def _run(url: str, case: Case) -> list[Timing]:
    """Timings after the warm-up; requests that end in an error have no time of their own and are left out."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=120)
    connection.connect()
    n_all = N_WARM + case.n_requests
    timings = [_time(connection, case.bodies[i % len(case.bodies)]) for i in range(n_all)]
    connection.close()
    return [timing for timing in timings[N_WARM:] if timing is not None]


def _time(connection: HTTPConnection, body: bytes) -> Timing | None:
    started = time.perf_counter()
    connection.request("POST", "/v1/apply", body, HEADERS)
    response = connection.getresponse()
    answer = response.read()
    latency_ms = (time.perf_counter() - started) * 1000
    if response.status != 200:
        return None
    if answer.startswith(b"event:"):
        answer = answer.rstrip().rpartition(b"data: ")[2]
    return Timing(latency_ms, json.loads(answer)["timings_s"]["total_s"] * 1000)


def _row(timings: Sequence[Timing]) -> dict[str, Any]:
    overheads = sorted(timing.overhead_ms for timing in timings)
    interval = quantile_interval(overheads, 0.5, seed=SEED)
    return {
        "n": len(timings),
        "overhead_ms": round(statistics.median(overheads), 3),
        "interval_ms": None if interval is None else [round(interval.low, 3), round(interval.high, 3)],
        "p99_overhead_ms": round(overheads[int(len(overheads) * 0.99)], 3),
        "latency_ms": round(statistics.median(timing.latency_ms for timing in timings), 3),
        "pipeline_ms": round(statistics.median(timing.pipeline_ms for timing in timings), 3),
    }


def _table(cases: Mapping[str, Mapping[str, Any]]) -> str:
    rows = ["| request | n | overhead ms | 95% interval | p99 | latency | pipeline |", "| --- " * 7 + "|"]
    for name, row in cases.items():
        interval = "" if row["interval_ms"] is None else "{} to {}".format(*row["interval_ms"])
        cells = (row["n"], row["overhead_ms"], interval, row["p99_overhead_ms"], row["latency_ms"], row["pipeline_ms"])
        rows.append(f"| {name} | {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())

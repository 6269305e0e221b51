"""What HTTP costs on top of the engine: a client's latency less that of the same request without HTTP.

    python -m benchmarks.http_overhead [--requests 300] [--data F.jsonl] [--out FILE.json]
                                       [-- options of `apply-service serve`]
    python -m docs.generate

One client, one connection kept open, against a server process of its own.  Every request is made twice in turn: over
HTTP, and to a service in this process with the same settings (`Service.apply`: queue, engine thread, pipeline).  The
overhead is the difference of the two, so it holds socket, HTTP, layers, and JSON both ways, and a slow moment of the
machine falls on both.  Where a model decodes for seconds the difference is noise; there `besides` tells more: the
latency less the time that the same answer states (`timings_s.total_s`), queue and hand-over of threads included.
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
from apply_eval.provenance import provenance, safe_options
from apply_service.build import build_runtime, open_service
from apply_service.cli import build_parser
from apply_service.clients.wire import encode_request
from apply_service.errors import ApplyError
from apply_service.service import Service
from apply_service.settings import Settings, load_settings, setting_specs
from apply_service.types import ApplyRequest
from benchmarks.server_process import serving

RESULT = Path(__file__).parent / "results" / "http_overhead.json"
GOAL_MS = 3.0
N_WARM = 20
LONG_LINES = 5000
SEED = 1
MODEL_CASE = "model, the project's own edits"
"""A model decodes for so long that the difference of two runs says nothing of what HTTP adds."""
HEADERS = {"Content-Type": "application/json"}


class Case(NamedTuple):
    """A kind of request, and its requests, which take turns."""

    name: str
    requests: tuple[ApplyRequest, ...]
    n_requests: int
    is_streamed: bool = False


class Timing(NamedTuple):
    """One request, both ways, in milliseconds."""

    http_ms: float
    stated_ms: float
    service_ms: float

    @property
    def besides_ms(self) -> float:
        return self.http_ms - self.stated_ms

    @property
    def overhead_ms(self) -> float:
        return self.http_ms - self.service_ms


def main() -> int:
    options = _parse()
    settings = _settings(options.serve)
    runtime = build_runtime(settings)
    runtime.load(settings.model)
    with serving(options.serve) as url, open_service(runtime, settings) as service:
        cases = {case.name: _row(_run(url, service, case)) for case in _cases(options)}
    result = {
        "kind": "http_overhead",
        "schema_version": 1,
        "provenance": provenance([options.data], seed=SEED),
        "options": safe_options(options.serve),
        "goal_ms": GOAL_MS,
        "cases": cases,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(overhead_table(cases))
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--data", type=Path, default=OWN_EDITS)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("serve", nargs="*", metavar="-- OPTION", help="options of `apply-service serve`")
    return parser.parse_args()


def _settings(options: Sequence[str]) -> Settings:
    """What the server makes of the options."""
    arguments = build_parser().parse_args(["serve", *options])
    given = {spec.name: getattr(arguments, spec.name, None) for spec in setting_specs()}
    return load_settings(given, config=arguments.config)


def _cases(options: argparse.Namespace) -> Iterator[Case]:
    small = ApplyRequest("a = 1\nb = 2\n", _replacement("a = 1", "a = 10"), path="a.py")
    lines = "".join(f"value_{i} = {i}\n" for i in range(LONG_LINES))
    large = ApplyRequest(lines, _replacement("value_7 = 7", "value_7 = 8"), path="a.py")
    yield Case("exact, 2 lines", (small,), options.requests)
    yield Case("exact, 2 lines, streamed", (small,), options.requests, is_streamed=True)
    yield Case(f"exact, {LONG_LINES} lines", (large,), max(20, options.requests // 5))
    records = read_records(options.data)
    edits = tuple(ApplyRequest(record.before, record.update, path=record.path) for record in records)
    yield Case(MODEL_CASE, edits, max(len(edits), options.requests // 5))


def _replacement(old: str, new: str) -> str:
    return f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"


def _run(url: str, service: Service, case: Case) -> list[Timing]:
    """Timings after the warm-up; requests that end in an error have none."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=120)
    connection.connect()
    n_all = N_WARM + case.n_requests
    turns = [_time_both(connection, service, case, turn) for turn in range(n_all)]
    connection.close()
    return [timing for timing in turns[N_WARM:] if timing is not None]


def _time_both(connection: HTTPConnection, service: Service, case: Case, turn: int) -> Timing | None:
    """One request both ways, each way first in every other turn."""
    request = case.requests[turn % len(case.requests)]
    body = json.dumps({**encode_request(request), "stream": case.is_streamed}).encode()
    if turn % 2 == 0:
        over_http, service_ms = _time_http(connection, body), _time_service(service, request)
    else:
        service_ms, over_http = _time_service(service, request), _time_http(connection, body)
    return None if over_http is None or service_ms is None else Timing(*over_http, service_ms)


def _time_http(connection: HTTPConnection, body: bytes) -> tuple[float, float] | None:
    """Latency and the time that the answer states; None of an error."""
    started = time.perf_counter()
    connection.request("POST", "/v1/apply", body, HEADERS)
    response = connection.getresponse()
    answer = response.read()
    latency_ms = (time.perf_counter() - started) * 1000
    if response.status != 200:
        return None
    if (response.getheader("Content-Type") or "").startswith("text/event-stream"):
        answer = answer.rstrip().rpartition(b"\ndata: ")[2]
    final = json.loads(answer)
    return latency_ms, final["timings_s"]["total_s"] * 1000


def _time_service(service: Service, request: ApplyRequest) -> float | None:
    started = time.perf_counter()
    try:
        service.apply(request)
    except ApplyError:
        return None
    return (time.perf_counter() - started) * 1000


def _row(timings: Sequence[Timing]) -> dict[str, Any]:
    overheads = sorted(timing.overhead_ms for timing in timings)
    interval = quantile_interval(overheads, 0.5, seed=SEED)
    return {
        "n": len(timings),
        "overhead_ms": round(statistics.median(overheads), 3),
        "interval_ms": None if interval is None else [round(interval.low, 3), round(interval.high, 3)],
        "p99_overhead_ms": round(overheads[int(len(overheads) * 0.99)], 3),
        "besides_ms": round(statistics.median(timing.besides_ms for timing in timings), 3),
        "http_ms": round(statistics.median(timing.http_ms for timing in timings), 3),
        "service_ms": round(statistics.median(timing.service_ms for timing in timings), 3),
    }


def overhead_table(cases: Mapping[str, Mapping[str, Any]]) -> str:
    """The cases as Markdown."""
    rows = ["| request | n | overhead ms | 95% interval | p99 | besides | over HTTP | without |", "| --- " * 8 + "|"]
    for name, row in cases.items():
        interval = "" if row["interval_ms"] is None else "{} to {}".format(*row["interval_ms"])
        difference = (row["overhead_ms"], interval, row["p99_overhead_ms"])
        both = (row["http_ms"], row["service_ms"])
        if name == MODEL_CASE:
            difference, both = ("", "", ""), ("", "")
        cells = (row["n"], *difference, row["besides_ms"], *both)
        rows.append(f"| {name} | {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())

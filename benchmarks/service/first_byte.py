"""How long the first byte of a streamed answer takes, and the last one, with the embedded model.

    python -m benchmarks.service.first_byte --data F.jsonl [--lines 450 550] [--edits 11] [--rounds 5] [--in-process]

Asks `/v1/chat/completions` of a warm server on loopback for edits of files of so many lines.  A time is the least
of all rounds, as a busy machine only adds to it.  `--in-process` runs the pipeline in this process instead, and
counts its processor time, which other programs do not add to.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx2

from apply_eval.datasets import EditRecord, read_records
from apply_service.build import build_runtime
from apply_service.pipeline import run_alone
from apply_service.settings import Settings
from apply_service.types import ApplyRequest
from benchmarks.decoding.tables import table
from benchmarks.service.server import serving

LIMIT_MS = 150
Times = tuple[float, float]
"""Seconds to the first byte and to the last one."""
Ask = Callable[[EditRecord], Times]


def ask_server(http: httpx2.Client, record: EditRecord) -> Times:
    tagged = f"<code>{record.before}</code>\n<update>{record.update}</update>"
    body = {"messages": [{"role": "user", "content": tagged}], "stream": True}
    body["apply_service"] = {"path": record.path, "on_verdict": {"doubt": "warn"}}
    began, first = time.perf_counter(), None
    with http.stream("POST", "/v1/chat/completions", json=body) as answer:
        for _ in answer.iter_raw():
            first = first or time.perf_counter() - began
    return first or float("nan"), time.perf_counter() - began


def ask_pipeline() -> Ask:
    runtime = build_runtime(Settings(prefix_cache_mb=0))
    runtime.load(runtime.models[0])

    def ask(record: EditRecord) -> Times:
        request = ApplyRequest(original=record.before, update=record.update, path=record.path)
        began = time.process_time()
        events = run_alone(request, runtime)
        next(events)
        first = time.process_time() - began
        for _ in events:
            pass
        return first, time.process_time() - began

    return ask


def measure(ask: Ask, records: Sequence[EditRecord], rounds: int) -> Iterator[tuple[EditRecord, Times]]:
    """The least times of each edit."""
    for record in records:
        found = [ask(record) for _ in range(rounds)]
        yield record, (min(first for first, _ in found), min(last for _, last in found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--lines", type=int, nargs=2, default=(450, 550))
    parser.add_argument("--edits", type=int, default=11)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--in-process", action="store_true")
    options = parser.parse_args()
    low, high = options.lines
    records = [one for one in read_records(options.data) if one.update and low <= one.before.count("\n") <= high]
    records = random.Random(options.seed).sample(records, min(options.edits, len(records)))
    if options.in_process:
        found = list(measure(ask_pipeline(), records, options.rounds))
    else:
        with serving([]) as server, httpx2.Client(base_url=server.url, timeout=600, trust_env=False) as http:
            ask_server(http, records[0])
            found = list(measure(lambda record: ask_server(http, record), records, options.rounds))
    rows = [
        (str(record.before.count("\n")), f"{1000 * first:.0f}", f"{1000 * last:.0f}") for record, (first, last) in found
    ]
    firsts = sorted(1000 * first for _, (first, _) in found)
    print(table([("lines", "first byte ms", "last byte ms"), *rows]))
    n_within = sum(first <= LIMIT_MS for first in firsts)
    print(
        f"\nmedian {statistics.median(firsts):.0f} ms, longest {firsts[-1]:.0f} ms, {n_within} of {len(firsts)} within"
    )
    print(f"{LIMIT_MS} ms; load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

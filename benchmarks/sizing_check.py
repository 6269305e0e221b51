"""The simulation held against a real server: one engine, arrivals at random, predicted and measured waiting.

    python -m benchmarks.sizing_check [--seconds 120] [--load 0.4] [--in-process]
                                      [--out benchmarks/results/sizing_check.json]

First, edits one at a time: what a row of a pass costs, what a key that it sees, and what an edit beside these (least
squares).  Then others of like sizes arrive as a Poisson process, whether or not earlier ones are answered.  The
simulation gets the costs, the times of arrival and the token counts of these edits, but none of their times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import httpx2

from apply_eval.cli import OWN_EDITS
from apply_eval.datasets import EditRecord, read_records
from apply_eval.provenance import provenance
from benchmarks.load_clients import CLIENT_TIMEOUT_S
from benchmarks.server_process import serving
from benchmarks.sizing_fit import Asked, fit, predict, spread
from benchmarks.sizing_simulation import poisson

WARM_UP = 3


async def ask(http: httpx2.AsyncClient, record: EditRecord, started: float) -> Asked | None:
    """One edit by the model; None where it is refused."""
    at_s = time.monotonic() - started
    body = {"original": record.before, "update": record.update, "path": record.path, "strategy": "model"}
    answer = await http.post("/v1/apply", json=body)
    seconds = time.monotonic() - started - at_s
    if answer.status_code != 200:
        return None
    result = answer.json()
    usage = result["usage"]
    drafted = usage["accepted_prediction_tokens"] + usage["rejected_prediction_tokens"]
    to_read = usage["prompt_tokens"] - usage["cached_prompt_tokens"]
    return Asked(
        at_s,
        seconds,
        usage["prompt_tokens"],
        usage["cached_prompt_tokens"],
        usage["completion_tokens"],
        usage["rejections"],
        to_read + drafted + usage["passes"],
        max(1, len(result["windows"])),
    )


async def one_at_a_time(url: str, records: Sequence[EditRecord]) -> list[Asked]:
    async with _client(url) as http:
        started = time.monotonic()
        told = [await ask(http, record, started) for record in [*records[:WARM_UP], *records]]
    return [one for one in told[WARM_UP:] if one is not None]


async def as_they_come(
    url: str, records: Sequence[EditRecord], times: Sequence[float], dice: random.Random
) -> list[Asked]:
    """An edit at each of the times, chosen at random."""
    told: list[Asked | None] = []
    async with _client(url) as http, asyncio.TaskGroup() as group:
        started = time.monotonic()

        async def arrive(at_s: float, record: EditRecord) -> None:
            await asyncio.sleep(at_s)
            told.append(await ask(http, record, started))

        for at_s in times:
            group.create_task(arrive(at_s, dice.choice(records)))
    return sorted((one for one in told if one is not None), key=lambda one: one.at_s)


def _client(url: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=url, timeout=CLIENT_TIMEOUT_S, trust_env=False)


Run = tuple[list[Asked], list[Asked], list[Asked]]
"""Edits made alone, others as they came, and the first ones alone again."""


def over_http(known: Sequence[EditRecord], new: Sequence[EditRecord], options: argparse.Namespace) -> Run:
    """With a server in a process of its own."""
    with serving(["--torch-threads", "1", *options.serve]) as url:
        alone = asyncio.run(one_at_a_time(url, known))
        times, dice = arrivals(alone, options)
        asked = asyncio.run(as_they_come(url, new, times, dice))
        return alone, asked, asyncio.run(one_at_a_time(url, known))


def in_process(known: Sequence[EditRecord], new: Sequence[EditRecord], options: argparse.Namespace) -> Run:
    """With an engine in this process."""
    from benchmarks.sizing_clock import TimedEngine

    engine = TimedEngine()
    engine.alone(known[:WARM_UP])
    alone = engine.alone(known)
    times, dice = arrivals(alone, options)
    return alone, engine.as_they_come(new, times, dice), engine.alone(known)


def arrivals(alone: Sequence[Asked], options: argparse.Namespace) -> tuple[list[float], random.Random]:
    """Times at the asked share of what one edit after the other would allow, and the dice that edits are drawn with."""
    dice = random.Random(options.seed + 1)
    rate = options.load / statistics.fmean(one.seconds for one in alone)
    return list(poisson(lambda _: rate, rate, options.seconds, dice)), dice


def main() -> int:
    options = _parse()
    records = [one for one in read_records(OWN_EDITS) if one.before.count("\n") <= options.max_lines]
    records.sort(key=lambda record: len(record.before))  # so that both halves have edits of all sizes
    known, new = records[::2], records[1::2]
    load_before = os.getloadavg()[0]
    run = in_process if options.in_process else over_http
    alone, asked, after = run(known, new, options)
    costs = fit(alone)
    predicted, measured = predict(asked, costs), [one.seconds for one in asked]
    result = {
        "kind": "sizing_check",
        "schema_version": 2,
        "provenance": provenance([OWN_EDITS], seed=options.seed),
        "load_before": round(load_before, 1),
        "model": "embedded",
        "seconds": options.seconds,
        "load": options.load,
        "clock": "processor time, without HTTP" if options.in_process else "wall clock, over HTTP",
        "alone": {
            "edits": len(alone),
            "row_ms": 1e3 * costs.row_s,
            "key_us": 1e6 * costs.key_s,
            "edit_ms": 1e3 * costs.edit_s,
        },
        "alone_mean_s": round(statistics.fmean(one.seconds for one in alone), 4),
        "alone_again_mean_s": round(statistics.fmean(one.seconds for one in after), 4),
        "edits": len(asked),
        "offered": round(sum(map(costs.alone_s, asked)) / options.seconds, 3),
        "predicted_s": spread(predicted),
        "measured_s": spread(measured),
    }
    text = json.dumps(result, indent=1) + "\n"
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--load", type=float, default=0.4, help="share of what one edit after the other would allow")
    parser.add_argument("--in-process", action="store_true", help="without HTTP, timed by the processor's own time")
    parser.add_argument("--max-lines", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("serve", nargs="*", metavar="-- OPTION", help="options of `apply-service serve`")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

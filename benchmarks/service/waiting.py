"""What waiting for the target costs: strategy `auto` beside `exact`, over HTTP, edit by edit and with many clients.

    python -m benchmarks.service.waiting [--data F.jsonl [--updates U.jsonl]] [--split check] [--rounds 3]
                                         [--clients 64] [--seconds 60] [--out FILE.json] [-- options of the server]

Each edit is asked in both ways, in turn, on one warm server; a time is the median of its rounds.  Edits that the merger
guesses stand apart: `exact` refuses them.  Texts that differ are listed.  Then as many clients ask for one strategy as
fast as they are answered, and for the other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from apply_eval.datasets import EditRecord, chosen_records
from apply_eval.mine import OWN_EDITS
from apply_eval.provenance import provenance
from apply_eval.statistics import percentiles
from benchmarks.report import RESULTS, table, write_result
from benchmarks.service.server import serving

STRATEGIES = ("exact", "auto")
SHOWN = (50, 90, 99)
"""Percentiles."""
TIMEOUT_S = 120.0


class Answer(NamedTuple):
    """One answer.  `text`: None where it was refused."""

    seconds: float
    text: str | None
    is_right: bool


def body_of(record: EditRecord, strategy: str) -> dict[str, Any]:
    return {"original": record.before, "update": record.update, "path": record.path, "strategy": strategy}


def ask(http: httpx2.Client, record: EditRecord, strategy: str) -> Answer:
    began = time.perf_counter()
    response = http.post("/v1/apply", json=body_of(record, strategy))
    seconds = time.perf_counter() - began
    text = response.json()["merged_code"] if response.status_code == 200 else None
    return Answer(seconds, text, text == record.after)


def ask_all(url: str, records: Sequence[EditRecord], rounds: int) -> dict[str, list[Answer]]:
    """The answers of each strategy, edit by edit, with the median time of the rounds."""
    found: dict[str, list[Answer]] = {strategy: [] for strategy in STRATEGIES}
    with httpx2.Client(base_url=url, timeout=TIMEOUT_S) as http:
        for strategy in STRATEGIES:
            ask(http, records[0], strategy)
        for record in records:
            tried = {strategy: list[Answer]() for strategy in STRATEGIES}
            for n in range(rounds):
                for strategy in STRATEGIES if n % 2 == 0 else STRATEGIES[::-1]:
                    tried[strategy].append(ask(http, record, strategy))
            for strategy, answers in tried.items():
                seconds = statistics.median(one.seconds for one in answers)
                found[strategy].append(answers[0]._replace(seconds=seconds))
    return found


def describe(records: Sequence[EditRecord], found: Mapping[str, Sequence[Answer]]) -> dict[str, Any]:
    """The figures: edits that are no guess, guesses, and the ids of those whose texts differ."""
    exact, auto = (found[strategy] for strategy in STRATEGIES)
    sure = [n for n, one in enumerate(exact) if one.text is not None]
    guesses = [auto[n] for n, one in enumerate(exact) if one.text is None]
    times = {name: percentiles([found[name][n].seconds for n in sure], SHOWN) for name in STRATEGIES}
    return {
        "n": len(sure),
        "times_s": times,
        "auto_over_exact": {name: round(times["auto"][name] / seconds, 3) for name, seconds in times["exact"].items()},
        "right": {name: sum(found[name][n].is_right for n in sure) for name in STRATEGIES},
        "differ": [records[n].id for n in sure if exact[n].text != auto[n].text],
        "guesses": {
            "n": len(guesses),
            "times_s": percentiles([one.seconds for one in guesses], SHOWN) if guesses else None,
            "answered": sum(one.text is not None for one in guesses),
            "right": sum(one.is_right for one in guesses),
        },
    }


async def crowd(url: str, records: Sequence[EditRecord], strategy: str, clients: int, seconds: float) -> dict[str, Any]:
    """So many clients, each of which asks for the next edit when it has its answer."""
    times: list[float] = []
    n_failed, until = 0, time.monotonic() + seconds

    async def client(seed: int) -> None:
        nonlocal n_failed
        rng = random.Random(seed)
        async with httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_S) as http:
            while time.monotonic() < until:
                began = time.perf_counter()
                response = await http.post("/v1/apply", json=body_of(rng.choice(records), strategy))
                times.append(time.perf_counter() - began)
                n_failed += response.status_code >= 429

    began = time.monotonic()
    await asyncio.gather(*map(client, range(clients)))
    a_second = round(len(times) / (time.monotonic() - began), 2)
    return {"a_second": a_second, "failed": n_failed, **percentiles(times, SHOWN)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=OWN_EDITS)
    parser.add_argument("--updates", type=Path)
    parser.add_argument("--split")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=RESULTS / "waiting.json")
    parser.add_argument("serve", nargs="*", help="options of the server, after --")
    options = parser.parse_args()
    records, files = chosen_records(options.data, updates=options.updates, split=options.split)
    with serving(options.serve) as server:
        found = ask_all(server.url, records, options.rounds)
        alone = describe(records, found)
        known = [record for record, one in zip(records, found["exact"], strict=True) if one.text is not None]
        crowds = {
            strategy: asyncio.run(crowd(server.url, known, strategy, options.clients, options.seconds))
            for strategy in STRATEGIES
        }
    results = {
        "kind": "waiting",
        "alone": alone,
        "clients": options.clients,
        "crowd": crowds,
        "provenance": provenance(files, seed=0),
    }
    write_result(options.out, results)
    head = ("", "p50", "p90", "p99", f"answers a second, {options.clients} clients", "p99 of these")
    rows = [
        (
            strategy,
            *(f"{1000 * alone['times_s'][strategy][name]:.0f} ms" for name in ("p50", "p90", "p99")),
            f"{crowds[strategy]['a_second']}",
            f"{crowds[strategy]['p99']:.2f} s",
        )
        for strategy in STRATEGIES
    ]
    print(table([head, *rows]))
    print(json.dumps({name: alone[name] for name in ("n", "right", "auto_over_exact", "differ", "guesses")}))


if __name__ == "__main__":
    main()

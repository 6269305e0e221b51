"""The simulation held against a real server: one engine, arrivals at random, predicted and measured waiting.

    python -m benchmarks.sizing_check [--seconds 120] [--load 0.4] [--out benchmarks/results/sizing_check.json]

First, edits one at a time: what a pass costs by its rows (least squares), and what an edit costs beside its passes.
Then other edits arrive as a Poisson process, whether or not earlier ones are answered.  The simulation gets the costs,
the times of arrival and the token counts of these edits, but none of their times.
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
from dataclasses import dataclass
from pathlib import Path

import httpx2
import numpy as np

from apply_eval.cli import OWN_EDITS
from apply_eval.datasets import EditRecord, read_records
from apply_eval.provenance import provenance
from benchmarks.load_clients import CLIENT_TIMEOUT_S
from benchmarks.load_report import PERCENTILES
from benchmarks.server_process import serving
from benchmarks.sizing_simulation import Cost, Fleet, Job, Scaling, poisson

MAX_ROWS = 256
MIN_PASS_S = 1e-4
WARM_UP = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """One edit and what its answer says of it; `at_s` since the run began."""

    at_s: float
    seconds: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    rejections: int
    n_rows: int
    n_passes: int
    model_s: float

    @property
    def beside_s(self) -> float:
        """Of its seconds, those outside of passes."""
        return max(0.0, self.seconds - self.model_s)


async def ask(http: httpx2.AsyncClient, record: EditRecord, started: float) -> Asked | None:
    """One edit by the model; None where it is refused."""
    at_s = time.monotonic() - started
    body = {"original": record.before, "update": record.update, "path": record.path, "strategy": "model"}
    answer = await http.post("/v1/apply", json=body)
    seconds = time.monotonic() - started - at_s
    if answer.status_code != 200:
        return None
    usage, timings = answer.json()["usage"], answer.json()["timings_s"]
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
        usage["passes"] + usage["prefill_passes"],
        timings["prefill_s"] + timings["decode_s"],
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


def fit(alone: Sequence[Asked]) -> tuple[float, float]:
    """Seconds of a pass and of each of its rows, by least squares over edits made alone; none below 0."""
    counts = np.array([[one.n_passes, one.n_rows] for one in alone], dtype=float)
    seconds = np.array([one.model_s for one in alone])
    pass_s, row_s = np.linalg.lstsq(counts, seconds, rcond=None)[0]
    if pass_s < 0:
        pass_s, row_s = 0.0, float(seconds.sum() / counts[:, 1].sum())
    elif row_s < 0:
        pass_s, row_s = float(seconds.sum() / counts[:, 0].sum()), 0.0
    return float(pass_s), float(row_s)


def predict(asked: Sequence[Asked], pass_s: float, row_s: float, beside_s: float) -> list[float]:
    """Seconds of each edit, by the simulation; what the prefix cache held is known of each."""
    cost = Cost(lambda n_rows: max(MIN_PASS_S, pass_s + row_s * n_rows), MAX_ROWS)
    jobs = [
        Job(one.at_s, i, one.prompt_tokens - one.cached_tokens, one.output_tokens, one.rejections, beside_s)
        for i, one in enumerate(asked)
    ]
    return [one.seconds for one in Fleet(cost, Scaling(1, 1)).run(jobs)]


def main() -> int:
    options = _parse()
    records = [one for one in read_records(OWN_EDITS) if one.before.count("\n") <= options.max_lines]
    random.Random(options.seed).shuffle(records)
    known, new = records[::2], records[1::2]
    dice, load_before = random.Random(options.seed + 1), os.getloadavg()[0]
    with serving(["--torch-threads", "1", *options.serve]) as url:
        alone = asyncio.run(one_at_a_time(url, known))
        rate = options.load / statistics.fmean(one.seconds for one in alone)
        times = list(poisson(lambda _: rate, rate, options.seconds, dice))
        asked = asyncio.run(as_they_come(url, new, times, dice))
        after = asyncio.run(one_at_a_time(url, known))
    pass_s, row_s = fit(alone)
    beside_s = statistics.median(one.beside_s for one in alone)
    predicted, measured = predict(asked, pass_s, row_s, beside_s), [one.seconds for one in asked]
    result = {
        "kind": "sizing_check",
        "schema_version": 1,
        "provenance": provenance([OWN_EDITS], seed=options.seed),
        "load_before": round(load_before, 1),
        "model": "embedded",
        "seconds": options.seconds,
        "load": options.load,
        "edits_per_s": round(rate, 3),
        "alone": {"edits": len(alone), "pass_ms": 1e3 * pass_s, "row_ms": 1e3 * row_s, "beside_ms": 1e3 * beside_s},
        "alone_mean_s": round(statistics.fmean(one.seconds for one in alone), 4),
        "alone_again_mean_s": round(statistics.fmean(one.seconds for one in after), 4),
        "edits": len(asked),
        "refused": len(times) - len(asked),
        "predicted_s": spread(predicted),
        "measured_s": spread(measured),
    }
    text = json.dumps(result, indent=1) + "\n"
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")
    return 0


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean and percentiles by nearest rank."""
    ordered = sorted(values)
    ranks = {f"p{p}": round(ordered[-(-len(ordered) * p // 100) - 1], 4) for p in PERCENTILES}
    return {"mean": round(statistics.fmean(ordered), 4), **ranks}


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--load", type=float, default=0.4, help="share of what one edit after the other would allow")
    parser.add_argument("--max-lines", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("serve", nargs="*", metavar="-- OPTION", help="options of `apply-service serve`")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""What the simulation says of a 7B model on H200s: waiting against load, routing by file, autoscaling over a day.

    python -m benchmarks.sizing_runs --out benchmarks/results/sizing_simulation.json      # half a minute on one core

A simulation over the roofline's times (`sizing`): no device was used, and its figures are no measurements.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from apply_eval.provenance import provenance
from apply_service.deploy.affinity import Overflow
from apply_service.engine.replay_shapes import read_shapes
from benchmarks.load_report import PERCENTILES
from benchmarks.sizing import H200, OVERHEAD_S, Edit, Roofline, count_edit
from benchmarks.sizing_simulation import Answered, Cost, Fleet, Job, Scaling, poisson

MODEL = "qwen2.5-coder-7b"
COUNTED = Path(__file__).parent / "results" / "bench-cpu-model-written.json"
CACHED_SHARE = 0.5
"""Of a prompt whose file is in the prefix cache: the file down to the first change."""
N_FILES = 1_000
EDITS_A_FILE = 4.0
"""In a row, on average, as agents do."""
SPREAD = 0.6
"""Standard deviation of the logarithm of an edit's size."""
LOADS = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
OVERFLOWS = (None, *(Overflow(depth, ratio) for depth, ratio in ((1, 1.0), (1, 1.25), (2, 1.25), (2, 1.5), (4, 1.5))))
SCALINGS = ((2, 8.0), (2, 4.0), (2, 2.0), (2, 1.0), (8, 8.0))
SECONDS = 120.0
DAY_S = 1800.0
"""A day of load, in a shorter time: a wave from a tenth of the peak to the peak."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    roof = Roofline.of(read_shapes()[MODEL], H200)
    edit = count_edit(json.loads(COUNTED.read_text(encoding="utf-8")))
    result = {
        "kind": "sizing_simulation",
        "schema_version": 1,
        "provenance": provenance([COUNTED], seed=options.seed),
        "model": MODEL,
        "edit": asdict(edit),
        "most_per_s": {str(share): round(1 / edit.device_s(roof, cached=share), 2) for share in (0.0, CACHED_SHARE)},
        "load": list(waiting(roof, edit, options.seed)),
        "routing": [routed(roof, edit, options.seed, overflow) for overflow in OVERFLOWS],
        "scaling": [scaled(roof, edit, options.seed, *scaling) for scaling in SCALINGS],
    }
    text = json.dumps(result, indent=1) + "\n"
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


def cost_of(roof: Roofline) -> Cost:
    return Cost(lambda n_rows: roof.pass_s(n_rows) + OVERHEAD_S, max_rows=256)


def waiting(roof: Roofline, edit: Edit, seed: int) -> Sequence[dict[str, Any]]:
    """One engine at growing shares of what it can do at most, nothing cached."""
    most = 1 / edit.device_s(roof, cached=0.0)
    rows = []
    for load in LOADS:
        jobs = make_jobs(edit, lambda _, load=load: load * most, load * most, SECONDS, seed)  # type: ignore[misc]
        fleet = Fleet(cost_of(roof), Scaling(1, 1), cached_share=0.0)
        rows.append({"load": load, "edits_per_s": round(load * most, 2), **summarise(fleet.run(jobs), fleet)})
    return rows


def routed(roof: Roofline, edit: Edit, seed: int, overflow: Overflow | None) -> dict[str, Any]:
    """Eight engines at seven tenths of what they can do without a cache; None: the less loaded of two at random."""
    rate = 0.7 * 8 / edit.device_s(roof, cached=0.0)
    jobs = make_jobs(edit, lambda _: rate, rate, SECONDS, seed)
    fleet = Fleet(cost_of(roof), Scaling(8, 8), cache_files=100, cached_share=CACHED_SHARE)
    if overflow is None:
        name, fleet.routing = "least load", "least load"
    else:
        name, fleet.overflow = f"file; overflow {overflow.depth}, {overflow.ratio:g}", overflow
    return {"routing": name, "edits_per_s": round(rate, 2), **summarise(fleet.run(jobs), fleet)}


def scaled(roof: Roofline, edit: Edit, seed: int, least: int, target: float) -> dict[str, Any]:
    """From `least` to eight engines over a day of load, `target` edits in each."""
    peak = 0.7 * 8 / edit.device_s(roof, cached=0.0)

    def rate(at_s: float) -> float:
        return peak * (0.1 + 0.9 * (1 - math.cos(2 * math.pi * at_s / DAY_S)) / 2)

    jobs = make_jobs(edit, rate, peak, DAY_S, seed)
    fleet = Fleet(cost_of(roof), Scaling(least, 8, target), cache_files=100, cached_share=CACHED_SHARE)
    found = summarise(fleet.run(jobs), fleet)
    return {
        "engines": f"{least} to 8",
        "target": target,
        "mean_engines": round(fleet.engine_s / fleet.now_s, 2),
        **found,
    }


def make_jobs(edit: Edit, rate: Callable[[float], float], most: float, seconds: float, seed: int) -> list[Job]:
    """Edits of files, each edited several times in a row; sizes log-normal around the counted edit."""
    dice = random.Random(seed)
    scale = math.exp(-(SPREAD**2) / 2)
    recent: list[int] = []
    jobs = []
    for at_s in poisson(rate, most, seconds, dice):
        is_again = recent and dice.random() < 1 - 1 / EDITS_A_FILE
        file = dice.choice(recent) if is_again else dice.randrange(N_FILES)
        recent = [*recent[-40:], file]
        size = scale * dice.lognormvariate(0.0, SPREAD)
        n_breaks = sum(dice.random() < 0.5 for _ in range(2))
        prompt, output = max(64, round(edit.prompt_tokens * size)), max(16, round(edit.output_tokens * size))
        jobs.append(Job(at_s, file, prompt, output, n_breaks))
    return jobs


def summarise(answered: Sequence[Answered], fleet: Fleet) -> dict[str, Any]:
    """Latencies by nearest rank, the share of hits, and how busy engines were."""
    ordered = sorted(one.seconds for one in answered)
    ranks = {f"p{p}_s": round(ordered[-(-len(ordered) * p // 100) - 1], 4) for p in PERCENTILES}
    hits = sum(one.is_hit for one in answered) / len(answered)
    return {
        "n": len(answered),
        **ranks,
        "hits": round(hits, 3),
        "busy": round(fleet.busy_s / fleet.engine_s, 3) if fleet.engine_s else 0.0,
    }


if __name__ == "__main__":
    main()

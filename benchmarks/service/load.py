"""What many clients at once do to the service: no 5xx, no slot that stays taken, flat memory, 429 where it is too much.

    python -m benchmarks.service.load [--minutes 10] [--clients 64] [--seed 1] [--data F.jsonl] [--out FILE.json]
                                      [-- options of `apply-service serve`]
    python -m docs.generate

The result is kept in benchmarks/results/load.json, and docs/operations.md shows it.

Phase *one client*: an edit that needs no model, again and again; the stage "queue and HTTP" is what HTTP adds to it.
Phase *load*: clients that wait, stream, set short deadlines and go away at random, on a queue that holds them all.
Phase *overload*: the same number of patient clients on a server whose queue holds few of them.  After each the server
must be idle again and answer one more edit.  The exit code says whether every promise was kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import httpx2

from apply_eval.datasets import EditRecord, measure_edit, read_records
from apply_eval.mine import OWN_EDITS
from apply_eval.provenance import provenance, safe_options
from apply_eval.statistics import percentiles
from apply_service.clients.http import HttpClient
from apply_service.types import ApplyRequest
from benchmarks.report import RESULTS, table, write_result
from benchmarks.service.server import Gauges, read_gauges, serving, watched

Kind = Literal["whole", "stream", "deadline", "gone"]
SHARES: dict[Kind, float] = {"whole": 0.45, "stream": 0.25, "deadline": 0.15, "gone": 0.15}
"""How often a client asks in which way."""
ALONE_SHARE, OVERLOAD_SHARE = 0.05, 0.2
"""The other phases last so much of the time of *load*."""
OVERLOAD_OPTIONS = ("--queue-limit", "4", "--max-active", "4")
CLIENT_TIMEOUT_S = 600.0
"""Patient clients wait so long, and so does the server for them: a slow machine makes them late, not wrong."""
IDLE_TIMEOUT_S = 30.0
BACK_OFF_S = 1.0
CUT = 0
"""The status of a request that its client gave up."""
PERCENTILES = (50, 90, 95, 99)
WAITED = "queue and HTTP"
MAX_GROWTH = 0.1
"""Share of memory gained between the first and the last fifth of the warm part of the run: more is not flat."""
BLOCK = "<<<<<<< SEARCH\na = 1\n=======\na = 10\n>>>>>>> REPLACE\n"
BEFORE, AFTER = "a = 1\nb = 2\n", "a = 10\nb = 2\n"
ONE_EDIT = ApplyRequest(original=BEFORE, update=BLOCK, path="a.py")
ONE_RECORD = EditRecord("one", BEFORE, AFTER, measure_edit(BEFORE, AFTER), update=BLOCK, path="a.py")


@dataclass(slots=True)
class Sample:
    """One request: how it was asked, how it ended and after how long."""

    kind: Kind
    deadline_s: float | None = None
    status: int = CUT
    code: str = ""
    """Error code; empty where there is an answer, and of a request that its client gave up."""
    seconds: float = 0.0
    first_s: float | None = None
    """Until the first event of a stream."""
    ended_s: float = 0.0
    """Since the load began."""
    has_retry_after: bool = False
    stages: Mapping[str, float] = field(default_factory=dict)
    """Seconds by stage, as the answer states them."""

    @property
    def ending(self) -> str:
        return f"cut {self.code or 'by the client'}" if self.status == CUT else f"{self.status} {self.code}".strip()

    @property
    def fault(self) -> str:
        """A 5xx that is no asked-for deadline, an unreadable answer, a connection that broke, a refusal without
        `Retry-After`; empty where all is well."""
        if self.code == "deadline_exceeded" and self.deadline_s is not None:
            return ""
        if self.status == CUT:
            return self.ending if self.code or self.kind != "gone" else ""
        if self.status == 429 and not self.has_retry_after:
            return "429 without Retry-After"
        return self.ending if self.status >= 500 or self.code in ("unreadable", "engine_failure") else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, default=OWN_EDITS)
    parser.add_argument("--out", type=Path, default=RESULTS / "load.json")
    parser.add_argument("serve", nargs="*", metavar="-- OPTION", help="options of `apply-service serve`")
    options = parser.parse_args()
    load = Load(read_records(options.data), options.clients, options.minutes * 60, options.seed, SHARES)
    over = Load(load.records, load.n_clients, load.seconds * OVERLOAD_SHARE, load.seed, {"whole": 1.0})
    patience = ("--default-timeout-s", str(CLIENT_TIMEOUT_S))
    room = ("--queue-limit", str(max(64, 2 * options.clients)))
    one = Load([ONE_RECORD], 1, load.seconds * ALONE_SHARE, load.seed, {"whole": 1.0})
    phases = {
        "one client": run_phase(one, options.serve),
        "load": run_phase(load, [*patience, *room, *options.serve]),
        "overload": run_phase(over, [*patience, *options.serve, *OVERLOAD_OPTIONS]),
    }
    broken = broken_promises(phases)
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
    write_result(options.out, result, indent=None)
    for name, phase in phases.items():
        print(f"\n## {name}\n\n{latency_table(phase)}\n\n{stage_table(phase)}\n\n{json.dumps(phase['ended'])}")
    print("\nbroken: " + ("; ".join(broken) or "nothing"))
    return 1 if broken else 0


def run_phase(load: Load, options: Sequence[str]) -> dict[str, Any]:
    """What was measured, and how the server stopped afterwards: a bad end does not cost the measurement."""
    summary: dict[str, Any] = {"options": safe_options(options), "stopped": "gracefully"}
    try:
        with serving(options) as (url, _):
            HttpClient(url).apply(ONE_EDIT)  # whatever is made on first use is made now
            with watched(url) as gauges:
                samples = asyncio.run(run_load(url, load))
            summary |= summarise(samples, gauges)
            summary["is_idle_after"] = _becomes_idle(url)
            summary["answers_after"] = HttpClient(url).apply(ONE_EDIT).merged_code == AFTER
    except RuntimeError as error:
        if "answers_after" not in summary:
            raise
        summary["stopped"] = str(error)
    return summary


def _becomes_idle(url: str) -> bool:
    """Whether no edit waits or holds a slot, soon after the last client has gone."""
    started = time.monotonic()
    while time.monotonic() - started < IDLE_TIMEOUT_S:
        gauges = read_gauges(url, started)
        if gauges.queue_length == gauges.n_active == 0:
            return True
        time.sleep(0.2)
    return False


# -- clients -----------------------------------------------------------------------------------------------------------
class Load(NamedTuple):
    """What is asked of the server, by how many, for how long, in which ways."""

    records: Sequence[EditRecord]
    n_clients: int
    seconds: float
    seed: int
    shares: Mapping[Kind, float]


async def run_load(url: str, load: Load) -> list[Sample]:
    """Let all clients ask until the time is over; what they have begun then is waited for.  What a client does next
    comes from its own seed."""
    limits = httpx2.Limits(max_connections=load.n_clients, max_keepalive_connections=load.n_clients)
    started = time.monotonic()
    samples: list[Sample] = []
    http = httpx2.AsyncClient(base_url=url, limits=limits, timeout=CLIENT_TIMEOUT_S, trust_env=False)

    async def ask_on(dice: random.Random) -> None:
        while time.monotonic() - started < load.seconds:
            kind = dice.choices(list(load.shares), list(load.shares.values()))[0]
            sample = await ask(http, kind, dice.choice(load.records), dice)
            sample.ended_s = time.monotonic() - started
            samples.append(sample)
            if sample.status == httpx2.codes.TOO_MANY_REQUESTS:
                await asyncio.sleep(BACK_OFF_S * dice.uniform(0.5, 1.5))

    async with http, asyncio.TaskGroup() as clients:
        for number in range(load.n_clients):
            clients.create_task(ask_on(random.Random(f"{load.seed}-{number}")))
    return samples


async def ask(http: httpx2.AsyncClient, kind: Kind, record: EditRecord, dice: random.Random) -> Sample:
    """One request, to its end or until its client goes away."""
    sample = Sample(kind, deadline_s=round(dice.uniform(0.02, 5.0), 3) if kind == "deadline" else None)
    patience_s = dice.uniform(0.01, 5.0) if kind == "gone" else CLIENT_TIMEOUT_S
    body: dict[str, Any] = {"original": record.before, "update": record.update, "path": record.path}
    if kind == "stream" or (kind == "gone" and dice.random() < 0.5):
        body["stream"] = True
    if sample.deadline_s is not None:
        body["timeout_s"] = sample.deadline_s
    began, last = time.monotonic(), ""
    try:
        async with asyncio.timeout(patience_s), http.stream("POST", "/v1/apply", json=body) as response:
            async for line in response.aiter_lines():
                sample.first_s = sample.first_s or time.monotonic() - began
                last = line or last
            sample.status, sample.has_retry_after = response.status_code, "retry-after" in response.headers
            sample.code, sample.stages = end_of(last)
    except TimeoutError:
        pass
    except httpx2.TransportError as error:
        sample.code = type(error).__name__
    sample.seconds = time.monotonic() - began
    return sample


def end_of(last_line: str) -> tuple[str, Mapping[str, float]]:
    """The error code and the stages in the last line of a body or of a stream; an answer has no code, an error no
    stages."""
    try:
        answer = json.loads(last_line.removeprefix("data: "))
    except ValueError:
        return "unreadable", {}
    if "error" in answer:
        return str(answer["error"]["code"]), {}
    return "", answer["timings_s"]


# -- report ------------------------------------------------------------------------------------------------------------
def summarise(samples: Sequence[Sample], gauges: Sequence[Gauges]) -> dict[str, Any]:
    """Everything that one phase of a load measured."""
    seconds = max((sample.ended_s for sample in samples), default=0.0)
    answered = [sample for sample in samples if sample.ending == "200"]
    late = [s.seconds - s.deadline_s for s in samples if s.code == "deadline_exceeded" and s.deadline_s is not None]
    stages: dict[str, list[float]] = {}
    for sample in answered:
        if "total_s" in sample.stages:
            stages.setdefault(WAITED, []).append(sample.seconds - sample.stages["total_s"])
        for stage, value in sample.stages.items():
            stages.setdefault(stage.removesuffix("_s"), []).append(value)
    return {
        "n_requests": len(samples),
        "ended": dict(sorted(Counter(sample.ending for sample in samples).items())),
        "faults": dict(Counter(sample.fault for sample in samples if sample.fault)),
        "seconds": round(seconds, 1),
        "answers_per_s": round(len(answered) / seconds, 3) if seconds else 0.0,
        "latency_s": {kind: _percentiles(s.seconds for s in answered if s.kind == kind) for kind in SHARES},
        "first_event_s": _percentiles(s.first_s for s in answered if s.kind == "stream" and s.first_s is not None),
        "late_by_s": _percentiles(late),
        "stages_s": {stage: _percentiles(values) for stage, values in stages.items()},
        "n_refused": sum(sample.status == 429 for sample in samples),
        "memory_mb": memory(gauges),
        "max_queue_length": max([0, *(gauge.queue_length for gauge in gauges)]),
        "max_active": max([0, *(gauge.n_active for gauge in gauges)]),
        "gauges": [list(gauge) for gauge in gauges],
    }


def _percentiles(values: Iterable[float]) -> dict[str, float] | None:
    """By nearest rank; None of no values."""
    known = list(values)
    return {"n": len(known), **percentiles(known, PERCENTILES), "max": round(max(known), 4)} if known else None


def memory(gauges: Sequence[Gauges]) -> dict[str, float] | None:
    """Resident memory in the first and the last fifth of the second half, in MiB; None where the run was too short.
    The largest requests come late now and then, and until then memory grows in steps."""
    warm = [gauge.memory_mb for gauge in gauges[len(gauges) // 2 :]]
    n_fifth = len(warm) // 5
    if n_fifth < 2:
        return None
    first, last = statistics.median(warm[:n_fifth]), statistics.median(warm[-n_fifth:])
    return {"first": first, "last": last, "growth": round(last - first, 1), "max": max(warm)}


def broken_promises(phases: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The promises that were not kept, in words."""
    found = []
    for name, phase in phases.items():
        found += [f"{name}: {n} x {fault}" for fault, n in phase["faults"].items()]
        found += [f"{name}: {phase['stopped']}"] if phase["stopped"] != "gracefully" else []
        found += [] if phase["is_idle_after"] else [f"{name}: a slot stays taken"]
        found += [] if phase["answers_after"] else [f"{name}: a wrong answer afterwards"]
    growth = phases["load"]["memory_mb"]
    if growth is not None and growth["growth"] > MAX_GROWTH * growth["first"]:
        found.append(f"memory grew by {growth['growth']} MiB")
    if not any(ending.startswith("429") for ending in phases["overload"]["ended"]):
        found.append("overload: nobody was refused")
    return found


def latency_table(summary: Mapping[str, Any]) -> str:
    """Latencies of the answered requests as Markdown."""
    first = {"first event of a stream": summary["first_event_s"], "late by": summary["late_by_s"]}
    return _table("request", {**summary["latency_s"], **first})


def stage_table(summary: Mapping[str, Any]) -> str:
    """Where the time of the answered requests went, as Markdown."""
    return _table("stage", summary["stages_s"])


def _table(head: str, rows: Mapping[str, Mapping[str, float] | None]) -> str:
    keys = ("n", *(f"p{p}" for p in PERCENTILES), "max")
    lines = [[head, *(key if key == "n" else f"{key} s" for key in keys)]]
    lines += [[name, *(str(found[key]) for key in keys)] for name, found in rows.items() if found is not None]
    return table(lines).rstrip()


if __name__ == "__main__":
    sys.exit(main())

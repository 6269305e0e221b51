"""Two engines on Ray Serve: what routing by file is worth, an engine killed under load, an update with drain.

`test_ray` runs the phases and holds them against the promise: each edit is answered once and whole, with the text that
it has without any disturbance.  Needs the extra `ray`.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from apply_eval.mine import OWN_EDITS
from apply_eval.provenance import provenance
from tests.deploy.ray_fleet import LocalFleet, by_least_load, engine_pids, kill_engine
from tests.deploy.ray_sessions import Edit, Told, run_sessions

Texts = Mapping[Edit, str]
REPAIR_TIMEOUT_S = 600.0
SETTLE_S = 2.0
"""Load before and after what is done to the fleet."""


def record_of(
    phases: Mapping[str, Mapping[str, Any]], *, clients: int, files: int, edits: int, seed: int, load_before: float
) -> dict[str, Any]:
    """What `benchmarks/results/ray_check.json` keeps, of which docs/scaling.md is made."""
    return {
        "kind": "ray_check",
        "schema_version": 1,
        "provenance": provenance([OWN_EDITS], seed=seed),
        "load_before": round(load_before, 1),
        "engines": 2,
        "clients": clients,
        "files": files,
        "edits_a_file": edits,
        "phases": phases,
        "broken": [f"{name}: {why}" for name, phase in phases.items() for why in phase["broken"]],
    }


def run_phases(
    fleet: LocalFleet, sessions: Sequence[Sequence[Edit]], n_clients: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each phase by its name, all on one Ray; each of the first two on engines that remember nothing yet.

    The first two have one client: no engine has more to do than the other then, so that only the router decides.  With
    several, files leave an engine that is busy, and whether two routers differ is chance.
    """
    texts: dict[Edit, str] = {}
    for number, (name, router) in enumerate({"by least load": by_least_load(), "by file": {}}.items()):
        _say(name)
        fleet.deploy({"prefix_cache_mb": 64 + number}, **router)
        told = asyncio.run(run_sessions(fleet.url, sessions, n_clients=1))
        yield name, summarise(told, texts)
        texts |= {one.edit: one.merged for one in told if one.ending == "answered"}
    _say("killed")
    yield "an engine is killed", _disturbed(fleet, sessions, n_clients, texts, lambda: _kill(fleet))
    _say("updated")
    before = engine_pids()
    yield "an update", _disturbed(fleet, sessions, n_clients, texts, lambda: fleet.deploy({"prefix_cache_mb": 80}))
    _wait_until(lambda: not set(before) & set(engine_pids()), "the old engines stay")


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def _disturbed(
    fleet: LocalFleet, sessions: Sequence[Sequence[Edit]], n_clients: int, texts: Texts, disturb: Callable[[], None]
) -> dict[str, Any]:
    """A phase under load, in which something is done to the fleet; over when the fleet is whole again."""
    n_before = fleet.n_asked_again()
    told, seconds = asyncio.run(_load_while(fleet, sessions, n_clients, disturb))
    return {
        **summarise(told, texts),
        "asked_again": fleet.n_asked_again() - n_before,
        "disturbed_for_s": round(seconds, 1),
    }


async def _load_while(
    fleet: LocalFleet, sessions: Sequence[Sequence[Edit]], n_clients: int, disturb: Callable[[], None]
) -> tuple[list[Told], float]:
    over = asyncio.Event()
    load = asyncio.create_task(run_sessions(fleet.url, sessions, n_clients=n_clients, is_over=over.is_set))
    await asyncio.sleep(SETTLE_S)
    started = time.monotonic()
    try:
        await asyncio.to_thread(disturb)
        seconds = time.monotonic() - started
        await asyncio.sleep(SETTLE_S)
    finally:
        over.set()
    return await load, seconds


def _kill(fleet: LocalFleet) -> None:
    """Kill an engine and wait for another in its place."""
    killed = kill_engine()
    _wait_until(lambda: killed not in engine_pids(), "the killed engine lives")
    _wait_until(lambda: len(engine_pids()) == 2 and fleet.is_whole(), "no engine in its place")


def _wait_until(is_true: Callable[[], bool], why: str) -> None:
    started = time.monotonic()
    while not is_true():
        if time.monotonic() - started > REPAIR_TIMEOUT_S:
            raise RuntimeError(why)
        time.sleep(0.5)


def summarise(told: Sequence[Told], texts: Texts) -> dict[str, Any]:
    """A phase in numbers.  `texts`: what edits gave without any disturbance."""
    answered = [one for one in told if one.ending == "answered"]
    # The first edit of a file can't find anything; a file begun anew finds what its first time left.
    later = [one for one in answered if one.edit.n_before]
    return {
        "requests": len(told),
        "ended": dict(Counter(f"{one.ending} {one.code}".strip() for one in told)),
        "streams": sum(one.is_stream for one in told),
        "later_edits": len(later),
        "hit_rate": _share(sum(one.n_cached > 0 for one in later), len(later)),
        "cached_share": _share(sum(one.n_cached for one in later), sum(one.n_prompt for one in later)),
        "median_s": round(statistics.median(one.seconds for one in answered), 3) if answered else None,
        "longest_s": round(max((one.seconds for one in told), default=0.0), 3),
        "as_expected": _share(sum(one.merged == one.edit.expected for one in answered), len(answered)),
        "broken": sorted({why for one in told if (why := _fault(one, texts))}),
    }


def _fault(one: Told, texts: Texts) -> str:
    """What must not have happened; empty where all is well."""
    if one.ending != "answered":
        return f"{one.ending} {one.code}".strip()
    if one.merged != texts.get(one.edit, one.merged):
        return "another text than without disturbance"
    return "the stream's text is not the answer" if one.is_stream and one.streamed != one.merged else ""


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 3) if whole else None

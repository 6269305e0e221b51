"""Clients as they come: some wait for a whole answer, some stream, some set a short deadline, some go away.

Each is a task that asks again and again until the time is over.  What a client does next comes from its own seed.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import httpx2

from apply_eval.datasets import EditRecord

Kind = Literal["whole", "stream", "deadline", "gone"]
SHARES: dict[Kind, float] = {"whole": 0.45, "stream": 0.25, "deadline": 0.15, "gone": 0.15}
"""How often a client asks in which way."""

CLIENT_TIMEOUT_S = 600.0
"""Patient clients wait so long, and so does the server for them: a slow machine makes them late, not wrong."""

BACK_OFF_S = 1.0
CUT = 0
"""The status of a request that its client gave up."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One request: how it was asked, how it ended and after how long."""

    kind: Kind
    status: int
    code: str
    """Error code; empty where there is an answer."""
    seconds: float
    first_s: float | None
    """Until the first event of a stream."""
    deadline_s: float | None
    ended_s: float
    """Since the load began."""
    has_retry_after: bool
    stages: Mapping[str, float] = field(default_factory=dict)
    """Seconds by stage, as the answer states them."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of the server, by how many, for how long."""

    records: Sequence[EditRecord]
    n_clients: int
    seconds: float
    seed: int
    shares: dict[Kind, float]


async def run_load(url: str, load: Load) -> list[Sample]:
    """Let all clients ask until the time is over; what they have begun then is waited for."""
    limits = httpx2.Limits(max_connections=load.n_clients, max_keepalive_connections=load.n_clients)
    started = time.monotonic()
    samples: list[Sample] = []
    http = httpx2.AsyncClient(base_url=url, limits=limits, timeout=CLIENT_TIMEOUT_S, trust_env=False)
    async with http, asyncio.TaskGroup() as clients:
        for number in range(load.n_clients):
            clients.create_task(_ask_on(http, load, random.Random(f"{load.seed}-{number}"), started, samples))
    return samples


async def _ask_on(
    http: httpx2.AsyncClient, load: Load, dice: random.Random, started: float, samples: list[Sample]
) -> None:
    kinds, weights = list(load.shares), list(load.shares.values())
    while (now := time.monotonic()) - started < load.seconds:
        kind = dice.choices(kinds, weights)[0]
        record = dice.choice(load.records)
        deadline_s = round(dice.uniform(0.02, 5.0), 3) if kind == "deadline" else None
        patience_s = dice.uniform(0.01, 5.0) if kind == "gone" else CLIENT_TIMEOUT_S
        answer = await _ask(http, _body(record, kind, deadline_s, dice), patience_s)
        ended = time.monotonic()
        samples.append(
            Sample(
                kind,
                answer.status,
                answer.code,
                ended - now,
                answer.first_s,
                deadline_s,
                ended - started,
                answer.has_retry_after,
                answer.stages,
            )
        )
        if answer.status == httpx2.codes.TOO_MANY_REQUESTS:
            await asyncio.sleep(BACK_OFF_S * dice.uniform(0.5, 1.5))


class Answer(NamedTuple):
    """As in `Sample`."""

    status: int
    code: str
    first_s: float | None
    has_retry_after: bool = False
    stages: Mapping[str, float] = {}


async def _ask(http: httpx2.AsyncClient, body: dict[str, Any], patience_s: float) -> Answer:
    started = time.monotonic()
    first_s: float | None = None
    last = ""
    try:
        async with asyncio.timeout(patience_s), http.stream("POST", "/v1/apply", json=body) as response:
            async for line in response.aiter_lines():
                first_s = first_s or time.monotonic() - started
                last = line or last
            code, stages = _end_of(last)
            return Answer(response.status_code, code, first_s, "retry-after" in response.headers, stages)
    except TimeoutError:
        return Answer(CUT, "", first_s)
    except httpx2.TransportError as error:
        return Answer(CUT, type(error).__name__, first_s)


def _body(record: EditRecord, kind: Kind, deadline_s: float | None, dice: random.Random) -> dict[str, Any]:
    body: dict[str, Any] = {"original": record.before, "update": record.update, "path": record.path}
    if kind == "stream" or (kind == "gone" and dice.random() < 0.5):
        body["stream"] = True
    if deadline_s is not None:
        body["timeout_s"] = deadline_s
    return body


def _end_of(last_line: str) -> tuple[str, Mapping[str, float]]:
    """The error code and the stages in the last line of a body or of a stream; an answer has no code, an error no
    stages."""
    try:
        answer = json.loads(last_line.removeprefix("data: "))
    except ValueError:
        return "unreadable", {}
    if "error" in answer:
        return str(answer["error"]["code"]), {}
    return "", answer["timings_s"]

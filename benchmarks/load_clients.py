"""Clients as they come: some wait for a whole answer, some stream, some set a short deadline, some go away.

Each is a task that asks again and again until the time is over.  What a client does next comes from its own seed.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

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
        samples.append(Sample(kind, *answer[:2], ended - now, answer[2], deadline_s, ended - started, answer[3]))
        if answer[0] == httpx2.codes.TOO_MANY_REQUESTS:
            await asyncio.sleep(BACK_OFF_S * dice.uniform(0.5, 1.5))


Answer = tuple[int, str, float | None, bool]
"""Status, error code, seconds to the first event, whether the answer says when to come back."""


async def _ask(http: httpx2.AsyncClient, body: dict[str, Any], patience_s: float) -> Answer:
    started = time.monotonic()
    first_s: float | None = None
    last = ""
    try:
        async with asyncio.timeout(patience_s), http.stream("POST", "/v1/apply", json=body) as response:
            async for line in response.aiter_lines():
                first_s = first_s or time.monotonic() - started
                last = line or last
            return response.status_code, _error_code(last), first_s, "retry-after" in response.headers
    except TimeoutError:
        return CUT, "", first_s, False
    except httpx2.TransportError as error:
        return CUT, type(error).__name__, first_s, False


def _body(record: EditRecord, kind: Kind, deadline_s: float | None, dice: random.Random) -> dict[str, Any]:
    body: dict[str, Any] = {"original": record.before, "update": record.update, "path": record.path}
    if kind == "stream" or (kind == "gone" and dice.random() < 0.5):
        body["stream"] = True
    if deadline_s is not None:
        body["timeout_s"] = deadline_s
    return body


def _error_code(last_line: str) -> str:
    """Of an error body, or of the last event of a stream; an answer has none."""
    text = last_line.removeprefix("data: ")
    try:
        answer = json.loads(text)
    except ValueError:
        return "unreadable"
    return str(answer["error"]["code"]) if "error" in answer else ""

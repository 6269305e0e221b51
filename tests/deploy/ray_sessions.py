"""Agents that edit files through a fleet: each file several times in a row, whole answers and streams in turn.

What every edit should give is known, since it is made by inserting a line; an answer counts only if it is whole.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import httpx2

from apply_eval.datasets import EditRecord

N_LINES = 48
"""Of each file, so that the embedded model takes little time."""
N_CONTEXT = 3
MARKER = "# ... existing code ..."
CLIENT_TIMEOUT_S = 300.0

Ending = Literal["answered", "refused", "error event", "half", "broken"]
"""`refused`: a status and an error; `error event`: a stream's typed end; `half`: a stream without an end; `broken`: the
connection ended without an answer."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit and the text it should give."""

    path: str
    n_before: int
    """Edits of the same file before it in its session."""
    original: str
    update: str
    expected: str


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one request."""

    edit: Edit
    is_stream: bool
    ending: Ending
    code: str
    """Status and error code; empty where it was answered."""
    merged: str
    streamed: str
    """The text of the stream's token events."""
    seconds: float
    n_prompt: int
    n_cached: int


def edit_sessions(records: Sequence[EditRecord], n_files: int, n_edits: int, seed: int) -> list[list[Edit]]:
    """Edits in a row for each of the first `n_files` Python files that are long enough."""
    files = [record for record in records if record.language == "python" and record.before.count("\n") >= N_LINES]
    return [_session(record, n_edits, random.Random(f"{seed}-{record.id}")) for record in files[:n_files]]


def _session(record: EditRecord, n_edits: int, dice: random.Random) -> list[Edit]:
    lines = record.before.split("\n")[:N_LINES]
    edits = []
    for number in range(n_edits):
        at = dice.randrange(N_LINES // 3, len(lines) - N_CONTEXT)
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        new = f"{indent}# note {number} of this file, at line {at}"
        shown = [MARKER, *lines[at - N_CONTEXT : at], new, *lines[at : at + N_CONTEXT], MARKER]
        after = [*lines[:at], new, *lines[at:]]
        edits.append(Edit(record.path or "a.py", number, "\n".join(lines), "\n".join(shown), "\n".join(after)))
        lines = after
    return edits


async def run_sessions(
    url: str, sessions: Sequence[Sequence[Edit]], *, n_clients: int, is_over: Callable[[], bool] | None = None
) -> list[Told]:
    """Let clients work through the sessions, each through one after the other, edits in order; over and over
    until `is_over` says so, where it is given."""
    waiting = deque(sessions)
    told: list[Told] = []
    limits = httpx2.Limits(max_connections=n_clients, max_keepalive_connections=n_clients)
    http = httpx2.AsyncClient(base_url=url, limits=limits, timeout=CLIENT_TIMEOUT_S, trust_env=False)

    async def work() -> None:
        while waiting and not (is_over is not None and is_over()):
            session = waiting.popleft()
            for number, edit in enumerate(session):
                told.append(await ask(http, edit, is_stream=number % 2 == 1))
            if is_over is not None:
                waiting.append(session)

    async with http, asyncio.TaskGroup() as clients:
        for _ in range(n_clients):
            clients.create_task(work())
    return told


async def ask(http: httpx2.AsyncClient, edit: Edit, *, is_stream: bool) -> Told:
    """One request, to its end, whatever that is."""
    body = {"original": edit.original, "update": edit.update, "path": edit.path, "strategy": "model"}
    began = time.monotonic()
    ending: Ending = "broken"
    code, streamed = "", ""
    answer: dict[str, Any] = {}
    try:
        async with http.stream("POST", "/v1/apply", json=body | ({"stream": True} if is_stream else {})) as response:
            if response.status_code != 200:
                ending, code = "refused", f"{response.status_code} {_code(await response.aread())}"
            elif is_stream:
                ending, code, streamed, answer = await _read_stream(response)
            else:
                ending, answer = "answered", json.loads(await response.aread())
    except httpx2.TransportError as error:
        code = type(error).__name__
    usage = answer.get("usage", {})
    return Told(
        edit,
        is_stream,
        ending,
        code,
        answer.get("merged_code", ""),
        streamed,
        time.monotonic() - began,
        usage.get("prompt_tokens", 0),
        usage.get("cached_prompt_tokens") or 0,
    )


async def _read_stream(response: httpx2.Response) -> tuple[Ending, str, str, dict[str, Any]]:
    streamed = ""
    async for name, data in _events(response):
        if name == "token":
            streamed += data["text"]
        elif name == "final":
            return "answered", "", streamed, data
        elif name == "error":
            return "error event", data["error"]["code"], streamed, {}
    return "half", "", streamed, {}


async def _events(response: httpx2.Response) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    name = ""
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def _code(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return "untyped"

"""How much longer an edit takes through `apply-service mcp` with the model in its process than through `serve`.

    python -m benchmarks.service.mcp [--edits 30] [--rounds 3] [--seed 1] [--data F.jsonl]

Both run at the same time and get the same edits in turns, so a busy machine slows both.  The MCP tool is asked for a
dry run, so both do the same: read the edit, decide, check, answer with a diff.  `written` is the tool's time with the
file and its backup on disk.  Wall time is that of the client; processor time is that of the server and its workers.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from apply_eval.datasets import EditRecord, read_records
from apply_eval.mine import OWN_EDITS
from benchmarks.decoding.tables import table
from benchmarks.service.server import serving

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
HEAD = ("way", "median ms", "median of ratios", "ratio of sums", "ratio of processor time")
Ask = Callable[[EditRecord], Awaitable[str]]


def processor_s(pid: int) -> float:
    """Processor time of a process and its children, in seconds.  Linux only."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    children = "".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")).split()
    return sum(map(int, fields[11:13])) * TICK_S + sum(processor_s(int(child)) for child in children)


def child_of(pid: int) -> int:
    """The newest child of a process."""
    return max(
        int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()
    )


async def measure(records: Sequence[EditRecord], rounds: int, seed: int) -> dict[str, Any]:
    """Seconds by way and edit: `wall` per edit (the least of all rounds) and `processor` in all."""
    with tempfile.TemporaryDirectory() as name, serving([]) as (url, server_pid):
        folder = Path(name) / "project"
        folder.mkdir()
        names = {record.id: f"{number}{Path(record.path or 'a.txt').suffix}" for number, record in enumerate(records)}
        environment = {**os.environ, "XDG_STATE_HOME": str(Path(name) / "state")}
        command = ["-m", "apply_service.cli", "mcp", "--root", str(folder)]
        parameters = StdioServerParameters(command=sys.executable, args=command, env=environment, cwd=os.getcwd())
        http = httpx2.AsyncClient(base_url=url, timeout=600, trust_env=False)
        async with http, Client(stdio_client(parameters)) as client:
            mcp_pid = child_of(os.getpid())

            async def by_server(record: EditRecord) -> str:
                body = {"original": record.before, "update": record.update, "path": names[record.id], "diff": True}
                answer = await http.post("/v1/apply", json=body)
                return str(answer.json().get("diff") if answer.status_code == 200 else answer.json()["error"]["code"])

            async def by_tool(record: EditRecord, *, is_dry: bool = True) -> str:
                path = folder / names[record.id]
                path.write_text(record.before, encoding="utf-8", newline="")
                call = {"path": path.name, "code_edit": record.update, "dryRun": is_dry}
                answer = await client.call_tool("edit_file", call)
                told = answer.structured_content
                if told is not None:
                    return str(told["diff"])
                return answer.content[0].text.partition("[")[2].partition("]")[0]  # type: ignore[union-attr]

            async def written(record: EditRecord) -> str:
                return await by_tool(record, is_dry=False)

            ways: dict[str, tuple[int, Ask]] = {
                "server": (server_pid, by_server),
                "mcp": (mcp_pid, by_tool),
                "written": (mcp_pid, written),
            }
            for _, ask in ways.values():
                await ask(records[0])
            wall: dict[str, dict[str, list[float]]] = {way: {} for way in ways}
            processor = dict.fromkeys(ways, 0.0)
            dice = random.Random(seed)
            for _ in range(rounds):
                for record in records:
                    answers = {}
                    for way, (pid, ask) in dice.sample(list(ways.items()), len(ways)):
                        before, began = processor_s(pid), time.perf_counter()
                        answers[way] = await ask(record)
                        wall[way].setdefault(record.id, []).append(time.perf_counter() - began)
                        await anyio.sleep(0.02)  # what goes on after the answer counts, too
                        processor[way] += processor_s(pid) - before
                    if len(set(answers.values())) > 1 and not answers["server"].startswith("diff "):
                        print(record.id, {way: text[:60] for way, text in answers.items()}, file=sys.stderr)
    return {
        "wall_s": {way: {name: min(times) for name, times in by_id.items()} for way, by_id in wall.items()},
        "processor_s": processor,
    }


def summary(found: dict[str, Any]) -> list[tuple[str, ...]]:
    """A row for each way: median and sum of the walls, processor time, and how many times the server's each is."""
    rows: list[tuple[str, ...]] = []
    server = found["wall_s"]["server"]
    for way, wall in found["wall_s"].items():
        ratios = [wall[name] / server[name] for name in server]
        processor = found["processor_s"]
        rows.append(
            (
                way,
                f"{1000 * statistics.median(wall.values()):.1f}",
                f"{statistics.median(ratios):.2f}",
                f"{sum(wall.values()) / sum(server.values()):.2f}",
                f"{processor[way] / processor['server']:.2f}",
            )
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edits", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, default=OWN_EDITS)
    options = parser.parse_args()
    records = [record for record in read_records(options.data) if record.update]
    records = random.Random(options.seed).sample(records, min(options.edits, len(records)))
    found = anyio.run(measure, records, options.rounds, options.seed)
    print(f"load average: {os.getloadavg()[0]:.1f}\n")
    print(table([HEAD, *summary(found)]))


if __name__ == "__main__":
    main()

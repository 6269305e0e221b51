"""A server in a process of its own, for measurements over HTTP: started, watched through `/metrics`, stopped."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 300.0


class Server(NamedTuple):
    """A running server."""

    url: str
    pid: int


@contextmanager
def serving(options: Sequence[str]) -> Iterator[Server]:
    """Run `apply-service serve` on a free loopback port, and stop it at the end.

    Raises:
        RuntimeError: it does not come up, or does not stop gracefully.
    """
    command = [sys.executable, "-m", "apply_service.cli", "serve", "--port", "0", "--log-level", "warning", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Server(_url(process), process.pid)
            process.terminate()
            if (code := process.wait(STOP_TIMEOUT_S)) != 0:
                raise RuntimeError(f"the server ended with code {code}")
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"the server did not stop within {STOP_TIMEOUT_S:g} s") from None
        finally:
            process.kill()


def _url(process: subprocess.Popen[str]) -> str:
    """Where the server listens, from what it prints; the rest of its output is passed on."""
    assert process.stderr is not None
    lines: list[str] = []
    timer = threading.Timer(START_TIMEOUT_S, process.kill)
    timer.start()
    for line in process.stderr:
        lines.append(line)
        if line.startswith("Serving "):
            timer.cancel()
            threading.Thread(target=sys.stderr.writelines, args=(process.stderr,), daemon=True).start()
            return line.split(" on ")[1].strip()
    raise RuntimeError("the server did not come up: " + "".join(lines))


def ready_s(pid: int) -> dict[str, float]:
    """For each thread of a process, the seconds that it has stood ready while no processor was free; empty where Linux
    is not."""
    found = {}
    for place in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):  # the thread has ended
            found[place.parent.name] = int(place.read_text().split()[1]) / 1e9
    return found


class Gauges(NamedTuple):
    """What the server says of itself at one moment; `at_s`: seconds since the watch began."""

    at_s: float
    memory_mb: float
    queue_length: int
    n_active: int


def read_gauges(url: str, started: float) -> Gauges:
    """The server's gauges now; `started` as `time.monotonic()` gave it."""
    with urlopen(f"{url}/metrics", timeout=30) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    values = {one.name: one.value for family in families for one in family.samples if not one.labels}
    return Gauges(
        round(time.monotonic() - started, 1),
        round(values["process_resident_memory_bytes"] / 2**20, 1),
        int(values["apply_queue_length"]),
        int(values["apply_active_edits"]),
    )


@contextmanager
def watched(url: str, interval_s: float = 2.0) -> Iterator[list[Gauges]]:
    """Reads the gauges every `interval_s` seconds, in a thread, into the list that it gives."""
    found: list[Gauges] = []
    started, is_over = time.monotonic(), threading.Event()

    def watch() -> None:
        while not is_over.wait(interval_s):
            with suppress(OSError):  # a missing reading is a gap in the record, no reason to stop
                found.append(read_gauges(url, started))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()

"""A server in a process of its own, for measurements over HTTP: started, watched through `/metrics`, stopped."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 300.0


class Gauges(NamedTuple):
    """What the server says of itself at one moment."""

    at_s: float
    """Seconds since the watch began."""
    memory_mb: float
    queue_length: int
    n_active: int
    n_files: int
    """Open file descriptors."""


@contextmanager
def serving(options: Sequence[str]) -> Iterator[str]:
    """Run `apply-service serve` on a free loopback port; gives its URL, and stops it at the end.

    Raises:
        RuntimeError: it does not come up, or does not stop gracefully.
    """
    command = [sys.executable, "-m", "apply_service.cli", "serve", "--port", "0", "--log-level", "warning", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield _url(process)
            process.terminate()
            if (code := _exit_code(process)) != 0:
                raise RuntimeError(f"the server ended with code {code}")
        finally:
            process.kill()


def read_gauges(url: str, started: float) -> Gauges:
    """The server's gauges now; `started` as `time.monotonic()` gave it."""
    with urlopen(f"{url}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    values = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.labels
    }
    return Gauges(
        round(time.monotonic() - started, 1),
        round(values["process_resident_memory_bytes"] / 2**20, 1),
        int(values["apply_queue_length"]),
        int(values["apply_active_edits"]),
        int(values["process_open_fds"]),
    )


class Watch:
    """Reads the gauges every `interval_s` seconds, in a thread, until it is left."""

    def __init__(self, url: str, interval_s: float = 2.0) -> None:
        self.gauges: list[Gauges] = []
        self._url = url
        self._interval_s = interval_s
        self._started = time.monotonic()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(self._interval_s):
            try:
                self.gauges.append(read_gauges(self._url, self._started))
            except (URLError, TimeoutError, OSError):
                continue  # a missing reading is a gap in the record, no reason to stop


def _url(process: subprocess.Popen[str]) -> str:
    """Where the server listens, from what it prints; the rest of its output is passed on."""
    assert process.stderr is not None
    lines: list[str] = []
    timer = threading.Timer(START_TIMEOUT_S, process.kill)
    timer.start()
    for line in process.stderr:
        lines.append(line)
        if line.startswith("serving "):
            timer.cancel()
            threading.Thread(target=_pass_on, args=(process,), daemon=True).start()
            return line.split(" on ")[1].strip()
    raise RuntimeError("the server did not come up: " + "".join(lines))


def _exit_code(process: subprocess.Popen[str]) -> int:
    """
    Raises:
        RuntimeError: it runs on.
    """
    try:
        return process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"the server did not stop within {STOP_TIMEOUT_S:g} s") from None


def _pass_on(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        sys.stderr.write(line)

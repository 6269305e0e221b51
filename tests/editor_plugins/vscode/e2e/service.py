"""A real `apply-service serve` with the embedded model, as a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apply_service.clients.http import HttpClient
from apply_service.types import ApplyRequest
from tests.editor_plugins.vscode.e2e.code_server import ROOT, free_port, stop, wait_for_port

WARM_UP_S = 580.0


EXAMPLE = ROOT / "benchmarks" / "example"
ORIGINAL = (EXAMPLE / "cart.py").read_bytes()
MERGED = (EXAMPLE / "merged.py").read_bytes()
UPDATE = (EXAMPLE / "update.txt").read_text(encoding="utf-8")


@dataclass(frozen=True)
class LiveService:
    """A running one."""

    url: str
    process: subprocess.Popen[bytes]


@contextlib.contextmanager
def running_service(folder: Path, *options: str, key: str | None = None) -> Iterator[LiveService]:
    """Serve on a free loopback port.  It has answered once: loading the model is over.  `folder`: scratch."""
    port = free_port()
    command = [sys.executable, "-m", "apply_service.cli", "serve", "--port", str(port)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("APPLY_")}
    environment |= {"OMP_NUM_THREADS": "1", "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with (folder / f"service-{port}.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--drain-timeout-s", "0", *options], env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            wait_for_port(port, process)
            url = f"http://127.0.0.1:{port}"
            first = ApplyRequest(original="a = 1\n", update="a = 2\n", strategy="model", timeout_s=WARM_UP_S)
            HttpClient(url, api_key=key).apply(first)
            yield LiveService(url, process)
        finally:
            stop(process)

"""A real `apply-service serve` with the embedded model, as a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.editor_plugins.vscode.e2e.code_server import free_port, stop, wait_for_port


@contextlib.contextmanager
def running_service(folder: Path, *options: str, port: int | None = None) -> Iterator[str]:
    """Serve on a free loopback port; gives the URL.  `folder`: scratch, for its state and its log."""
    port = free_port() if port is None else port
    command = [sys.executable, "-m", "apply_service.cli", "serve", "--port", str(port), "--torch-threads", "1"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("APPLY_")}
    environment |= {"OMP_NUM_THREADS": "1", "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with (folder / f"service-{port}.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--drain-timeout-s", "0", *options], env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            wait_for_port(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            stop(process)

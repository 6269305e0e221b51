"""vLLM servers for a measurement: each in a process of its own, from an environment of its own, on loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

START_TIMEOUT_S = 1200.0
STOP_TIMEOUT_S = 60.0
ON_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}
OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_HOST_IP": "127.0.0.1"}
COUNTERS = {
    "drafts": "vllm:spec_decode_num_drafts_total",
    "drafted": "vllm:spec_decode_num_draft_tokens_total",
    "accepted": "vllm:spec_decode_num_accepted_tokens_total",
}


class Server(NamedTuple):
    name: str
    url: str
    """Up to the port."""
    process: subprocess.Popen[bytes]


@contextmanager
def started(
    python: Path, model: Path, methods: Mapping[str, str | None], logs: Path, options: Sequence[str] = ()
) -> Iterator[dict[str, Server]]:
    """A server for each method (`--speculative-config`, None: none), all up at once; stopped at the end.

    Raises:
        RuntimeError: one ends before it answers, or does not answer in time.
    """
    servers: dict[str, Server] = {}
    try:
        for name, method in methods.items():
            servers[name] = _start(name, method, python, model, logs, options)
        for server in servers.values():
            _wait(server, logs)
        yield servers
    finally:
        for server in servers.values():
            server.process.terminate()
        for server in servers.values():
            with suppress(subprocess.TimeoutExpired):
                server.process.wait(STOP_TIMEOUT_S)
            server.process.kill()


def _start(name: str, method: str | None, python: Path, model: Path, logs: Path, options: Sequence[str]) -> Server:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--dtype", "float32", "--enforce-eager", "--no-enable-prefix-caching", *options]
    command += [] if method is None else ["--speculative-config", method]
    environment = {**os.environ, **ON_CPU, **OFFLINE, "VLLM_PLUGINS": "apply_service"}
    with (logs / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    return Server(name, f"http://127.0.0.1:{port}", process)


def _wait(server: Server, logs: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        with suppress(URLError, OSError):
            urlopen(f"{server.url}/health", timeout=5)
            return
        if server.process.poll() is not None:
            break
        time.sleep(1.0)
    tail = (logs / f"{server.name}.log").read_text(errors="replace")[-3000:]
    raise RuntimeError(f"vLLM ({server.name}) did not start:\n{tail}")


def counters(server: Server) -> dict[str, int]:
    """What vLLM counts of its drafts since it started; zeros where it does not draft."""
    with urlopen(f"{server.url}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
    return {key: int(sum(one.value for one in samples if one.name == name)) for key, name in COUNTERS.items()}


def version_of(server: Server) -> str:
    with urlopen(f"{server.url}/version", timeout=60) as answer:
        return str(json.load(answer)["version"])

"""A fleet on Ray Serve, on this machine alone, for tests: started, a server killed, stopped.

Ray listens on all interfaces: run it where there is only loopback (`unshare -n bash -c 'ip link set lo up; ...'`).
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import ray
from ray import serve

from apply_service.deploy.ray_app import build_app

NAME = "apply"
LOGICAL_CPUS = 8
"""What Ray is told: replicas of both versions must find a place during an update, whatever the machine has."""
STORE_BYTES = 100 * 2**20
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_raylet_start_wait_time_s": "300",
    "RAY_worker_niceness": "0",
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "300",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "120",
    "RAY_SERVE_QUEUE_LENGTH_RESPONSE_DEADLINE_S": "5",
    "RAY_SERVE_MAX_QUEUE_LENGTH_RESPONSE_DEADLINE_S": "30",
}
"""No token, as only loopback reaches it; a machine that is busy with other things is slow, not broken; and replicas are
as important as anything else on it (Ray would have them wait for all others)."""
PORTS = (
    "port",
    "dashboard-agent-grpc-port",
    "dashboard-agent-listen-port",
    "runtime-env-agent-port",
    "metrics-export-port",
    "ray-client-server-port",
)
START_TIMEOUT_S = 900.0
STOP_TIMEOUT_S = 60.0


def states() -> dict[str, int]:
    """How many servers are in which state, by Ray's name for it."""
    found = serve.status().applications[NAME].deployments["Server"].replica_states
    return {str(state): int(n) for state, n in found.items()}


@contextmanager
def local_fleet(n_servers: int = 2) -> Iterator[str]:
    """The URL of a fleet of servers with the embedded model; it and all of Ray are stopped at the end."""
    os.environ.update(ENVIRONMENT)  # of Ray's processes
    with TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder, _head_node(Path(folder)) as address:
        ray.init(address, log_to_driver=False)
        try:
            port = _free_ports(1)[0]
            serve.start(http_options={"host": "127.0.0.1", "port": port})
            app = build_app({"allow_open": True, "log_level": "warning", "kv_cache_mb": 256})
            deployment = app._bound_deployment.options(num_replicas=n_servers, autoscaling_config=None)
            serve.run(deployment.bind(*app._bound_deployment.init_args), name=NAME)
            yield f"http://127.0.0.1:{port}"
            serve.shutdown()
        finally:
            ray.shutdown()


@contextmanager
def _head_node(folder: Path) -> Iterator[str]:
    """Ray's own processes; gives the address.  All ports are named: raylet waits but fifteen seconds for agents that
    choose theirs, which a busy machine misses."""
    options = {name: str(port) for name, port in zip(PORTS, _free_ports(len(PORTS)), strict=True)}
    options |= {"num-cpus": str(LOGICAL_CPUS), "object-store-memory": str(STORE_BYTES), "temp-dir": str(folder)}
    options |= {"node-ip-address": "127.0.0.1", "include-dashboard": "false"}
    command = [
        sys.executable,
        "-m",
        "ray.scripts.scripts",
        "start",
        "--head",
        "--block",
        "--disable-usage-stats",
        "--no-monitor",
    ]
    command += [f"--{name}={value}" for name, value in options.items()]
    with (folder / "head.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            address = f"127.0.0.1:{options['port']}"
            _wait_for(lambda: "Ray runtime started" in (folder / "head.log").read_text(), process)
            yield address
        finally:
            process.terminate()
            process.wait(STOP_TIMEOUT_S)


def _wait_for(is_true: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Raises RuntimeError where it does not come true while the process runs."""
    started = time.monotonic()
    while not is_true():
        if process.poll() is not None or time.monotonic() - started > START_TIMEOUT_S:
            raise RuntimeError(f"Ray did not start within {START_TIMEOUT_S:g} s, or ended")
        time.sleep(0.2)


def server_pids() -> list[int]:
    """Processes of servers that this process is an ancestor of."""
    parents = dict(_processes())
    found = []
    for pid, (_, title) in parents.items():
        if f"ServeReplica:{NAME}:Server" in title and os.getpid() in _ancestors(pid, parents):
            found.append(pid)
    return sorted(found)


def _ancestors(pid: int, parents: Mapping[int, tuple[int, str]]) -> Iterator[int]:
    while pid in parents:
        pid = parents[pid][0]
        yield pid


def _processes() -> Iterator[tuple[int, tuple[int, str]]]:
    """Process id -> its parent's, and its title."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                status = (folder / "stat").read_text()
                title = (folder / "cmdline").read_bytes().decode("utf-8", "replace")
            except OSError:
                continue  # it has ended meanwhile
            yield int(folder.name), (int(status.rpartition(")")[2].split()[1]), title)


def _free_ports(n: int) -> list[int]:
    """Different ones: all are held until the last is found."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(n)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]

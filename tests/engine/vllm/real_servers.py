"""vLLM servers for tests, each in a process of its own, from an environment of its own, on loopback; and one edit
written by such a server: token ids in, token ids out, and when they came."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from apply_service.engine.vllm.message import encode_edit
from apply_service.errors import Truncated
from apply_service.protocols import EditJob, PromptFormat

TIMEOUT_S = 900.0
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


# -- one edit ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Case:
    """An edit, its prompt, how much may be written, and what is right."""

    id: str
    job: EditJob
    prompt_ids: tuple[int, ...]
    max_tokens: int
    prompt_format: PromptFormat
    after: str

    def is_right(self, ids: Sequence[int]) -> bool:
        try:
            return self.prompt_format.decode_output(ids) == self.after
        except Truncated:
            return False


@dataclass(frozen=True, slots=True)
class Written:
    """`ids`, the end token included where it came; `puts`: seconds since the request and tokens, step by step (a server
    that falls behind joins several)."""

    ids: list[int]
    puts: list[tuple[float, int]]
    total_s: float
    is_cut: bool


def write(server: Server, case: Case, *, is_told: bool) -> Written:
    """Let the server write the edit, greedily.  Raises httpx2.HTTPError."""
    body = _body(case, case.prompt_ids, case.max_tokens) | {"stream": True, "return_token_ids": True}
    if is_told:
        body["vllm_xargs"] = encode_edit(case.job)
    ids: list[int] = []
    puts: list[tuple[float, int]] = []
    with httpx2.Client(timeout=TIMEOUT_S, trust_env=False) as client:
        started = time.perf_counter()
        with client.stream("POST", f"{server.url}/v1/completions", json=body) as response:
            if response.status_code != 200:
                raise RuntimeError(f"{server.name}: {response.read().decode()[:500]}")
            for line in response.iter_lines():
                new = _token_ids(line)
                if new:
                    puts.append((time.perf_counter() - started, len(new)))
                    ids += new
        total_s = time.perf_counter() - started
    return Written(ids, puts, total_s, ids[-1] not in case.prompt_format.stop_ids)


def gap_at(server: Server, case: Case, written: Sequence[int]) -> float | None:
    """By how much the server prefers its first choice over its second after `written`: nats; None where it can't go
    on there."""
    if len(written) >= case.max_tokens:
        return None
    body = _body(case, (*case.prompt_ids, *written), 1) | {"logprobs": 2}
    with httpx2.Client(timeout=TIMEOUT_S, trust_env=False) as client:
        answer = client.post(f"{server.url}/v1/completions", json=body).json()
    best = sorted(answer["choices"][0]["logprobs"]["top_logprobs"][0].values(), reverse=True)
    return round(best[0] - best[1], 7) if len(best) > 1 else None


def _body(case: Case, prompt_ids: Sequence[int], max_tokens: int) -> dict[str, Any]:
    return {
        "prompt": list(prompt_ids),
        "max_tokens": max_tokens,
        "temperature": 0,
        "stop_token_ids": sorted(case.prompt_format.stop_ids),
        "skip_special_tokens": False,
    }


def _token_ids(line: str) -> list[int]:
    data = line.removeprefix("data:").strip()
    if not line.startswith("data:") or data == "[DONE]":
        return []
    choices = json.loads(data).get("choices") or [{}]
    return list(choices[0].get("token_ids") or [])

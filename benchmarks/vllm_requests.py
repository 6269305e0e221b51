"""One edit written by a vLLM server: token ids in, token ids out, and when they came."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx2

from apply_service.engine.vllm.message import encode_edit
from apply_service.errors import Truncated
from apply_service.protocols import EditJob, PromptFormat
from benchmarks.vllm_servers import Server

TIMEOUT_S = 900.0


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

    def as_row(self) -> dict[str, Any]:
        """Speed is counted after the first put, which holds the reading of the prompt."""
        decode_s = self.puts[-1][0] - self.puts[0][0]
        n_timed = len(self.ids) - self.puts[0][1]
        return {
            "n_tokens": len(self.ids),
            "n_steps": len(self.puts),
            "n_timed": n_timed,
            "first_s": round(self.puts[0][0], 5),
            "decode_s": round(decode_s, 5),
            "total_s": round(self.total_s, 5),
            "tok_s": n_timed / decode_s if decode_s > 0 else None,
            "is_cut": self.is_cut,
        }


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

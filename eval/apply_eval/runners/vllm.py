"""vLLM on the same target as a peer: token ids in, token ids out, over its completions endpoint.

vLLM runs elsewhere, in its own environment, started by the user with the speculative method that the peer is named
after; we send the very prompt that our own engine gets and read the tokens as they come.  An event of the stream is
counted as a pass: a server that falls behind joins several, so the count is a lower bound.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import httpx2

from apply_eval.datasets import EditRecord
from apply_eval.runners.answer import MISSING_OVER_HTTP, Answer
from apply_eval.runners.elsewhere import Generated, answer_elsewhere, cut, timed
from apply_eval.runners.request import RequestOptions
from apply_eval.transports.http import open_client, refuse_bad_status, translated
from apply_service.decoding.verify import Decoding
from apply_service.engine.vllm.message import encode_edit
from apply_service.errors import MissingDependency, Unreachable, UnsupportedParameter
from apply_service.protocols import EditJob
from apply_service.runtime import Runtime
from apply_service.target import Target

OURS = "vllm-merged-edit"
METHODS: Mapping[str, str | None] = {
    "vllm": None,
    "vllm-ngram": '{"method": "ngram", "num_speculative_tokens": 10, "prompt_lookup_max": 4}',
    "vllm-suffix": '{"method": "suffix", "num_speculative_tokens": 32}',
    OURS: '{"method": "custom_class", "model": "apply_service.engine.vllm.proposer.MergedEditProposer", '
    '"num_speculative_tokens": 127}',
}
"""Peers, and what vLLM is to be started with (`--speculative-config`)."""


class Vllm:
    """One vLLM server."""

    is_concurrent = True
    missing = MISSING_OVER_HTTP

    def __init__(self, name: str, url: str | None, runtime: Runtime, *, options: RequestOptions) -> None:
        """Raises MissingDependency where no URL was given, Unreachable where none answers there, UnsupportedParameter
        under a constraint."""
        if url is None:
            raise _not_named(name)
        if options.constrain != "none":
            raise UnsupportedParameter(
                f"{name} can't decode under our constraint",
                value=options.constrain,
                limit="none",
                remedy="use --constrain none, for all contestants of the run",
            )
        self.name = name
        self._runtime = runtime
        self._options = options
        self._client = open_client(url, timeout_s=options.timeout_s)
        self._model = self._find_model(url)

    def answer(self, record: EditRecord) -> Answer:
        return answer_elsewhere(
            record,
            self._runtime,
            self._generate,
            name=self.name,
            options=self._options,
            is_drafted=METHODS[self.name] is not None,
        )

    def close(self) -> None:
        self._client.close()

    def _find_model(self, url: str) -> str:
        try:
            with translated(url):
                response = self._client.get("models")
                refuse_bad_status(response)
                return str(response.json()["data"][0]["id"])
        except Unreachable as error:
            raise Unreachable(f"{self.name}: {error.message}", value=url, remedy=start_line(self.name)) from error

    def _generate(self, _: Target, decoding: Decoding, job: EditJob) -> Generated:
        body: dict[str, Any] = {
            "model": self._model,
            "prompt": list(decoding.prompt_ids),
            "max_tokens": decoding.max_new_tokens,
            "temperature": 0,
            "stop_token_ids": sorted(decoding.stop_ids),
            "skip_special_tokens": False,
            "return_token_ids": True,
            "stream": True,
        }
        if self.name == OURS:
            body["vllm_xargs"] = encode_edit(job)
        ids: list[int] = []
        puts: list[tuple[float, int]] = []
        started = time.perf_counter()
        with translated(str(self._client.base_url)), self._client.stream("POST", "completions", json=body) as response:
            refuse_bad_status(response)
            for new_ids in _token_ids(response):
                puts.append((time.perf_counter() - started, len(new_ids)))
                ids += new_ids
        if not ids:
            raise Unreachable("vLLM sent no tokens", value=self.name, remedy="use a version with return_token_ids")
        stopped_at = None if decoding.find_stop is None else decoding.find_stop(ids)
        return timed(cut(ids, decoding, stopped_at), puts)


def _token_ids(response: httpx2.Response) -> Iterator[list[int]]:
    """The ids of each event of the stream."""
    for line in response.iter_lines():
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or data == "[DONE]":
            continue
        choices: list[Any] = json.loads(data).get("choices") or []
        new_ids = choices[0].get("token_ids") if choices else None
        if new_ids:
            yield [int(token) for token in new_ids]


def _not_named(name: str) -> MissingDependency:
    return MissingDependency(f"no server was named for the peer {name}", value=name, remedy=start_line(name))


def start_line(name: str) -> str:
    """How to start the vLLM that the peer needs, and how to name it."""
    method = METHODS[name]
    speculative = "" if method is None else f" --speculative-config '{method}'"
    return (
        "start vLLM in an environment of its own on the same model: python -m vllm.entrypoints.openai.api_server "
        f"--model DIR --port 8100 --no-enable-prefix-caching{speculative}; then say --peers {name}=http://127.0.0.1:8100"
    )

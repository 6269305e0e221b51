"""A target's tokens decoded by somebody else's loop: the library's `generate`, and vLLM.

Everything around the decoding is ours, so that answers compare: reading, prompt, stop rule, byte restoring and checks.
The other loop gets prompt ids and limits and gives back output ids.  Always the target's own answer (strategy `model`).
"""

from __future__ import annotations

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import httpx2

from apply_eval.datasets import EditRecord
from apply_eval.runners import (
    MISSING_IN_PROCESS,
    MISSING_OVER_HTTP,
    Answer,
    RequestOptions,
    answer_of_result,
    request_of,
)
from apply_eval.services import open_client, refuse_bad_status, translated
from apply_service.decoding.verify import Decoding
from apply_service.engine.kv_cache import refuse_over_limit
from apply_service.engine.vllm.message import encode_edit
from apply_service.errors import (
    MissingDependency,
    Truncated,
    Unreachable,
    UnsupportedParameter,
)
from apply_service.pipeline import finish, read_request
from apply_service.prompts.chat import BegunChat
from apply_service.protocols import EditJob
from apply_service.strategies import Outcome
from apply_service.target import Runtime, Target, in_process, open_decoding
from apply_service.types import DecodeStats


class Generated(NamedTuple):
    """What somebody's loop wrote, the stop token included, and when."""

    ids: list[int]
    passes: int
    ttft_s: float
    tok_s: float | None
    """After the first pass, which holds the prefill; None where it wrote all."""


class Elsewhere(ABC):
    """A runner whose tokens another loop decodes on the runtime's target.

    How many tokens that loop drafted is not known; a pass that gave n tokens accepted n - 1 of them.
    """

    def __init__(self, name: str, runtime: Runtime, options: RequestOptions, *, is_drafted: bool) -> None:
        self.name, self._runtime, self._options, self._is_drafted = name, runtime, options, is_drafted

    @abstractmethod
    def _generate(self, target: Target, decoding: Decoding, job: EditJob) -> Generated:
        """Decode the decoding's prompt, which asks for the job, up to its stop.  Raises ApplyError."""

    def answer(self, record: EditRecord) -> Answer:
        request = replace(request_of(record, self._options, drafter="none"), strategy="model")
        started = time.perf_counter()
        edit = read_request(request, self._runtime)
        job = edit.job
        target = in_process(self._runtime.load(self._runtime.models[0]))
        decoding = open_decoding(job, request, target, request.drafter or self._runtime.default_drafter)
        n_prompt = len(decoding.prompt_ids)
        refuse_over_limit(n_prompt, decoding.max_new_tokens, target.engine.context_limit)
        before_s = time.perf_counter() - started
        generated = self._generate(target, decoding, job)
        merged = target.prompt_format.decode_output(generated.ids)
        stats = DecodeStats(prompt_tokens=n_prompt, completion_tokens=len(generated.ids))
        outcome = Outcome(merged, "model", stats, target.info, self.name, agreement=merged == job.prediction.text)
        result = finish(request, edit, outcome)
        latency_s = time.perf_counter() - started
        return replace(
            answer_of_result(result, latency_s=latency_s, ttft_s=before_s + generated.ttft_s),
            tok_s=generated.tok_s,
            passes=generated.passes,
            n_drafted=None if self._is_drafted else 0,
            n_accepted=len(generated.ids) - generated.passes if self._is_drafted else 0,
            rejections=None if self._is_drafted else 0,
        )


def truncated(decoding: Decoding, n_tokens: int) -> Truncated:
    """The error for an output that never was complete."""
    return Truncated("the output reached its token limit", value=n_tokens, limit=decoding.max_new_tokens)


# -- the library -------------------------------------------------------------------------------------------------------
PROMPT_LOOKUPS: Mapping[str, int] = {"hf-prompt-lookup": 10, "hf-prompt-lookup-128": 128}
"""The library's prompt lookup, and how many tokens it drafts: its documentation's own choice, and what suits edits."""


class HfGenerate(Elsewhere):
    """The library's own `generate` on the same weights, prompt and output limit, one request at a time.  `n_lookup`
    None: plain decoding; else prompt lookup with so many tokens."""

    missing = MISSING_IN_PROCESS

    def __init__(self, name: str, runtime: Runtime, *, options: RequestOptions, n_lookup: int | None = None) -> None:
        """Raises ModuleNotFoundError where torch is not installed."""
        from apply_eval import library

        self._library = library
        super().__init__(name, runtime, options, is_drafted=n_lookup is not None)
        self._n_lookup = n_lookup

    def close(self) -> None:
        """Nothing is held."""

    def _generate(self, target: Target, decoding: Decoding, _: EditJob) -> Generated:
        engine: Any = target.engine
        known = self._library.known_answer(engine, decoding.prompt_ids)
        run = self._library.generate(
            self._library.library_model(engine),
            [decoding.prompt_ids],
            max_new_tokens=decoding.max_new_tokens,
            stop_ids=sorted(decoding.stop_ids),
            answers=None if known is None else [known],
            prompt_lookup=self._n_lookup,
            find_stop=decoding.find_stop,
            constraint=decoding.constraint,
        )
        if not run.is_complete:
            raise truncated(decoding, len(run.output_ids[0]))
        tok_s = run.n_tokens / run.decode_s if run.n_tokens else None
        return Generated(list(run.output_ids[0]), len(run.forwards), run.first_token_s, tok_s)


# -- vLLM --------------------------------------------------------------------------------------------------------------
OURS = "vllm-merged-edit"
METHODS: Mapping[str, str | None] = {
    "vllm": None,
    "vllm-ngram": '{"method": "ngram", "num_speculative_tokens": 10, "prompt_lookup_max": 4}',
    "vllm-ngram-128": '{"method": "ngram", "num_speculative_tokens": 128, "prompt_lookup_min": 7, '
    '"prompt_lookup_max": 7}',
    "vllm-suffix": '{"method": "suffix", "num_speculative_tokens": 32}',
    OURS: '{"method": "custom_class", "model": "apply_service.engine.vllm.proposer.MergedEditProposer", '
    '"num_speculative_tokens": 127}',
}
"""Peers, and what vLLM is to be started with (`--speculative-config`)."""


class Vllm(Elsewhere):
    """One vLLM server, started by the user with the speculative method that the peer is named after.  Token ids go in
    and come out, over its completions endpoint.  An event of the stream counts as a pass: a server that falls behind
    joins several, so the count is a lower bound."""

    missing = MISSING_OVER_HTTP

    def __init__(self, name: str, url: str | None, runtime: Runtime, *, options: RequestOptions) -> None:
        """Raises MissingDependency where no URL was given, Unreachable where none answers there, UnsupportedParameter
        under a constraint."""
        if url is None:
            message = f"no server was named for the peer {name}"
            raise MissingDependency(message, value=name, remedy=start_line(name))
        if options.constrain != "none":
            raise UnsupportedParameter(
                f"{name} can't decode under our constraint",
                value=options.constrain,
                limit="none",
                remedy="use --constrain none, for all contestants of the run",
            )
        super().__init__(name, runtime, options, is_drafted=METHODS[name] is not None)
        self._client = open_client(url, timeout_s=options.timeout_s)
        self.clock: Callable[[], float] = time.perf_counter
        self.close = self._client.close
        try:
            with translated(url):
                response = self._client.get("models")
                refuse_bad_status(response)
                self._model = str(response.json()["data"][0]["id"])
        except Unreachable as error:
            raise Unreachable(f"{name}: {error.message}", value=url, remedy=start_line(name)) from error

    def _generate(self, target: Target, decoding: Decoding, job: EditJob) -> Generated:
        generated, is_complete = self.write(target, decoding, job)
        if not is_complete:
            raise truncated(decoding, len(generated.ids))
        return generated

    def write(self, target: Target, decoding: Decoding, job: EditJob) -> tuple[Generated, bool]:
        """Return what the server writes, timed by `clock`, and whether it came to its end.  Raises ApplyError."""
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
            asked = target.prompt_format.name
            body["vllm_xargs"] = encode_edit(job, asked if asked == BegunChat.name else None)
        ids: list[int] = []
        puts: list[tuple[float, int]] = []
        started = self.clock()
        with translated(str(self._client.base_url)), self._client.stream("POST", "completions", json=body) as response:
            refuse_bad_status(response)
            for new_ids in _token_ids(response):
                puts.append((self.clock() - started, len(new_ids)))
                ids += new_ids
        if not ids:
            raise Unreachable("vLLM sent no tokens", value=self.name, remedy="use a version with return_token_ids")
        ends = [i for i, token in enumerate(ids) if token in decoding.stop_ids]
        if decoding.find_stop is not None and (found := decoding.find_stop(ids)) is not None:
            ends.append(found)
        ids = ids[: min(ends, default=len(ids)) + 1]
        first_s, n_first = puts[0]
        after_s, n_after = puts[-1][0] - first_s, len(ids) - n_first
        tok_s = n_after / after_s if n_after > 0 and after_s > 0 else None
        return Generated(ids, len(puts), first_s, tok_s), bool(ends)

    def count_drafts(self) -> tuple[int, int]:
        """Return how many tokens the server has drafted since it started, and how many of these it accepted."""
        text = self._client.get(self._client.base_url.copy_with(path="/metrics")).text
        drafted, accepted = (
            sum(float(n) for n in re.findall(rf"^vllm:spec_decode_num_{kind}_tokens_total\S* (\S+)$", text, re.M))
            for kind in ("draft", "accepted")
        )
        return int(drafted), int(accepted)


def _token_ids(response: httpx2.Response) -> Iterator[list[int]]:
    """The ids of each event of the stream."""
    for line in response.iter_lines():
        data = line.removeprefix("data:").strip()
        if line.startswith("data:") and data != "[DONE]":
            choices: list[Any] = json.loads(data).get("choices") or []
            if choices and (new_ids := choices[0].get("token_ids")):
                yield [int(token) for token in new_ids]


def start_line(name: str) -> str:
    """How to start the vLLM that the peer needs, and how to name it."""
    method = METHODS[name]
    speculative = "" if method is None else f" --speculative-config '{method}'"
    return (
        "start vLLM in an environment of its own on the same model: python -m vllm.entrypoints.openai.api_server "
        f"--model DIR --port 8100 --no-enable-prefix-caching{speculative}; then say --peers {name}=http://127.0.0.1:8100"
    )

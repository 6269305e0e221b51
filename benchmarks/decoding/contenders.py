"""Ways to decode an edit, each as a timed run on one edit or on several together: our engine with a drafter or without,
and the library's `generate`.

Knows no merger and no parser, so that it runs where only the target's libraries are installed.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import torch

from apply_eval.library import generate, library_model
from apply_eval.provenance import hardware
from apply_eval.replay import ReplayEngine
from apply_service.decoding.scheduler import Scheduler
from apply_service.decoding.verify import Decoding
from apply_service.engine.loading import pick_device
from apply_service.engine.torch_local import TorchEngine
from apply_service.errors import EngineFailure
from apply_service.protocols import EditJob
from apply_service.target import Target, open_decoding
from apply_service.types import ApplyRequest
from benchmarks.decoding.samples import LOOKUP_PEER, PLAIN_ENGINE, PLAIN_PEER, UNDRAFTED, WIDE_LOOKUP_PEER, Sample

LOOKUP_TOKENS: Mapping[str, int | None] = {PLAIN_PEER: None, LOOKUP_PEER: 10, WIDE_LOOKUP_PEER: 128}
"""The library's contenders, and how many tokens each drafts from the prompt; None: it decodes plainly."""
WARM_UP_TOKENS = 24


@dataclass(frozen=True, slots=True)
class Case:
    """One edit as one target sees it.  `answer_ids` is what a replay target is to write; None: the target decides.
    `n_output` is the most tokens that the output may take."""

    id: str
    request: ApplyRequest
    job: EditJob
    after: str
    """The wanted text, with LF line ends."""
    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...] | None
    n_output: int
    reread: Callable[[], EditJob]
    """The edit read as for a new request: what a request pays before its prompt."""

    @property
    def n_needed(self) -> int:
        """Tokens of context that it takes."""
        return len(self.prompt_ids) + self.n_output


@dataclass(frozen=True, slots=True)
class EngineContender:
    """`drafter` on `target`, whose engine is the padded one, or for undrafted decoding its `plain`."""

    name: str
    target: Target
    drafter: str

    def run(self, cases: Sequence[Case], group: str, *, cap: int | None) -> Sample:
        """Of a batch all prompts are read before the first token is written, so that all edits decode together; prompts
        that an earlier batch has read may come from the prefix cache.  An edit alone reads its prompt anew.
        """
        owner = "batches" if len(cases) > 1 else uuid4().hex
        started_s = time.perf_counter()
        with ExitStack() as stack:
            decodings = [stack.enter_context(self._open(case, cap, owner)) for case in cases]
            read_prompts(decodings)
            wait_for_device()
            decode_started_s = time.perf_counter()
            first_s = write_outputs(decodings)
            ended_s = time.perf_counter()
            outputs = [decoding.output_ids for decoding in decodings]
            stats = [decoding.stats for decoding in decodings]
            return Sample(
                **_about(self, cases, group, cap, outputs, started_s),
                n_prompt_tokens=sum(s.prompt_tokens for s in stats),
                n_tokens=sum(s.completion_tokens for s in stats),
                decode_s=ended_s - decode_started_s,
                first_token_s=statistics.median(first_s) - started_s,
                passes=sum(s.passes for s in stats),
                drafted=sum(s.drafted_tokens for s in stats),
                accepted=sum(s.accepted_tokens for s in stats),
                rejections=sum(s.rejections for s in stats),
                draft_s=sum(s.draft_s for s in stats),
            )

    def _open(self, case: Case, cap: int | None, owner: str) -> Decoding:
        limit = case.n_output if cap is None else min(cap, case.n_output)
        request = replace(case.request, drafter=self.drafter, max_tokens=limit, owner=owner)
        return open_decoding(case.reread(), request, self.target, self.drafter)


@dataclass(frozen=True, slots=True)
class PeerContender:
    """The library's `generate` on `model`, the target's own."""

    name: str
    target: Target
    model: Any

    def run(self, cases: Sequence[Case], group: str, *, cap: int | None) -> Sample:
        n_lookup = LOOKUP_TOKENS[self.name]
        started_s = time.perf_counter()
        prompts = [self.target.prompt_format.encode_prompt(case.reread()) for case in cases]
        front_s = time.perf_counter() - started_s
        run = generate(
            self.model,
            prompts,
            max_new_tokens=max(case.n_output for case in cases) if cap is None else cap,
            stop_ids=sorted(self.target.prompt_format.stop_ids),
            answers=[case.answer_ids for case in cases if case.answer_ids is not None] or None,
            prompt_lookup=n_lookup,
        )
        drafts = run.drafts if n_lookup else []
        return Sample(
            **_about(self, cases, group, cap, run.output_ids, started_s),
            n_prompt_tokens=sum(map(len, prompts)),
            n_tokens=run.n_tokens,
            decode_s=run.decode_s,
            first_token_s=front_s + run.first_token_s,
            passes=(len(run.forwards) - 1) * len(cases),
            drafted=sum(n for n, _ in drafts),
            accepted=sum(n for _, n in drafts),
            rejections=sum(accepted < drafted for drafted, accepted in drafts),
            draft_s=None if n_lookup else 0.0,
        )


def _about(
    contender: EngineContender | PeerContender,
    cases: Sequence[Case],
    group: str,
    cap: int | None,
    outputs: Sequence[Sequence[int]],
    started_s: float,
) -> dict[str, Any]:
    """What samples of both kinds say alike; decodes the outputs, with which the end-to-end time ends."""
    streams = [contender.target.prompt_format.open_stream() for _ in cases]
    texts = [stream.push(ids) + stream.finish() for stream, ids in zip(streams, outputs, strict=True)]
    end_to_end_s = time.perf_counter() - started_s
    right = [
        text == case.after if cap is None else case.after.startswith(text.rstrip("\ufffd"))  # a cut splits characters
        for text, case in zip(texts, cases, strict=True)
    ]
    return {
        "target": contender.target.name,
        "contender": contender.name,
        "batch": len(cases),
        "group": group,
        "n_chars": sum(map(len, texts)),
        "is_capped": cap is not None,
        "end_to_end_s": None if cap is not None else end_to_end_s,
        "n_exact": sum(right),
    }


def open_contender(name: str, target: Target, engine: Any) -> EngineContender | PeerContender:
    """By name: an undrafted one, one of the library's, or a drafter of ours; `engine` is the target's."""
    if name in LOOKUP_TOKENS:
        return PeerContender(name, target, library_model(engine))
    if name == PLAIN_ENGINE:
        return EngineContender(name, replace(target, engine=engine.plain()), "none")
    return EngineContender(name, target, name)


# -- decoding together -------------------------------------------------------------------------------------------------
def read_prompts(decodings: Sequence[Decoding]) -> None:
    """Prefill all of them, and no more: a prompt that is in the prefix cache as a whole takes no pass.

    Raises:
        EngineFailure: they do not fit together.
    """
    n_open = sum(decoding.admit() for decoding in decodings)
    if n_open < len(decodings):
        raise EngineFailure(
            "the engine has no room for the whole batch",
            value=len(decodings),
            limit=n_open,
            remedy="give it more memory for keys and values, or decode fewer edits together",
        )
    scheduler = Scheduler(on_failure=refuse)
    while reading := [d for d in decodings if d.session is not None and d.session.n_pending]:
        _raise_errors(scheduler.run_pass(reading, only_read=True))


def write_outputs(decodings: Sequence[Decoding]) -> list[float]:
    """Decode all of them to their ends; when each had its first token, on the clock of `perf_counter`."""
    scheduler = Scheduler(on_failure=refuse)
    first_s: dict[Decoding, float] = {}
    while active := [d for d in decodings if d.finish_reason is None]:
        outcomes = scheduler.run_pass(active)
        _raise_errors(outcomes)
        now_s = time.perf_counter()
        for decoding, outcome in zip(active, outcomes, strict=True):
            if outcome is not None:
                first_s.setdefault(decoding, now_s)
    return [first_s[decoding] for decoding in decodings]


def refuse(error: Exception) -> None:
    """Sequences whose pass failed would go on one by one: another thing than what is measured."""
    raise error


def _raise_errors(outcomes: Sequence[object]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


def wait_for_device() -> None:
    """Until a GPU has done what it was given: passes that only read prompts are not waited for by the engine."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()


def expect(engine: object, cases: Sequence[Case]) -> None:
    """Tell a replay target what it is to write."""
    for case in cases:
        if isinstance(engine, ReplayEngine) and case.answer_ids is not None:
            engine.answers.expect(case.prompt_ids, case.answer_ids)


def describe(name: str, engine: TorchEngine, cases: Sequence[Case]) -> dict[str, Any]:
    """The target and its edits, as they stand in the results."""
    outputs = [case.n_output if case.answer_ids is None else len(case.answer_ids) for case in cases]
    parameters = list(engine.model.parameters())
    return {
        "name": name,
        "is_replay": isinstance(engine, ReplayEngine),
        "n_params": sum(parameter.numel() for parameter in parameters),
        "dtype": str(parameters[0].dtype).removeprefix("torch."),
        "determinism": engine.determinism,
        "n_cases": len(cases),
        "prompt_tokens": int(statistics.median(len(case.prompt_ids) for case in cases)),
        "output_tokens": int(statistics.median(outputs)),
        "chars_a_token": round(sum(len(case.after) for case in cases) / sum(outputs), 3),
    }


def describe_device(device: str) -> dict[str, Any]:
    """What the forwards run on; `load_before`: how many processes wanted a core in the minute before."""
    where = pick_device(device)
    is_cuda = where.type == "cuda"
    return {
        "kind": where.type,
        "name": torch.cuda.get_device_name(where) if is_cuda else str(hardware()["cpu"] or platform.machine()),
        "threads": torch.get_num_threads(),
        "cuda": torch.version.cuda if is_cuda else None,
        "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


# -- turns -------------------------------------------------------------------------------------------------------------
def groups_of(cases: Sequence[Case], batch: int, n_groups: int) -> dict[str, list[Case]]:
    """Each case alone; or `n_groups` groups of `batch` cases, taken in a circle: in a large batch some come twice."""
    if batch == 1:
        return {case.id: [case] for case in cases}
    return {f"group {i}": [cases[(i * batch + k) % len(cases)] for k in range(batch)] for i in range(n_groups)}


def undrafted_cap(n_tokens: int) -> Callable[[str], int | None]:
    """Undrafted contenders stop after so many tokens (0: never); others write whole outputs."""
    return lambda name: n_tokens if name in UNDRAFTED and n_tokens else None


def take_turns(
    contenders: Sequence[Any],
    groups: Mapping[str, Sequence[Case]],
    *,
    cap: Callable[[str], int | None],
    done: Container[tuple[str, str]] = (),
) -> Iterator[Any]:
    """What every contender's `run` gives for every group, in an order that rotates, so that a machine that slows down
    slows all; each once unmeasured before, on the first group.  The library's prompt lookup takes no batches.

    `cap(contender)` is where it stops each output (None: at its end); `done`: contenders and groups to leave out.
    """
    first = next(iter(groups.values()))
    able = [contender for contender in contenders if len(first) == 1 or not LOOKUP_TOKENS.get(contender.name)]
    todo = [(c.name, group) for group in groups for c in able if (c.name, group) not in done]
    for contender in able:
        if any(name == contender.name for name, _ in todo):
            contender.run(first, "warm-up", cap=WARM_UP_TOKENS)
    for i, (group, cases) in enumerate(groups.items()):
        at = i % len(able)
        for contender in (*able[at:], *able[:at]):
            if (contender.name, group) in todo:
                yield contender.run(cases, group, cap=cap(contender.name))

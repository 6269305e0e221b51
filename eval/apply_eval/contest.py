"""Composition: from the options of a run to its contestants, opened and ready."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from apply_eval.datasets import EditRecord
from apply_eval.decoders import METHODS, PROMPT_LOOKUP_TOKENS, HfGenerate, Vllm
from apply_eval.loop import DEFAULT_DRAFTERS, RunOptions
from apply_eval.runners import OwnService, Runner, alone, packed
from apply_eval.services import open_server
from apply_eval.summary import PLAIN, UNDRAFTED_PEER, median
from apply_eval.target import OpenTarget, open_target
from apply_service.build import build_runtime
from apply_service.errors import ApplyError, UnknownDrafter, UnsupportedParameter
from apply_service.registry import DRAFTERS, names
from apply_service.settings import Settings
from apply_service.target import Runtime

EXACT, SERVER = "exact", "server"
HF_PEERS = (UNDRAFTED_PEER, "hf-prompt-lookup")
PEERS = (*HF_PEERS, *METHODS)
PLAIN_SAMPLES = 3
ENGINE, GENERATE = "engine.plain()", "transformers generate()"
FASTER_OF_BOTH = f"the faster of {ENGINE} and {GENERATE}, sample by sample"


@dataclass(slots=True)
class Contest:
    """The contestants by name, the target's identity (None: a server's), and what `plain` is."""

    runners: dict[str, Runner]
    model: dict[str, Any] | None = None
    plain: dict[str, Any] | None = None

    def close(self) -> None:
        for runner in self.runners.values():
            runner.close()


def open_contest(options: RunOptions, records: Sequence[EditRecord], *, plain: dict[str, Any] | None = None) -> Contest:
    """Open everyone who takes part.  `plain`: what was chosen when the run was begun.  Raises ApplyError."""
    if options.server is not None:
        return Contest({runner.name: runner for runner in _open_servers(options)})
    if options.request.strategy == "exact":
        return _open_exact(options)
    drafters = known_drafters(DEFAULT_DRAFTERS if options.drafters is None else options.drafters)
    for name in options.peers:
        if name not in PEERS:
            remedy = f"name one of {', '.join(PEERS)}"
            raise UnsupportedParameter(f"no such peer: {name}", value=name, limit=list(PEERS), remedy=remedy)
    target = open_target(options.target, records, options.request)
    peers = {name: _open_peer(name, url, target, options) for name, url in options.peers.items()}
    contest = Contest({}, model=target.identity)
    if options.with_plain:
        contest.plain = plain or choose_plain(target, options, records)
        is_theirs = contest.plain["is"] == GENERATE
        contest.runners[PLAIN] = (
            HfGenerate(PLAIN, target.runtime, options=options.request)
            if is_theirs
            else _open_own(PLAIN, target.plain, options, drafter="none")
        )
    for name in drafters:
        contest.runners[name] = _open_own(name, target.runtime, options, drafter=name)
    contest.runners |= peers
    return contest


def _open_servers(options: RunOptions) -> Iterable[Runner]:
    """One contestant a drafter that was asked for by name, else the service as it is."""
    server = options.server
    assert server is not None
    if options.peers:
        message = "peers run on a target in this process"
        raise UnsupportedParameter(message, value="--peers", remedy="leave --server out")
    if options.drafters and server.dialect != "native":
        message = f"the dialect {server.dialect} can't name a drafter"
        raise UnsupportedParameter(message, value="--drafters", limit="native", remedy="leave it out")
    for drafter in options.drafters or (None,):
        yield open_server(drafter or SERVER, server, options.request, drafter=drafter)


def _open_exact(options: RunOptions) -> Contest:
    """The program alone: no model is loaded."""
    if options.drafters or options.peers:
        message = "strategy exact decodes nothing"
        raise UnsupportedParameter(message, value="--drafters, --peers", remedy="leave them out")
    return Contest({EXACT: _open_own(EXACT, build_runtime(Settings()), options, drafter=None)})


def _open_own(name: str, runtime: Runtime, options: RunOptions, *, drafter: str | None) -> OwnService:
    if options.concurrency == 1:
        return alone(name, runtime, options=options.request, drafter=drafter)
    return packed(name, runtime, options=options.request, drafter=drafter, concurrency=options.concurrency)


def _open_peer(name: str, url: str | None, target: OpenTarget, options: RunOptions) -> Runner:
    if name in METHODS:
        return Vllm(name, url, target.runtime, options=options.request)
    n_lookup = PROMPT_LOOKUP_TOKENS if name == "hf-prompt-lookup" else None
    return HfGenerate(name, target.runtime, options=options.request, n_lookup=n_lookup)


def known_drafters(wanted: Iterable[str]) -> tuple[str, ...]:
    """The drafters by name, each once; several in one name are joined by `+`.

    Raises:
        UnknownDrafter: there is no such drafter.
    """
    for name in wanted:
        if unknown := [part for part in name.split("+") if part not in DRAFTERS]:
            known = list(names(DRAFTERS))
            remedy = f"name one of {', '.join(known)}, or two joined by +"
            raise UnknownDrafter(f"no such drafter: {unknown[0]}", value=unknown[0], limit=known, remedy=remedy)
    return tuple(dict.fromkeys(wanted))


# -- plain -------------------------------------------------------------------------------------------------------------
def choose_plain(target: OpenTarget, options: RunOptions, records: Sequence[EditRecord]) -> dict[str, Any]:
    """Which undrafted run of the target is the fastest: our engine with one unpadded row a pass, or the library's
    `generate`.  Where that takes part as a peer, each sample's faster one counts; else both decode the smallest
    samples, and the median speed decides."""
    if UNDRAFTED_PEER in options.peers:
        note = f"both take part, the other as {UNDRAFTED_PEER}"
        return {"is": FASTER_OF_BOTH, "tok_s": {}, "n_samples": 0, "note": note}
    if options.concurrency > 1:
        note = "the library decodes one request at a time: no candidate at this concurrency"
        return {"is": ENGINE, "tok_s": {}, "n_samples": 0, "note": note}
    ours = alone(PLAIN, target.plain, options=options.request, drafter="none")
    theirs = HfGenerate(PLAIN, target.runtime, options=options.request)
    speeds: dict[str, list[float]] = {ENGINE: [], GENERATE: []}
    for record in sorted(records, key=lambda record: len(record.before) + len(record.after))[: 3 * PLAIN_SAMPLES]:
        with suppress(ApplyError):
            pair = [runner.answer(record).tok_s for runner in (ours, theirs)]
            for name, tok_s in zip(speeds, pair, strict=True):
                speeds[name] += [tok_s] if tok_s else []
        if len(speeds[ENGINE]) >= PLAIN_SAMPLES:
            break
    medians = {name: median(found) for name, found in speeds.items()}
    is_theirs = (medians[GENERATE] or 0.0) > (medians[ENGINE] or 0.0)
    note = "the faster of the two on the smallest samples"
    return {"is": GENERATE if is_theirs else ENGINE, "tok_s": medians, "n_samples": len(speeds[ENGINE]), "note": note}

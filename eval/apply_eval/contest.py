"""Composition: from the options of a run to its contestants, opened and ready."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from apply_eval.arguments import DEFAULT_DRAFTERS
from apply_eval.datasets import EditRecord
from apply_eval.decoders import METHODS, PROMPT_LOOKUPS, HfGenerate, Vllm
from apply_eval.loop import RunOptions
from apply_eval.runners import Runner, alone
from apply_eval.services import open_server
from apply_eval.statistics import median
from apply_eval.summary import PLAIN, UNDRAFTED_PEER
from apply_eval.target import OpenTarget, open_target
from apply_service.build import build_runtime
from apply_service.drafting.drafter import check_drafter
from apply_service.errors import ApplyError, UnsupportedParameter
from apply_service.settings import Settings

EXACT, SERVER, SERVICE = "exact", "server", "service"
PEERS = (UNDRAFTED_PEER, *PROMPT_LOOKUPS, *METHODS)
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
    server = options.server
    if server is not None:  # one contestant a drafter that was asked for by name, else the service as it is
        if options.peers:
            message = "peers run on a target in this process"
            raise UnsupportedParameter(message, value="--peers", remedy="leave --server out")
        if options.drafters and server.dialect != "native":
            message = f"the dialect {server.dialect} can't name a drafter"
            raise UnsupportedParameter(message, value="--drafters", limit="native", remedy="leave it out")
        wanted = options.drafters or (None,)
        return Contest({n or SERVER: open_server(n or SERVER, server, options.request, drafter=n) for n in wanted})
    if options.request.strategy == "exact":  # the program alone: no model is loaded
        if options.drafters or options.peers:
            message = "strategy exact decodes nothing"
            raise UnsupportedParameter(message, value="--drafters, --peers", remedy="leave them out")
        return Contest({EXACT: alone(EXACT, build_runtime(Settings()), options=options.request, drafter=None)})
    default = DEFAULT_DRAFTERS if options.request.strategy == "model" else (SERVICE,)  # what is scored takes no drafts
    drafters = tuple(dict.fromkeys(default if options.drafters is None else options.drafters))
    for name in options.drafters or ():
        check_drafter(name, has_draft_model=False)
    for name in options.peers:
        if name not in PEERS:
            remedy = f"name one of {', '.join(PEERS)}"
            raise UnsupportedParameter(f"no such peer: {name}", value=name, limit=list(PEERS), remedy=remedy)
    target = open_target(options.target, records, options.request)
    peers: dict[str, Runner] = {}
    for name, url in options.peers.items():
        if name in METHODS:
            peers[name] = Vllm(name, url, target.runtime, options=options.request)
        else:
            n_lookup = PROMPT_LOOKUPS.get(name)
            peers[name] = HfGenerate(name, target.runtime, options=options.request, n_lookup=n_lookup)
    contest = Contest({}, model=target.identity)
    if options.with_plain:
        contest.plain = plain or choose_plain(target, options, records)
        contest.runners[PLAIN] = (
            HfGenerate(PLAIN, target.runtime, options=options.request)
            if contest.plain["is"] == GENERATE
            else alone(PLAIN, target.plain, options=options.request, drafter="none")
        )
    for name in drafters:
        drafter = None if name == SERVICE else name
        contest.runners[name] = alone(name, target.runtime, options=options.request, drafter=drafter)
    contest.runners |= peers
    return contest


# -- plain -------------------------------------------------------------------------------------------------------------
def choose_plain(target: OpenTarget, options: RunOptions, records: Sequence[EditRecord]) -> dict[str, Any]:
    """Which undrafted run of the target is the fastest: our engine with one unpadded row a pass, or the library's
    `generate`.  Where that takes part as a peer, each sample's faster one counts; else both decode the smallest
    samples, and the median speed decides."""
    if UNDRAFTED_PEER in options.peers:
        note = f"both take part, the other as {UNDRAFTED_PEER}"
        return {"is": FASTER_OF_BOTH, "tok_s": {}, "n_samples": 0, "note": note}
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

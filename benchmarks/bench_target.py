"""A target of the benchmark: loaded, described, told the known answers if it replays, and its contenders."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any

import torch

from apply_eval.provenance import hardware
from apply_service.build import load_target
from apply_service.drafting.chain import check_drafter
from apply_service.engine.loading import pick_device
from apply_service.engine.replay import ReplayEngine
from apply_service.engine.torch_local import TorchEngine
from apply_service.settings import Settings
from apply_service.target import Target
from benchmarks.bench_case import Case
from benchmarks.bench_summary import PEER
from benchmarks.engine_runs import EngineContender
from benchmarks.peer_runs import LOOKUP_TOKENS, PeerContender

PLAIN_ENGINE, PLAIN_PEER = "plain_engine", "hf_plain"
OURS = ("prompt_lookup", "suffix", "original", "original_snippet", "merged_edit", "merged_edit+suffix")
PEERS = (PLAIN_PEER, PEER)
CONTENDERS = (PLAIN_ENGINE, *PEERS, *OURS)


@dataclass(frozen=True, slots=True)
class BenchTarget:
    """One model, ready to be raced."""

    target: Target
    engine: TorchEngine

    def contenders(self, wanted: Sequence[str]) -> list[EngineContender | PeerContender]:
        """Those of `wanted`, drafters of ours by their names.

        Raises:
            UnknownDrafter, UnsupportedParameter: no such drafter, or it needs a draft model.
        """
        plain = Target(self.target.name, self.engine.plain(), self.target.prompt_format)
        others: dict[str, EngineContender | PeerContender] = {
            PLAIN_ENGINE: EngineContender(PLAIN_ENGINE, plain, "none"),
            PLAIN_PEER: PeerContender(PLAIN_PEER, self.target, self.engine),
            PEER: PeerContender(PEER, self.target, self.engine, LOOKUP_TOKENS),
        }
        for name in wanted:
            if name not in others:
                check_drafter(name, has_draft_model=False)
        return [others.get(name) or EngineContender(name, self.target, name) for name in wanted]

    def expect(self, cases: Sequence[Case]) -> None:
        """Tell a replay target what it is to write."""
        for case in cases:
            if isinstance(self.engine, ReplayEngine) and case.answer_ids is not None:
                self.engine.answers.expect(case.prompt_ids, case.answer_ids)

    def describe(self, cases: Sequence[Case], n_too_long: int) -> dict[str, Any]:
        """The target and its edits, as they stand in the results."""
        outputs = [case.n_output if case.answer_ids is None else len(case.answer_ids) for case in cases]
        parameters = list(self.engine.model.parameters())
        return {
            "name": self.target.name,
            "is_replay": isinstance(self.engine, ReplayEngine),
            "n_params": sum(parameter.numel() for parameter in parameters),
            "dtype": str(parameters[0].dtype).removeprefix("torch."),
            "determinism": self.engine.determinism,
            "pass_ms": {str(n_rows): round(1e3 * s, 3) for n_rows, s in sorted(self.engine.pass_times.items())},
            "n_cases": len(cases),
            "n_too_long": n_too_long,
            "prompt_tokens": int(statistics.median(len(case.prompt_ids) for case in cases)),
            "output_tokens": int(statistics.median(outputs)),
            "chars_a_token": round(sum(len(case.after) for case in cases) / sum(outputs), 3),
        }


def load(name: str, settings: Settings) -> BenchTarget:
    """A target whose passes are measured now, not what an earlier start found.

    Raises:
        ModelError, UnknownModel: the model can't be used.
    """
    with TemporaryDirectory() as folder:
        target = load_target(name, replace(settings, state_dir=folder))
    assert isinstance(target.engine, TorchEngine)
    return BenchTarget(target, target.engine)


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

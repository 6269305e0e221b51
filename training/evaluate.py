"""How well the network decides: teacher-forced, so one pass a case.

Under the constraint greedy decoding is exact if and only if every decision is right given the right ones before it, so
`all_right` is the constrained exact-match share (another way to write the same text counts as wrong here: a lower
bound).  `free` asks the same of every token over the whole vocabulary.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from apply_service.prompts.compact import Compact, LineConstraint
from apply_service.protocols import TokenSet
from apply_service.types import LineOp
from training.corpus import Edit, read_edits, split_by_repository
from training.export import load_network, load_run
from training.initialisation import initialise
from training.model import Network, Shape
from training.samples import Ints, SampleMaker, SampleMix, contested_steps, matches_of

MAX_TOKENS = 8192
UNTRAINED = "untrained"


class EvalCase(NamedTuple):
    """`ids` [n_prompt + n_output]; `allowed[i]`: what the constraint leaves for output token i; `contested`: the
    output tokens where obeying the hints would go wrong; `turns`: the decisions that are no `keep` after a `keep`."""

    group: str
    ids: Ints
    n_prompt: int
    allowed: Sequence[TokenSet | None]
    contested: frozenset[int]
    turns: frozenset[int] = frozenset()


@dataclass(slots=True)
class Tally:
    """Counts over cases of one group."""

    n: int = 0
    decisions: int = 0
    decisions_right: int = 0
    contested: int = 0
    contested_right: int = 0
    turns: int = 0
    turns_right: int = 0
    all_right: int = 0
    tokens: int = 0
    tokens_right: int = 0
    free: int = 0

    def as_dict(self) -> dict[str, float]:
        return {
            "n": self.n,
            "decision_accuracy": round(self.decisions_right / max(1, self.decisions), 5),
            "contested": self.contested,
            "contested_accuracy": round(self.contested_right / max(1, self.contested), 4),
            "turns": self.turns,
            "turn_accuracy": round(self.turns_right / max(1, self.turns), 4),
            "all_right": round(self.all_right / max(1, self.n), 4),
            "token_accuracy": round(self.tokens_right / max(1, self.tokens), 5),
            "free": round(self.free / max(1, self.n), 4),
        }


@dataclass(slots=True)
class Score:
    """A tally for each group of cases."""

    groups: dict[str, Tally] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {name: tally.as_dict() for name, tally in sorted(self.groups.items())}


def score_cases(network: Network, cases: Iterable[EvalCase]) -> Score:
    """Score every case, one at a time, in float32."""
    score = Score()
    for case in cases:
        _count(score.groups.setdefault(case.group, Tally()), network, case)
    return score


@torch.inference_mode()
def _count(tally: Tally, network: Network, case: EvalCase) -> None:
    ids = torch.from_numpy(case.ids)[None].to(next(network.parameters()).device)
    positions = torch.arange(ids.shape[1], device=ids.device)[None]
    rows = torch.arange(case.n_prompt - 1, ids.shape[1] - 1, device=ids.device)
    logits = network.logits(ids, positions, rows).cpu().numpy()
    output = case.ids[case.n_prompt :]
    free = logits.argmax(axis=1) == output
    choices = [(at, allowed) for at, allowed in enumerate(case.allowed) if allowed is not None and len(allowed) > 1]
    right = [bool(allowed[logits[at][allowed].argmax()] == output[at]) for at, allowed in choices]
    tally.n += 1
    tally.decisions += len(right)
    tally.decisions_right += sum(right)
    for (at, _), is_right in zip(choices, right, strict=True):
        if at in case.contested:
            tally.contested += 1
            tally.contested_right += is_right
        if at in case.turns:
            tally.turns += 1
            tally.turns_right += is_right
    tally.all_right += all(right)
    tally.tokens += len(output)
    tally.tokens_right += int(free.sum())
    tally.free += bool(free.all())


def make_eval_case(
    compact: Compact,
    *,
    group: str,
    prompt: Sequence[int],
    truth: Sequence[LineOp],
    original: Sequence[str],
    update: Sequence[str],
    hinted: Sequence[LineOp],
) -> EvalCase | None:
    """A case for `truth`; None where it is too long or the constraint forbids it."""
    output = compact.encode_ops(truth)
    if len(prompt) + len(output) > MAX_TOKENS:
        return None
    constraint = LineConstraint(compact.vocabulary, original, update, matches_of(hinted))
    allowed = constraint.masks([], output[:-1])
    if any(tokens is None or token not in tokens for token, tokens in zip(output, allowed, strict=True)):
        return None
    steps = [at for at, token in enumerate(output) if token >= compact.vocabulary.n_text]
    contested = frozenset(at for at, bad in zip(steps, contested_steps(truth, hinted), strict=True) if bad)
    kinds = ["keep", *(op.kind for op in truth)]
    turns = frozenset(at for at, pair in zip(steps, pairwise(kinds), strict=False) if pair != ("keep", "keep"))
    return EvalCase(group, np.array([*prompt, *output]), len(prompt), allowed, contested, turns)


GROUPS = ("merger", "spoilt", "none")


def validation_cases(
    edits: Sequence[Edit],
    compact: Compact,
    *,
    n_cases: int,
    seed: int,
    max_lines: int = 60,
    groups: Collection[str] = GROUPS,
) -> list[EvalCase]:
    """Cases from held-out repositories, a third each with the merger's hints, spoilt hints and none; of `groups`."""
    mixes = {
        "merger": SampleMix(no_hints=0, spoilt_hints=0, position_gaps=0, permuted=0),
        "spoilt": SampleMix(no_hints=0, spoilt_hints=1, position_gaps=0, permuted=0),
        "none": SampleMix(no_hints=1, spoilt_hints=0, position_gaps=0, permuted=0),
    }
    cases: list[EvalCase] = []
    for name, mix in mixes.items():
        if name not in groups:
            continue
        maker = SampleMaker(edits, compact, seed=seed, mix=mix)
        for index in range(n_cases // 3):
            listing = maker.listing(index, max_lines=max_lines)
            if listing is not None:
                case, prompt, hinted, _ = listing
                made = make_eval_case(
                    compact,
                    group=name,
                    prompt=prompt,
                    truth=case.truth,
                    original=case.edit.before.split("\n"),
                    update=case.update_lines,
                    hinted=hinted or (),
                )
                cases += [made] if made is not None else []
    return cases


def load_target(name: str, compact: Compact) -> Network:
    """A model directory, a checkpoint, or `untrained`: the control, circuits and nothing else."""
    if name == UNTRAINED:
        network = Network(Shape(compact.vocabulary.n_tokens))
        initialise(network, compact.vocabulary, seed=0)
        return network
    path = Path(name)
    return load_network(path) if path.is_dir() else load_run(path)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description="score a model on the held-out part of training data")
    parser.add_argument("--model", required=True, help="a model directory, a checkpoint, or `untrained`")
    parser.add_argument("--tokenizer-dir", type=Path, required=True)
    parser.add_argument(
        "--windows", type=Path, required=True, help="the data; its held-out part is sketched and scored"
    )
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--max-lines", type=int, default=40)
    arguments = parser.parse_args()
    compact = Compact.from_directory(arguments.tokenizer_dir)
    network = load_target(arguments.model, compact)
    _, held_out = split_by_repository(read_edits(arguments.windows))
    cases = validation_cases(held_out, compact, n_cases=arguments.cases, seed=11, max_lines=arguments.max_lines)
    print(json.dumps(score_cases(network, cases).as_dict()))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()

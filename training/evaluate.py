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

from apply_eval.line_diff import diff_lines
from apply_service.edits.lazy_snippet import LazySnippet
from apply_service.errors import ApplyError
from apply_service.prompts.compact import Compact, hints_of
from apply_service.prompts.compact_lines import LineConstraint
from apply_service.protocols import EditContext, TokenSet
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
    places = [at for at, allowed in enumerate(case.allowed) if allowed is not None and len(allowed) > 1]
    right = [bool(_choice(logits[at], case.allowed[at]) == output[at]) for at in places]
    tally.n += 1
    tally.decisions += len(right)
    tally.decisions_right += sum(right)
    for at, is_right in zip(places, right, strict=True):
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


def _choice(row: np.ndarray[Any, Any], allowed: TokenSet | None) -> int:
    assert allowed is not None
    return int(allowed[int(row[allowed].argmax())])


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
                cases += filter(
                    None,
                    [
                        make_eval_case(
                            compact,
                            group=name,
                            prompt=prompt,
                            truth=case.truth,
                            original=case.edit.before.split("\n"),
                            update=case.update_lines,
                            hinted=hinted or (),
                        )
                    ],
                )
    return cases


def read_records(path: Path, *, max_lines: int, updates: Path | None = None) -> list[dict[str, Any]]:
    """Evaluation records of at most `max_lines` lines, with other updates joined by id if given."""
    rows = [json.loads(line) for line in path.open(encoding="utf-8")]
    if updates is not None:
        other = {row["id"]: row["update"] for row in map(json.loads, updates.open(encoding="utf-8"))}
        rows = [row | {"update": other[row["id"]]} for row in rows if row["id"] in other]
    return [row for row in rows if row["before"].count("\n") <= max_lines]


def record_case(row: dict[str, Any], compact: Compact) -> EvalCase | None:
    """The case of one record with the merger's hints; None where the result can't be told with the merger's lines."""
    before, after = (row[key].replace("\r\n", "\n") for key in ("before", "after"))
    try:
        prediction = LazySnippet().predict(before, row["update"], EditContext(row["path"], row["language"]))
    except ApplyError:
        return None
    is_right = prediction.text == after
    truth = prediction.ops if is_right else true_ops(before, after, prediction.update_lines)
    if truth is None:
        return None
    original, update = before.split("\n"), prediction.update_lines
    hints = hints_of(compact.vocabulary, prediction.ops, len(original), len(update))
    return make_eval_case(
        compact,
        group="merger right" if is_right else "merger wrong",
        prompt=compact.encode_listing(original, update, hints),
        truth=truth,
        original=original,
        update=update,
        hinted=prediction.ops,
    )


def true_ops(before: str, after: str, update_lines: Sequence[str]) -> tuple[LineOp, ...] | None:
    """Operations that lead from `before` to `after` with lines of the update; None where a new line is not among
    them in order."""
    old, new = before.split("\n"), after.split("\n")
    ops: list[LineOp] = []
    at = pointer = 0
    for hunk in [*diff_lines(old, new), None]:
        stop = len(old) if hunk is None else hunk.a0
        for line in range(at, stop):
            ops.append(LineOp("keep", line, None, old[line]))
        if hunk is None:
            break
        ops += [LineOp("drop", line, None, old[line]) for line in range(hunk.a0, hunk.a1)]
        for text in new[hunk.b0 : hunk.b1]:
            found = next((j for j in range(pointer, len(update_lines)) if update_lines[j] == text), None)
            if found is None:
                return None
            ops.append(LineOp("take", None, found, text))
            pointer = found + 1
        at = hunk.a1
    return tuple(ops)


def load_target(name: str, compact: Compact) -> Network:
    """A model directory, a checkpoint, or `untrained`: the control, circuits and nothing else."""
    if name == UNTRAINED:
        network = Network(Shape(compact.vocabulary.n_tokens))
        initialise(network, compact.vocabulary, seed=0)
        return network
    path = Path(name)
    return load_network(path) if path.is_dir() else load_run(path)[0]


def score_records(network: Network, compact: Compact, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Exact-match counts over evaluation records; a record that can't be told counts as wrong."""
    cases = [case for case in (record_case(row, compact) for row in rows) if case is not None]
    score = score_cases(network, cases)
    return {
        "n": len(rows),
        "exact_constrained": sum(tally.all_right for tally in score.groups.values()),
        "exact_free": sum(tally.free for tally in score.groups.values()),
        **score.as_dict(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="score a model on evaluation records, or on held-out training data")
    parser.add_argument("--model", required=True, help="a model directory, a checkpoint, or `untrained`")
    parser.add_argument("--tokenizer-dir", type=Path, required=True)
    parser.add_argument("--records", type=Path, help="JSONL with before, after, update")
    parser.add_argument("--updates", type=Path, help="JSONL with other updates for the records, by id")
    parser.add_argument("--windows", type=Path, help="training data: its held-out part is sketched and scored")
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--min-lines", type=int, default=0)
    parser.add_argument("--max-lines", type=int, default=40)
    arguments = parser.parse_args()
    compact = Compact.from_directory(arguments.tokenizer_dir)
    network = load_target(arguments.model, compact)
    if arguments.windows is not None:
        _, held_out = split_by_repository(read_edits(arguments.windows))
        cases = validation_cases(held_out, compact, n_cases=arguments.cases, seed=11, max_lines=arguments.max_lines)
        print(json.dumps(score_cases(network, cases).as_dict()))
    if arguments.records is not None:
        rows = read_records(arguments.records, max_lines=arguments.max_lines, updates=arguments.updates)
        rows = [row for row in rows if row["before"].count("\n") >= arguments.min_lines]
        print(json.dumps(score_records(network, compact, rows)))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()

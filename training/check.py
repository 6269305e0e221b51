"""`python -m training.check`: whether training taught the network to decide.  A trained run passes; the untrained
control, scored on the same cases in the same breath, must fail, else the check itself is worth nothing.

The network starts as a machine that copies and obeys hints, so it has 95% of the tokens and, with hints, nearly all
decisions right before the first update.  What it can't do then is decide by itself: the check is on prompts without
hints, and counts turns: the decisions that are no `keep` after a `keep`.  Always keeping gets none of them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from apply_service.prompts.compact import Compact
from training.corpus import read_edits, split_by_repository
from training.evaluate import UNTRAINED, EvalCase, Tally, load_target, score_cases, validation_cases
from training.export import load_run
from training.train import MODEL_DIR

LEAST_TURNS = 0.55
"""Share of the turns that a run has to get right."""
LEAST_GAIN = 0.1
"""By how much it has to be better than the control, which has 38% to 48%."""
MAX_LINES = 40
GROUP = "none"
"""Prompts without hints."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A network's shares of right decisions and right turns, without hints."""

    n_cases: int
    n_turns: int
    decisions: float
    turns: float

    @classmethod
    def of(cls, tally: Tally) -> Checked:
        return cls(
            tally.n,
            tally.turns,
            round(tally.decisions_right / max(1, tally.decisions), 4),
            round(tally.turns_right / max(1, tally.turns), 4),
        )


def unhinted_cases(data: Path, compact: Compact, *, n_cases: int, max_lines: int = MAX_LINES) -> list[EvalCase]:
    """Cases without hints from what training leaves out of `data`."""
    held_out = split_by_repository(read_edits(data))[1]
    made = validation_cases(held_out, compact, n_cases=3 * n_cases, seed=23, max_lines=max_lines, groups=(GROUP,))
    return [case for case in made if case.group == GROUP]


def check(name: str, compact: Compact, cases: Sequence[EvalCase]) -> Checked:
    """Score a model directory, a checkpoint, or `untrained`."""
    return Checked.of(score_cases(load_target(name, compact), cases).groups.get(GROUP, Tally()))


def verdict(found: Checked, control: Checked) -> list[str]:
    """Why the check fails; empty where it passes."""
    reasons = []
    if found.n_turns == 0:
        return ["there is no case to check: use more data"]
    if found.turns < LEAST_TURNS:
        reasons.append(f"{found.turns:.1%} of the turns are right, {LEAST_TURNS:.0%} are wanted")
    if found.turns < control.turns + LEAST_GAIN:
        reasons.append(f"the untrained control has {control.turns:.1%}: that is less than {LEAST_GAIN:.0%} below")
    return reasons


def main() -> int:
    parser = argparse.ArgumentParser(description="check that a run learnt to decide, against the untrained control")
    parser.add_argument("--model", required=True, help="a run's checkpoint, a model directory, or `untrained`")
    parser.add_argument("--data", type=Path, default=Path(), help="what it was trained on")
    parser.add_argument("--tokenizer-dir", type=Path, default=MODEL_DIR)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    compact = Compact.from_directory(arguments.tokenizer_dir)
    cases = unhinted_cases(arguments.data, compact, n_cases=arguments.cases)
    found, control = (check(name, compact, cases) for name in (arguments.model, UNTRAINED))
    reasons = verdict(found, control)
    result: dict[str, Any] = {"passed": not reasons, "reasons": reasons}
    result |= {"found": asdict(found), "control": asdict(control), "least_turns": LEAST_TURNS}
    if arguments.model != UNTRAINED and Path(arguments.model).is_file():
        progress = load_run(Path(arguments.model))[1]
        result |= {"steps": progress.step, "tokens": progress.tokens, "minutes": round(progress.seconds / 60, 2)}
    print(json.dumps(result, indent=1))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main())

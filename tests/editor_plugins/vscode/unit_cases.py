"""Random edits of random documents for the VS Code plugin's fuzzer, with the edits that the service computes for them.

    python -m tests.editor_plugins.vscode.unit_cases FIRST_SEED N

Prints one case a line as JSON.  A document in that editor has one kind of line end and no byte-order mark: originals
are as it would send them, results at times not, so that it must refuse them.  Expected texts are put together from
whole lines, not from the answer's edits.
"""

from __future__ import annotations

import json
import random
import re
import sys
from typing import Any

from apply_service.text.diff import text_hunks
from tests.editor_plugins.nvim.test_fuzz import Case, random_case

ANY_END = re.compile("\r\n|\r|\n")


def line_end(text: str) -> str:
    """What the editor makes of a text's line ends: "\\r\\n" where more than half have a carriage return."""
    ends = ANY_END.findall(text)
    return "\r\n" if 2 * sum("\r" in end for end in ends) > len(ends) else "\n"


def groups_of(rng: random.Random, n_hunks: int) -> list[list[int]]:
    """Hunks (1-based) that are accepted together, some of them or all, in any order."""
    order = list(range(1, n_hunks + 1))
    if rng.random() < 0.5:
        order = rng.sample(order, rng.randint(0, n_hunks))
    cut = rng.randint(0, len(order))
    return [group for group in (order[:cut], order[cut:]) if group]


def editor_case(seed: int) -> Case:
    rng, case = random.Random(seed), random_case(seed)
    original, merged = case.original.removeprefix("\ufeff"), case.merged.removeprefix("\ufeff")
    end = line_end(original)
    original = ANY_END.sub(end, original)
    if rng.random() < 0.75:
        merged = ANY_END.sub(end, merged)
    return Case(seed, end, original, merged, groups_of(rng, len(text_hunks(original, merged))))


def as_json(case: Case) -> dict[str, Any]:
    steps = [case.groups[:n] for n in range(len(case.groups) + 1)]
    texts = [Case(case.seed, case.style, case.original, case.merged, step).accepted for step in steps]
    return {
        "seed": case.seed,
        "end": case.style,
        "answer": json.loads(case.answer),
        "groups": case.groups,
        "texts": texts,
    }


if __name__ == "__main__":
    for seed in range(int(sys.argv[1]), int(sys.argv[1]) + int(sys.argv[2])):
        print(json.dumps(as_json(editor_case(seed))))

"""Random edits of random buffers, in one Neovim: what it then writes is the service's result, and undo takes it back.

The expected texts are put together from whole lines, not from the answer's edits.
"""

import base64
import itertools
import json
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from apply_service.api.answer import NativeAnswer
from apply_service.text.diff import LINE, text_hunks
from editor_plugins.contract.cases import EditCase, result_of
from tests.editor_plugins.nvim.editor import arguments

N_EDITS = 1000
FIRST_SEED = 20_261_121
WORDS = ["x", "return", "é", "😀", "𝔘𝔫", "\t", "\u2028", "\x0c", "  ", "日本", "a\u0301", "=", "🇨🇭", '"', "\\", "\x01"]
ENDS = {"unix": ["\n"], "dos": ["\r\n"], "mixed": ["\n", "\r\n"], "stray": ["\n", "\n", "\r"], "mac": ["\r"]}


@dataclass(frozen=True)
class Case:
    seed: int
    style: str
    original: str
    merged: str
    groups: list[list[int]]

    @property
    def answer(self) -> str:
        case = EditCase(str(self.seed), "", self.original, "", self.merged)
        return NativeAnswer.of(result_of(case), with_bytes=False).model_dump_json()

    @property
    def accepted(self) -> str:
        """The merged lines of the accepted hunks among the original's lines."""
        old, new = LINE.findall(self.original), LINE.findall(self.merged)
        wanted, at, pieces = {i for group in self.groups for i in group}, 0, []
        for i, hunk in enumerate(text_hunks(self.original, self.merged), 1):
            a0, a1, b0, b1 = hunk.lines
            pieces += old[at:a0] + (new[b0:b1] if i in wanted else old[a0:a1])
            at = a1
        return "".join(pieces + old[at:])


def random_line(rng: random.Random, ends: list[str]) -> str:
    return "".join(rng.choices(WORDS, k=rng.randrange(6))) + rng.choice(ends)


def mutated(rng: random.Random, lines: list[str], ends: list[str]) -> list[str]:
    """Lines changed in part, dropped, added."""
    kept = []
    for line in lines:
        what = rng.random()
        if what < 0.1:
            kept += [random_line(rng, ends), line]
        elif what < 0.2:
            continue
        elif what < 0.35:
            at = rng.randrange(len(line.rstrip("\r\n")) + 1)
            kept.append(line[:at] + rng.choice(WORDS) + line[at:])
        else:
            kept.append(line)
    return kept


def finished(rng: random.Random, lines: list[str]) -> str:
    """The text, at times without its last line end."""
    text = "".join(lines)
    return text.rstrip("\r\n") if rng.random() < 0.25 else text


def random_case(seed: int) -> Case:
    rng = random.Random(seed)
    style = rng.choice([*ENDS, "unix", "dos"])
    ends = ENDS[style]
    lines = [random_line(rng, ends) for _ in range(rng.randrange(25))]
    changed = [] if rng.random() < 0.02 else mutated(rng, lines, ends)
    bom = "\ufeff" if rng.random() < 0.15 else ""
    original, merged = bom + finished(rng, lines), bom + finished(rng, changed)
    n_hunks = len(text_hunks(original, merged))
    order = list(range(1, n_hunks + 1))
    if rng.random() < 0.5:
        rng.shuffle(order)
        order = order[: rng.randint(0, n_hunks)]
    cut = rng.randint(0, len(order))
    return Case(seed, style, original, merged, [group for group in (order[:cut], order[cut:]) if group])


def run_all(cases: list[Case], folder: Path) -> list[dict[str, Any]]:
    for case in cases:
        (folder / str(case.seed)).write_bytes(case.original.encode())
    job = [
        {"seed": str(case.seed), "style": case.style, "answer": case.answer, "groups": case.groups} for case in cases
    ]
    (folder / "cases.json").write_text(json.dumps({"folder": str(folder), "cases": job}))
    script = str(Path(__file__).with_name("fuzz.lua"))
    argv = arguments("--headless", "-l", script, str(folder / "cases.json"), str(folder / "results.json"))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[dict[str, Any]] = json.loads((folder / "results.json").read_text())
    return found


def holds_what_dos_cannot(text: str) -> bool:
    return "\n" in text.replace("\r\n", "")


def is_as_promised(case: Case, result: dict[str, Any]) -> bool:
    original, accepted = case.original.encode(), case.accepted.encode()
    if "fault" in result or base64.b64decode(result["sent"]) != original:
        return False
    if result["notes"]:
        # Refused: only where the buffer's format cannot hold what was asked for at some step.
        return result["fileformat"] == "dos" and holds_what_dos_cannot(case.merged + case.accepted)
    texts = [base64.b64decode(result[name]) for name in ("accepted", "undone", "redone")]
    n_steps = int(bool(case.groups))
    return texts == [accepted, original, accepted] and result["n_steps"] == n_steps


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", [FIRST_SEED])
def test_random_edits(first_seed: int, tmp_path: Path) -> None:
    cases = [random_case(seed) for seed in range(first_seed, first_seed + N_EDITS)]
    results = run_all(cases, tmp_path)
    pairs = list(zip(cases, results, strict=True))
    broken = [(case, result) for case, result in pairs if not is_as_promised(case, result)]
    print("seeds:", first_seed, "to", first_seed + N_EDITS - 1, "broken:", [case.seed for case, _ in broken])
    assert not broken, list(itertools.islice(broken, 2))
    assert sum(bool(result["notes"]) for result in results) < N_EDITS // 20
    assert sum(result.get("n_coarse", 0) for result in results) < N_EDITS // 20
    assert {result["fileformat"] for result in results} == {"unix", "dos", "mac"}

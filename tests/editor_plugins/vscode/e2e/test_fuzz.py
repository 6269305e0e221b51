"""Random edits of random files, decided at random, in the real editor: what is accepted is there, byte for byte, and
undoing it brings back the file."""

import os
import random
from dataclasses import dataclass

import pytest

from tests.editor_plugins.vscode.e2e.editor import Editor
from tests.editor_plugins.vscode.e2e.test_proposals import replaced

pytestmark = pytest.mark.slow

N_SEEDS = int(os.environ.get("VSCODE_FUZZ_SEEDS", "1"))
N_CASES = int(os.environ.get("VSCODE_FUZZ_CASES", "5"))  # of a seed
WORDS = ("alpha", "\t", "  ", "é", "😀", "𝔘", "'$x'", "\\n", "日本", "e\u0301", "</code>", "`", "{", "}", "👩‍👩‍👧")


@dataclass(frozen=True)
class Change:
    """Lines `first..end` of the file (half-open) give way to others."""

    first: int
    end: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    lines: tuple[str, ...]
    changes: tuple[Change, ...]
    line_end: str
    has_final_end: bool

    def text(self, accepted: set[int]) -> bytes:
        """The file with these changes."""
        lines = list(self.lines)
        for index, change in reversed(list(enumerate(self.changes))):
            if index in accepted:
                lines[change.first : change.end] = change.lines
        return (self.line_end.join(lines) + (self.line_end if self.has_final_end else "")).encode()

    @property
    def snippet(self) -> str:
        blocks = (
            replaced("".join(f"{line}\n" for line in self.lines[c.first : c.end]), "".join(f"{x}\n" for x in c.lines))
            for c in self.changes
        )
        return "".join(blocks)


def draw_case(rng: random.Random) -> Case:
    """Changes lie two lines or more apart, so that each is a hunk of its own."""
    lines = tuple(f"{n}: {draw_words(rng)}" for n in range(rng.randint(8, 40)))
    changes, at = [], rng.randint(0, 2)
    while at < len(lines) and len(changes) < 4:
        end = min(len(lines), at + rng.randint(1, 3))
        new = tuple(f"new {at} {n} {draw_words(rng)}" for n in range(rng.randint(1, 3)))
        changes.append(Change(at, end, (lines[at], *new) if rng.random() < 0.3 and end == at + 1 else new))
        at = end + rng.randint(2, 9)
    return Case(lines, tuple(changes), rng.choice(("\n", "\r\n")), rng.random() < 0.7)


def draw_words(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(0, 4)))


def test_random_edits_decided_at_random(editor: Editor) -> None:
    given = os.environ.get("VSCODE_FUZZ_SEED")
    seeds = [int(given)] if given else random.SystemRandom().sample(range(10**9), N_SEEDS)
    for seed in seeds:
        print(f"VSCODE_FUZZ_SEED={seed}")
        rng = random.Random(seed)
        for number in range(N_CASES):
            check_case(editor, draw_case(rng), rng, f"fuzz{seed}_{number}.txt")


def check_case(editor: Editor, case: Case, rng: random.Random, name: str) -> None:
    n_hunks = len(case.changes)
    accepted = {index for index in range(n_hunks) if rng.random() < 0.6}
    is_hasty = rng.random() < 0.5  # who presses all keys at once does not look at what they do
    editor.open(name, case.text(set()))
    editor.apply(case.snippet)
    editor.wait_for_status(f"{n_hunks} hunk")
    for index in range(n_hunks):
        if index or case.changes[0].first:  # the cursor stands in a hunk on the first line
            editor.press("Alt+F5")
        editor.press("Control+Alt+y" if index in accepted else "Control+Alt+n")
        left = n_hunks - index - 1
        if not is_hasty or not left:
            editor.wait_for_status(f"{left} hunk" if left else "ready")
    assert editor.save(name) == case.text(accepted), case
    for _ in accepted:
        editor.press("Control+z")
    assert editor.save(name) == case.text(set()), case
    editor.command("View: Close Editor")
